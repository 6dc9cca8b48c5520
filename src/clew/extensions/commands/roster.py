"""`/agents`: the agents of all sessions of the project, wherever they run, and the list as text."""

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from msgspec import to_builtins

from clew.core.errors import SessionError
from clew.core.sanitize import sanitize, sanitize_line, split_rows
from clew.core.tasks import TaskKind, TaskState, TaskStatus
from clew.extensions.agent_definitions import GENERAL_PURPOSE
from clew.extensions.commands.arguments import (
    Builtin,
    build_result,
    parse_number,
    reject_arguments,
    split_word,
    unknown_subcommand,
)
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult
from clew.extensions.commands.task_lines import format_age

if TYPE_CHECKING:
    from clew.runtime.roster import RosterEntry

Paint: TypeAlias = Callable[[str, str], str]
"""Returns a text in a style such as `bold`, `dim` or `yellow`."""

WIDTH = 80
_ID = 16
_INDENT = " " * (_ID + 4)
_AGE = 10
_FACTS = 30
"""Columns for the model and the session that started an agent."""
_HEADINGS = {"needs input": "yellow", "working": "cyan", "done": "green", "failed": "red"}


async def _agents(host: CommandHost, arguments: str) -> CommandResult:
    word, rest = split_word(arguments)
    match word.lower():
        case "" | "list":
            reject_arguments(rest, "agents list")
            return await _list(host)
        case "answer":
            return await _answer(host, rest)
        case "stop":
            return await _stop(host, rest)
        case "send":
            return await _send(host, rest)
        case "read":
            return await _read(host, rest)
        case _:
            raise unknown_subcommand("agents", word, AGENTS)


async def _list(host: CommandHost) -> CommandResult:
    entries = await host.roster.list()
    lines = format_roster(entries, now=time.time())
    if any(entry.question is not None for entry in entries):
        lines += ["", "answer with: /agents answer ID y|s|p|n"]
    return build_result(
        lines or ["there are no agents yet"], agents=[to_builtins(entry) for entry in entries]
    )


async def _answer(host: CommandHost, arguments: str) -> CommandResult:
    from clew.runtime.roster import parse_answer  # noqa: PLC0415 - few sessions need it

    wanted, rest = _take_id(arguments, "answer ID y|s|p|n [TEXT]")
    entry = await host.roster.answer(wanted, parse_answer(rest.split()))
    return build_result([f"{entry.task.task_id} has its answer"], agent=to_builtins(entry))


async def _stop(host: CommandHost, arguments: str) -> CommandResult:
    wanted, rest = _take_id(arguments, "stop ID")
    reject_arguments(rest, "agents stop ID")
    entry = await host.roster.cancel(wanted)
    return build_result([f"{entry.task.task_id} is being stopped"], agent=to_builtins(entry))


async def _send(host: CommandHost, arguments: str) -> CommandResult:
    wanted, text = _take_id(arguments, "send ID TEXT")
    if not text:
        raise SessionError(f"the message is missing: write /agents send {wanted} TEXT")
    entry = await host.roster.send(wanted, text)
    lines = [f"{entry.task.task_id} reads your message at its next step"]
    return build_result(lines, agent=to_builtins(entry))


async def _read(host: CommandHost, arguments: str) -> CommandResult:
    wanted, rest = _take_id(arguments, "read ID [OFFSET]")
    offset = parse_number(rest) if rest else 0
    if offset is None:
        raise SessionError("the offset must be a number of lines, such as /agents read ID 200")
    entry, page = await host.roster.read(wanted, offset=offset)
    lines = list(page.lines) or ["(nothing yet)"]
    if page.next_offset is not None:
        lines.append(f"… more: /agents read {entry.task.task_id} {page.next_offset}")
    return build_result(lines, agent=to_builtins(entry), page=to_builtins(page))


def _take_id(arguments: str, usage: str) -> tuple[str, str]:
    wanted, rest = split_word(arguments)
    if not wanted:
        raise SessionError(f"the id is missing: write /agents {usage}; /agents lists the ids")
    return wanted, rest


