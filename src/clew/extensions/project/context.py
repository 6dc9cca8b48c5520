"""`load_project`: instructions, facts and open tasks of a folder, read when a session begins."""

import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from clew.context.compact_instructions import find_compact_instructions
from clew.extensions.project.facts import ProjectFacts, find_facts
from clew.extensions.project.instruction_roots import InstructionRoots, find_roots
from clew.extensions.project.instructions import InstructionKind, Instructions, load_instructions
from clew.extensions.project.tasks import load_task_context


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
