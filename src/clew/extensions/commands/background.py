"""`/background`: list the background tasks, read their output, cancel and close them."""

import time
from collections.abc import Sequence

import msgspec

from clew.core.errors import SessionError
from clew.core.tasks import TaskState
from clew.core.text import one_line, pluralize
from clew.extensions.commands.arguments import (
    Builtin,
    build_result,
    check_text,
    parse_number,
    reject_arguments,
    split_word,
    unknown_subcommand,
)
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult
from clew.extensions.commands.task_lines import list_tasks

_LABEL = 40
_LINE = 2_000
_MESSAGE = 20_000


async def _background(host: CommandHost, arguments: str) -> CommandResult:
    word, rest = split_word(arguments)
    match word.lower():
        case "" | "list":
            reject_arguments(rest, "background list")
            return await _list(host)
        case "read":
            return await _read(host, rest)
        case "cancel":
            return await _cancel(host, rest)
        case "close":
            return await _close(host, rest)
        case "send":
            return await _send(host, rest)
        case _:
            raise unknown_subcommand("background", word, BACKGROUND)


async def _list(host: CommandHost) -> CommandResult:
    tasks, groups = await host.tasks.list(), await host.tasks.list_groups()
    facts = [msgspec.to_builtins(task) for task in tasks]
    group_facts = [msgspec.to_builtins(group) for group in groups]
    if not tasks:
        lines = ["nothing runs in the background"]
        return build_result(lines, tasks=facts, groups=group_facts)
    lines = list_tasks(tasks, now=time.time())
    for group in groups:
        label = f" {one_line(group.label, _LABEL)}" if group.label else ""
        count = pluralize(len(group.task_ids), "task")
        lines.append(f"  {group.group_id}{label}: {group.policy}, {count}, {group.status}")
    return build_result(lines, tasks=facts, groups=group_facts)


async def _read(host: CommandHost, arguments: str) -> CommandResult:
    word, rest = split_word(arguments)
    task = await _find(host, word, "read")
    offset = parse_number(rest) if rest else 0
    if offset is None:
        raise SessionError(f"the offset is the number of a line: write /background read {word} 200")
    page = await host.tasks.read_log(task.task_id, offset=offset)
    lines = [f"{task.task_id} {one_line(task.label, _LABEL)}: {task.status}"]
    lines += [line if len(line) <= _LINE else f"{line[:_LINE]} …" for line in page.lines]
    if not page.lines:
        lines.append("  (no output)" if offset == 0 else f"  (no output after line {offset})")
    if page.next_offset is not None:
        lines.append(f"… /background read {task.task_id} {page.next_offset} continues")
    if task.status.is_terminal and task.error:
        lines.append(f"it ended with: {one_line(task.error, _LINE)}")
    return build_result(lines, task=msgspec.to_builtins(task), page=msgspec.to_builtins(page))


async def _cancel(host: CommandHost, arguments: str) -> CommandResult:
    word, rest = split_word(arguments)
    task = await _find(host, word, "cancel", only_open=True)
    reason = check_text(rest, _LINE, "the reason", lines=False)
    ended = await host.tasks.cancel(task.task_id, reason=reason)
    return build_result([f"{ended.task_id} is {ended.status}"], task=msgspec.to_builtins(ended))


async def _close(host: CommandHost, arguments: str) -> CommandResult:
    word, rest = split_word(arguments)
    reject_arguments(rest, "background close ID")
    if word.lower() == "all":
        ended = [task for task in await host.tasks.list() if task.status.is_terminal]
        for task in ended:
            await host.tasks.close(task.task_id)
        said = f"{pluralize(len(ended), 'task')} removed from the list"
        return build_result([said], closed=[task.task_id for task in ended])
    task = await host.tasks.close((await _find(host, word, "close")).task_id)
    return build_result([f"{task.task_id} is removed from the list"], closed=[task.task_id])


async def _send(host: CommandHost, arguments: str) -> CommandResult:
    word, text = split_word(arguments)
    task = await _find(host, word, "send", only_open=True)
    if not text:
        raise SessionError(f"the message is missing: write /background send {task.task_id} TEXT")
    await host.tasks.send(task.task_id, check_text(text, _MESSAGE, "the message"))
    return build_result([f"sent to {task.task_id}"], task_id=task.task_id, text=text)


async def _find(host: CommandHost, word: str, verb: str, *, only_open: bool = False) -> TaskState:
    """Return the task with that id; a part of the id is enough if no other task has it.

    Raises:
        SessionError: There is no such task, or there are several.
    """
    tasks = await host.tasks.list()
    if only_open:
        tasks = [task for task in tasks if not task.status.is_terminal] or tasks
    if not word and len(tasks) == 1:
        return tasks[0]
    exact = [task for task in tasks if task.task_id == word]
    found = exact or [task for task in tasks if word and word.lower() in task.task_id]
    if len(found) == 1:
        return found[0]
    if not tasks:
        raise SessionError("nothing runs in the background")
    known = _name_all(found or tasks)
    if not word:
        raise SessionError(f"which task? write /background {verb} ID with one of: {known}")
    problem = "several tasks match" if found else "there is no task"
    raise SessionError(f"{problem} {one_line(word, 40)}; the tasks are: {known}")


def _name_all(tasks: Sequence[TaskState]) -> str:
    return one_line(", ".join(task.task_id for task in tasks), 400)


BACKGROUND = Command(
    name="background",
    description="list background tasks, read their output, cancel or close them",
    argument_hint="[list | read ID [OFFSET] | cancel ID | close ID | send ID TEXT]",
    safety="changes-session",
    subcommands=(
        Command(name="list", description="list the background tasks and job groups"),
        Command(
            name="read",
            description="show the output of a process, or the transcript of an agent",
            argument_hint="ID [OFFSET]",
        ),
        Command(
            name="cancel",
            description="end a task",
            argument_hint="ID [REASON]",
            safety="changes-session",
        ),
        Command(
            name="close",
            description="remove a task that has ended from the list, or all of them",
            argument_hint="ID | all",
            safety="changes-session",
        ),
        Command(
            name="send",
            description="send a message to an agent, or input to a process",
            argument_hint="ID TEXT",
            safety="changes-session",
        ),
    ),
)
BACKGROUND_COMMANDS: tuple[Builtin, ...] = (Builtin(BACKGROUND, _background),)
