"""`clew schedule`: prompts that workers run again and again."""

from argparse import Namespace
from collections.abc import Sequence

import anyio
from msgspec.structs import replace

from clew.cli.argument_parser import UsageError
from clew.cli.arguments import session_spec
from clew.cli.environment import own_environment
from clew.cli.streams import print_json, write_err, write_out
from clew.core.sanitize import sanitize_line
from clew.sdk.folders import working_folder
from clew.sdk.schedules import (
    ScheduleRow,
    add_schedule,
    describe_next,
    list_schedules,
    remove_schedule,
)

_MAX_TEXT, _MAX_PROMPT = 30, 60
_NO_WORKER = "no worker is running: start one with `clew worker`"


def run_schedule(arguments: Namespace) -> int:
    """Add, list or remove schedules; returns the exit code."""
    match arguments.words:
        case [] | ["list"]:
            return anyio.run(_list, arguments)
        case ["remove", *ids] if ids:
            return anyio.run(_remove, arguments, ids)
        case ["remove"]:
            raise UsageError("say which schedule to remove: clew schedule remove ID")
        case words:
            return anyio.run(_add, arguments, " ".join(words))


async def _add(arguments: Namespace, text: str) -> int:
    prompt = arguments.prompt
    if not prompt or not prompt.strip():
        raise UsageError('say what to do: clew schedule "every weekday 9:00" -p "PROMPT"')
    row, workers = await add_schedule(
        text,
        prompt,
        replace(session_spec(arguments), store=arguments.store),
        zone=arguments.zone,
        isolation="worktree" if arguments.worktree else "none",
        environ=own_environment(arguments),
    )
    if arguments.json:
        print_json(row)
    else:
        write_out(f"{row.schedule_id}\n")
        write_err(f"runs next on {describe_next(row)} ({row.cron})")
    if not workers:
        write_err(_NO_WORKER)
    return 0


async def _list(arguments: Namespace) -> int:
    rows = await list_schedules(
        str(working_folder()),
        store=arguments.store,
        everywhere=arguments.all,
        environ=own_environment(arguments),
    )
    if arguments.json:
        print_json(rows)
    elif rows:
        write_out("".join(f"{_format(row)}\n" for row in rows))
    else:
        write_err("there are no schedules in this folder")
    return 0


async def _remove(arguments: Namespace, ids: Sequence[str]) -> int:
    for schedule_id in ids:
        await remove_schedule(
            schedule_id,
            str(working_folder()),
            store=arguments.store,
            environ=own_environment(arguments),
        )
        write_err(f"removed {schedule_id}")
    return 0


def _format(row: ScheduleRow) -> str:
    text = sanitize_line(row.text, _MAX_TEXT)
    prompt = sanitize_line(row.spec["request"]["prompt"], _MAX_PROMPT)
    last = f"  (last: {row.last_task_id})" if row.last_task_id else ""
    return f"{row.schedule_id}  {describe_next(row)}  {text:<20}  {prompt}{last}"
