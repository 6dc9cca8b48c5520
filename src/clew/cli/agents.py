"""`clew agents`: list the agents of all sessions, answer their questions, and talk to them."""

import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

import anyio
from msgspec import Struct

from clew.cli.paint import is_dumb, make_painter
from clew.cli.streams import print_json, write_err, write_out
from clew.core.sanitize import sanitize
from clew.core.tasks import TaskKind
from clew.sdk.folders import working_folder
from clew.sdk.project_rosters import ProjectRosters, open_rosters
from clew.sdk.roster import Roster, RosterEntry, describe_status, format_roster, parse_answer

_WATCH_SECONDS = 1.0
_WIDEST = 120
_NARROWEST = 60
_CLEAR = "\x1b[H\x1b[J"
_OTHER_SCREEN = "\x1b[?1049h\x1b[?25l"
_MAIN_SCREEN = "\x1b[?25h\x1b[?1049l"
_NONE = "there are no agents in this folder; --all lists those of all projects"


class _Request(Struct, frozen=True):
    rosters: ProjectRosters
    arguments: Namespace

    async def find(self) -> Roster:
        """Return the list that has the agent of the arguments."""
        return await self.rosters.find(self.arguments.id)


def run_agents(arguments: Namespace) -> int:
    """Run one action of `clew agents`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    action = _ACTIONS[arguments.action or "list"]
    async with open_rosters(working_folder(), everywhere=arguments.all) as rosters:
        return await action(_Request(rosters, arguments))


async def _list(request: _Request) -> int:
    if request.arguments.watch:
        return await _watch(request)
    entries = await _load(request)
    if request.arguments.json:
        for entry in entries:
            print_json(entry)
    else:
        _write_lines(_format(entries))
        if not entries:
            write_err(_NONE)
    return 0


async def _watch(request: _Request) -> int:
    """Show the list again and again, until Ctrl-C; without a terminal, print what changes."""
    if not sys.stdout.isatty() or is_dumb() or request.arguments.json:
        return await _print_changes(request)
    write_out(_OTHER_SCREEN)
    try:
        while True:
            _draw(await _load(request))
            await anyio.sleep(_WATCH_SECONDS)
    finally:
        write_out(_MAIN_SCREEN)


def _draw(entries: Sequence[RosterEntry]) -> None:
    """Draw the list in place of the last one, as much of it as the terminal has room for."""
    lines = _format(entries) or [_NONE]
    room = max(3, shutil.get_terminal_size((80, 24)).lines - 3)
    if len(lines) > room:
        lines = [*lines[: room - 1], "…"]
    hint = f"{time.strftime('%H:%M:%S')} · Ctrl-C ends the list; the agents continue"
    write_out(_CLEAR)
    _write_lines([*lines, "", make_painter()(hint, "dim")])


async def _print_changes(request: _Request) -> int:
    shown: dict[str, RosterEntry] = {}
    while True:
        entries = await _load(request)
        for entry in entries:
            if shown.get(entry.task.task_id) != entry:
                _write_change(request, entry)
        shown = {entry.task.task_id: entry for entry in entries}
        await anyio.sleep(_WATCH_SECONDS)


def _write_change(request: _Request, entry: RosterEntry) -> None:
    if request.arguments.json:
        print_json(entry)
    else:
        _write_lines(format_roster([entry], now=time.time(), width=_find_width())[1:])


async def _load(request: _Request) -> list[RosterEntry]:
    arguments = request.arguments
    kind = None if arguments.processes else TaskKind.AGENT
    entries = await request.rosters.list(kind=kind, ended=arguments.limit)
    for problem in request.rosters.problems:
        write_err(problem)
    return entries


def _format(entries: Sequence[RosterEntry]) -> list[str]:
    paint = make_painter()
    lines = format_roster(entries, now=time.time(), width=_find_width(), paint=paint)
    if any(entry.question is not None for entry in entries):
        lines += ["", paint("answer with: clew agents answer ID y|s|p|n", "dim")]
    return lines


def _find_width() -> int:
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((80, 24)).columns))


async def _answer(request: _Request) -> int:
    answer = parse_answer(request.arguments.words)
    entry = await (await request.find()).answer(request.arguments.id, answer)
    write_err(f"{entry.task.task_id} has its answer")
    return 0


async def _stop(request: _Request) -> int:
    entry = await (await request.find()).cancel(request.arguments.id)
    how = "is marked as failed: its process had ended" if entry.is_gone else "is being stopped"
    write_err(f"{entry.task.task_id} {how}")
    return 0


async def _send(request: _Request) -> int:
    text = " ".join(request.arguments.words)
    entry = await (await request.find()).send(request.arguments.id, text)
    how = "continues with" if entry.task.status.is_terminal else "reads"
    write_err(f"{entry.task.task_id} {how} your message")
    return 0


async def _read(request: _Request) -> int:
    arguments = request.arguments
    roster = await request.find()
    entry, page = await roster.read(arguments.id, offset=arguments.offset, limit=arguments.limit)
    if arguments.json:
        print_json(page)
        return 0
    _write_lines([sanitize(line) for line in page.lines])
    if page.next_offset is not None:
        write_err(f"more: clew agents read {entry.task.task_id} --offset {page.next_offset}")
    else:
        write_err(f"{entry.task.task_id} is {describe_status(entry)}")
    return 0


def _write_lines(lines: Sequence[str]) -> None:
    write_out("".join(f"{line}\n" for line in lines))


_Action = Callable[[_Request], Awaitable[int]]
_ACTIONS: Mapping[str, _Action] = MappingProxyType(
    {"list": _list, "answer": _answer, "stop": _stop, "send": _send, "read": _read}
)
