"""`load_project`: instructions, facts and open tasks of a folder, read when a session begins."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from clew.extensions.project.facts import ProjectFacts, find_facts
from clew.extensions.project.instruction_roots import InstructionRoots, find_roots
from clew.extensions.project.instructions import InstructionKind, Instructions, load_instructions
from clew.extensions.project.tasks import load_task_context

_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*(.*)$")
_WANTED = re.compile(r"compact\s+instructions", re.IGNORECASE)


class ProjectContext(Struct, frozen=True, kw_only=True):
    """What a session knows about its project before the first prompt."""

    agents_md: str
    """The AGENTS.md files that apply, outermost first, each in a tag with its path."""
    claude_md: str
    """The same for CLAUDE.md; a file that is both is only in `agents_md`."""
    compact_instructions: str
    """Instructions for summaries, from the nearest file that has them."""
    facts: ProjectFacts
    tasks: str
    """The open tasks, without a heading."""
    warnings: tuple[str, ...] = ()
    """What could not be used and why, one sentence each."""


def load_project(
    cwd: Path, *, user_home: Path, clew_home: Path, clock: Callable[[], float] = time.time
) -> ProjectContext:
    """Read the instructions, facts and open tasks for `cwd`.

    Nothing is run or written, and no file makes this fail: warnings list what cannot be used.

    Args:
        cwd: The working folder.
        user_home: The user's home folder; folders above it are not searched.
        clew_home: Clew's folder of the user, which may have an AGENTS.md for all projects.
        clock: Returns the time, in seconds since the epoch.
    """
    roots = find_roots(cwd, user_home=user_home, clew_home=clew_home)
    notes = load_instructions(roots)
    facts = find_facts(roots, clock=clock)
    tasks, problems = _tasks(roots, facts.branch)
    return ProjectContext(
        agents_md=notes.text(InstructionKind.AGENTS),
        claude_md=notes.text(InstructionKind.CLAUDE),
        compact_instructions=_to_keep(notes),
        facts=facts,
        tasks=tasks,
        warnings=(*notes.warnings, *problems),
    )


def find_compact_instructions(notes: str) -> str:
    """Return the section "Compact Instructions" of a project's notes, or an empty string.

    It ends at the next heading of the same or a higher level.
    """
    level = 0
    fence = ""
    found: list[str] = []
    for line in notes.splitlines():
        fence = _fence(line, fence)
        heading = None if fence else _HEADING.match(line)
        if level and heading and len(heading.group(1)) <= level:
            break
        if level:
            found.append(line)
        elif heading and _WANTED.search(heading.group(2)):
            level = len(heading.group(1))
    return "\n".join(found).strip()


def _fence(line: str, fence: str) -> str:
    """Return the code fence that is open after `line`; headings inside do not count."""
    found = _FENCE.match(line)
    if not fence:
        return found.group(1) if found else ""
    closes = found and found.group(1).startswith(fence) and not found.group(2)
    return "" if closes else fence


def _to_keep(notes: Instructions) -> str:
    """Return the compact instructions of the nearest folder; CLAUDE.md before AGENTS.md."""
    for group in reversed(notes.groups):
        for note in group:
            if found := find_compact_instructions(note.text):
                return found
    return ""


def _tasks(roots: InstructionRoots, branch: str) -> tuple[str, tuple[str, ...]]:
    """Return the open tasks of the working folder, or else those of the project."""
    warnings: list[str] = []
    for folder in dict.fromkeys((roots.cwd, roots.project)):
        tasks = load_task_context(
            folder, current_branch=branch, heading=False, warn=warnings.append
        )
        if tasks:
            return tasks, tuple(warnings)
    return "", tuple(warnings)
