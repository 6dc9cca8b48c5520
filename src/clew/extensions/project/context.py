"""Everything a working folder says about itself, read once when a session begins."""

import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from clew.context.summary import find_compact_instructions
from clew.extensions.project.facts import ProjectFacts, find_facts
from clew.extensions.project.instruction_roots import InstructionRoots, find_roots
from clew.extensions.project.instructions import InstructionKind, Instructions, load_instructions
from clew.extensions.project.tasks import load_task_context


class ProjectContext(Struct, frozen=True, kw_only=True):
    """What a session knows of its project before the first prompt."""

    agents_md: str
    """The AGENTS.md files that hold here, outermost first, each in a block with its name."""
    claude_md: str
    """The same for CLAUDE.md; what is in both is only in `agents_md`."""
    compact_instructions: str
    """What every summary should keep; the nearest file that says so is heard."""
    facts: ProjectFacts
    tasks: str
    """What is being worked on, as the task files say it; without a heading."""
    warnings: tuple[str, ...] = ()
    """What could not be used, and why; one sentence each."""


def load_project(
    cwd: Path, *, user_home: Path, clew_home: Path, clock: Callable[[], float] = time.time
) -> ProjectContext:
    """Read the instructions, facts and open tasks that hold for `cwd`.

    Nothing is run, nothing is written, and nothing that a file holds makes this fail: what
    cannot be used is named in the warnings.

    Args:
        cwd: The working folder.
        user_home: The user's home folder; the walk does not go above it.
        clew_home: Clew's folder of the user, with an AGENTS.md for all projects.
        clock: Tells the time, in seconds since 1970.
    """
    ground = find_roots(cwd, user_home=user_home, clew_home=clew_home)
    notes = load_instructions(ground)
    facts = find_facts(ground, clock=clock)
    tasks, problems = _tasks(ground, facts.branch)
    return ProjectContext(
        agents_md=notes.text(InstructionKind.AGENTS),
        claude_md=notes.text(InstructionKind.CLAUDE),
        compact_instructions=_to_keep(notes),
        facts=facts,
        tasks=tasks,
        warnings=(*notes.warnings, *problems),
    )


def _to_keep(notes: Instructions) -> str:
    """Return the compact instructions of the nearest folder, of CLAUDE.md before AGENTS.md."""
    for group in reversed(notes.groups):
        for note in group:
            if found := find_compact_instructions(note.text):
                return found
    return ""


def _tasks(ground: InstructionRoots, branch: str) -> tuple[str, tuple[str, ...]]:
    """Return the open tasks of the working folder, or else those of the whole project."""
    warnings: list[str] = []
    for folder in dict.fromkeys((ground.cwd, ground.project)):
        tasks = load_task_context(
            folder, current_branch=branch, heading=False, warn=warnings.append
        )
        if tasks:
            return tasks, tuple(warnings)
    return "", tuple(warnings)
