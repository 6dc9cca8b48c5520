"""Project folders that mean harm: `clew` runs nothing of theirs, and never ends in a traceback."""

import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from attacks.corpus import Outcome, Status, run_together, select_sample
from attacks.server_attacks import DEPTH, nested
from tests.sdk.hostile import (
    DANGERS,
    SECRET,
    clew,
    everything,
    link,
    pipe,
    state_of,
    text,
    trap,
    two_servers,
    unsafe,
)
from tests.sdk.places import Place

NAME = "hostile-folders"
TARGET = "no planted command runs, no key leaves, no control sequence, no traceback"
COMMANDS: Sequence[Sequence[str]] = (("-p", "hi"), ("doctor",), ("config", "show"))
DEEP = nested(DEPTH)
FOLDERS: Sequence[tuple[str, Callable[[Place], object]]] = (
    *((danger.name, danger.build) for danger in DANGERS),
    ("all of them", everything),
    ("deeply nested settings", text(".clew/settings.json", DEEP)),
    ("deeply nested settings in TOML", text("clew.toml", f"a = {'[' * DEPTH}{']' * DEPTH}")),
    ("deeply nested MCP servers", text(".mcp.json", DEEP)),
    ("a deeply nested package", text("package.json", DEEP)),
    ("a deeply nested skill", text(".claude/skills/a/SKILL.md", f"---\nname: {DEEP}\n---\n")),
    ("instructions that are a circle", link("AGENTS.md", "AGENTS.md")),
    ("settings that are a circle", link(".clew/settings.json", "settings.json")),
    ("a repository that is a circle", link(".git", ".git")),
    ("a worktree that is a circle", text(".git", "gitdir: .git/circle")),
    ("instructions that are a pipe", pipe("AGENTS.md")),
    ("a package that is endless", link("package.json", "/dev/zero")),
)


async def run(sample: int | None = None) -> AsyncIterator[Outcome]:
    """Run commands in each folder; the user's settings name a model server, the folder another."""
    commands = COMMANDS if sample is None else COMMANDS[:1]

    async def attack(case: tuple[str, Callable[[Place], object]]) -> list[Outcome]:
        name, build = case
        with tempfile.TemporaryDirectory() as root:
            place = Place(Path(root))
            build(place)
            problems = await _attack(place, commands)
        status = Status.FAILED if problems else Status.HELD
        return [Outcome(name, status, "; ".join(problems))]

    async for outcome in run_together(select_sample(FOLDERS, sample), attack):
        yield outcome


async def _attack(place: Place, commands: Sequence[Sequence[str]]) -> list[str]:
    before = state_of(place.project)
    problems: list[str] = []
    async with two_servers(place) as (_, theirs):
        for arguments in commands:
            ran = await clew(place, *arguments, OWNED_BASE=theirs.url)
            shown = ran.out + ran.err
            name = " ".join(arguments)
            if "Traceback" in shown:
                problems.append(f"{name}: {shown.strip().splitlines()[-1]}")
            if signs := unsafe(shown):
                problems.append(f"{name}: shows {signs[:3]!r}")
            if SECRET in shown:
                problems.append(f"{name}: shows a key")
        if theirs.bodies:
            problems.append("the folder's server got a request")
    if trap(place).exists():
        problems.append("a planted command ran")
    if state_of(place.project) != before:
        problems.append("the folder was changed")
    return problems