def format_roster(
    entries: Sequence["RosterEntry"], *, now: float, width: int = WIDTH, paint: Paint | None = None
) -> list[str]:
    """Return the list as lines of at most `width` columns: a heading for each group.

    Each task has a line with its id, name, context, cost and age, and one with what it does, asks
    or said last, its model, and the session that started it. `40 s of 2 min` is the age of a task
    that has worked for 40 s.
    """
    paint = paint or _leave_plain
    ages = {entry.task.task_id: _format_age(entry.task, now) for entry in entries}
    widest = max(_AGE, *map(len, ages.values())) if ages else _AGE
    lines: list[str] = []
    for group, members in groupby(entries, key=lambda entry: entry.group):
        found = list(members)
        lines += [""] if lines else []
        lines.append(paint(f"{group} ({len(found)})", _HEADINGS[group]))
        for entry in found:
            age = f"{ages[entry.task.task_id]:>{widest}}"
            lines.append(_format_head(entry, age, width, paint))
            if detail := _format_detail(entry, width):
                lines.append(paint(detail, "dim"))
    return lines


def _format_head(entry: "RosterEntry", age: str, width: int, paint: Paint) -> str:
    task = entry.task
    is_special = task.agent not in ("", GENERAL_PURPOSE.name)
    name = f"{task.agent}: {task.label}" if is_special else task.label
    if task.kind is TaskKind.PROCESS:
        name = f"$ {task.prompt or task.label}"
    share = f"{task.context.used_percentage:.0f}%" if task.context is not None else ""
    cost = f"${task.cost_usd:.2f}" if task.cost_usd else ""
    facts = f"{share:>5} {cost:>7} {age}"
    room = width - _ID - 6 - len(facts)
    task_id = f"{sanitize_line(task.task_id, 40):<{_ID}}"
    return f"  {paint(task_id, 'bold')}  {_fit(name, room)}  {facts}".rstrip()


def _format_detail(entry: "RosterEntry", width: int) -> str:
    task = entry.task
    origin = [one for one in (task.model, task.session_id[:12], entry.host) if one]
    if entry.project:
        origin.append(entry.project)
    facts = sanitize_line(" · ".join(origin), _FACTS)
    room = width - len(_INDENT) - len(facts) - 2
    said = find_last_line(entry)
    if not said:
        return f"{_INDENT}{facts}" if facts else ""
    return f"{_INDENT}{_fit(said, room)}  {facts}".rstrip()


def find_last_line(entry: "RosterEntry") -> str:
    """Return what a task asks, does, or said last."""
    task, asked = entry.task, entry.question
    if asked is not None:
        return f"asks: {asked.tool_name} {asked.target}".rstrip()
    match task.status:
        case TaskStatus.QUEUED:
            return "waits for its turn"
        case TaskStatus.FAILED:
            return task.error
        case TaskStatus.CANCELLED:
            return f"stopped: {task.error}" if task.error else "stopped"
        case TaskStatus.COMPLETED:
            return next((line for line in task.result.splitlines() if line.strip()), "")
        case TaskStatus.RUNNING | TaskStatus.WAITING_PERMISSION:
            return task.action or task.preview


def _format_age(task: TaskState, now: float) -> str:
    worked = format_age(task.worked_seconds) if task.worked_seconds else ""
    if task.ended_at is not None:
        ended = f"{format_age(now - task.ended_at)} ago"
        return f"{worked}, {ended}" if worked else ended
    began = task.started_at or task.created_at
    age = format_age(now - began) if began else ""
    return f"{worked} of {age}" if worked and worked != age else age


def _fit(text: str, width: int) -> str:
    """Return the start of a text in exactly `width` columns; wide characters take two."""
    words = " ".join(sanitize(text[: 4 * width]).split())
    row, *more = split_rows(words, width)
    if more:
        row = f"{next(split_rows(words, width - 1))}…"
    # One space too many starts a row of its own.
    return next(split_rows(row + " " * width, width))


def _leave_plain(text: str, style: str) -> str:  # noqa: ARG001
    return text


AGENTS = Command(
    name="agents",
    description="list the agents of all sessions of the project, and talk to them",
    argument_hint="[list | answer | stop | send | read]",
    safety="changes-session",
    subcommands=(
        Command(name="list", description="list them: needs input, working, done, failed"),
        Command(
            name="answer",
            description="answer the question of an agent",
            argument_hint="ID y|s|p|n [TEXT]",
        ),
        Command(name="stop", description="end an agent", argument_hint="ID"),
        Command(name="send", description="give an agent a message", argument_hint="ID TEXT"),
        Command(
            name="read",
            description="show what an agent has said and done",
            argument_hint="ID [OFFSET]",
        ),
    ),
)
ROSTER_COMMANDS: tuple[Builtin, ...] = (Builtin(AGENTS, _agents),)
