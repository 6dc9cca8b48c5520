"""Commands that take something out of a session: /copy, /show and /export."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from anyio import to_thread

from clew.context.recall.entry_text import entry_text, format_call
from clew.core.entries import Entry, MessageAdded
from clew.core.errors import SessionError
from clew.core.messages import Message, Role
from clew.core.redaction import redact
from clew.core.tasks import TaskState
from clew.core.text import one_line, pluralize
from clew.extensions.commands.arguments import (
    Builtin,
    build_result,
    check_text,
    parse_entry_id,
    split_flags,
)
from clew.extensions.commands.entries import describe_entry, entry_author
from clew.extensions.commands.protocol import (
    Command,
    CommandHost,
    CommandResult,
    CopyText,
    ShowEntry,
)
from clew.session.history import BACKGROUND_TASK, HistoryEntry, project_history
from clew.session.task_records import list_record_fields, read_task_records

_PATH = 500
_SHOWN = 200
_FENCE = re.compile(r"`{3,}")


async def _copy(host: CommandHost, arguments: str) -> CommandResult:
    entry = _find_entry(host, arguments) if arguments else _find_answer(host)
    text = _readable(entry)
    lines = text.count("\n") + 1
    return build_result(
        [f"#{entry.id}: {len(text):,} characters, {pluralize(lines, 'line')}"],
        CopyText(text),
        entry=entry.id,
        text=text,
    )


async def _show(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        raise SessionError(
            "give the number of an entry, such as /show entry 12; /history lists them"
        )
    entry = _find_entry(host, arguments.removeprefix("entry "))
    text = _readable(entry) or describe_entry(entry)
    author = entry_author(entry.body)
    return build_result(
        [f"#{entry.id}  {author}", text],
        ShowEntry(entry.id),
        entry=entry.id,
        author=author,
        text=text,
    )


def _find_entry(host: CommandHost, arguments: str) -> Entry:
    number = parse_entry_id(arguments)
    entry = host.session.journal.entry(number)
    if entry is None:
        raise SessionError(f"there is no entry #{number} in this session; /history lists them")
    return entry


def _find_answer(host: CommandHost) -> Entry:
    """Return the last answer of the model that has text."""
    for entry in reversed(host.session.journal.entries):
        match entry.body:
            case MessageAdded(message=Message(role=Role.ASSISTANT) as message) if message.text:
                return entry
            case _:
                pass
    raise SessionError("the model has not answered yet, so there is nothing to copy")


def _readable(entry: Entry) -> str:
    """Return the text of an entry; of an answer, without the calls and the thinking beside it."""
    match entry.body:
        case MessageAdded(message=Message(role=Role.ASSISTANT) as message) if message.text:
            return message.text
        case _:
            return entry_text(entry)


async def _export(host: CommandHost, arguments: str) -> CommandResult:
    flags, rest = split_flags(arguments)
    name = check_text(rest.strip().strip("\"'"), _PATH, "the name of the file", lines=False)
    as_json = "json" in flags or name.endswith(".json")
    ending = "json" if as_json else "md"
    path = _place(host.cwd, name or f"clew-{host.session.session_id[:8]}.{ending}")
    history = project_history(host.session.journal.entries)
    values = host.session.state.tool_context.redact_values or ()
    title = host.name or f"Session {host.session.session_id}"

    def save() -> int:
        if as_json:
            tasks = list_record_fields(read_task_records(host.session.journal.entries))
            text = _write_json({"title": title, "history": history, **tasks}, values)
        else:
            text = write_markdown(title, history, values)
        with path.open("x", encoding="utf-8", errors="replace", newline="\n") as file:
            return file.write(text)

    try:
        size = await to_thread.run_sync(save)
    except FileExistsError:
        raise SessionError(
            f"{one_line(str(path), _SHOWN)} exists already; name another file: /export FILE"
        ) from None
    said = f"exported to {one_line(str(path), _SHOWN)}: {size:,} characters, without secrets"
    return build_result([said], path=str(path), format="json" if as_json else "markdown")


def _place(cwd: Path, name: str) -> Path:
    try:
        return cwd / Path(name).expanduser()
    except RuntimeError as error:
        raise SessionError(f"there is no folder {one_line(name, _SHOWN)}") from error


def _write_json(document: Mapping[str, object], values: Sequence[str]) -> str:
    plain: dict[str, Any] = msgspec.to_builtins(document)
    document = redact(plain, extra_values=values)
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def write_markdown(title: str, history: Sequence[HistoryEntry], values: Sequence[str]) -> str:
    """Return a conversation as Markdown, without secrets; `values` are secrets of the user."""
    parts = [f"# {one_line(title)}", *(part for item in history for part in _sections(item))]
    return redact("\n\n".join(parts), extra_values=values) + "\n"


def _sections(item: HistoryEntry) -> Iterator[str]:
    """Yield the Markdown of one item of the history."""
    message = item.message
    if message is None:
        if item.type in ("compaction", "clear", "rewind", "undo"):
            yield f"*{item.type} (#{item.id.partition('.')[0]})*"
        if item.type == BACKGROUND_TASK:
            yield from _task_sections(item)
        return
    match message.role:
        case Role.USER:
            if said := str(item.data["content"]).strip():
                yield f"## You (#{item.id})"
                yield said
        case Role.ASSISTANT:
            if message.text:
                yield f"## Clew (#{item.id})"
                yield message.text
            yield from (f"**{call.name}**\n\n{_fence(format_call(call))}" for call in message.calls)
        case Role.TOOL:
            for result in message.results:
                failed = ", failed" if result.failed else ""
                yield (
                    f"<details><summary>result of {result.name} (#{item.id}{failed})</summary>\n\n"
                    f"{_fence(result.text)}\n\n</details>"
                )


def _task_sections(item: HistoryEntry) -> Iterator[str]:
    """Yield the Markdown of a background task when it starts and when it has ended."""
    task = msgspec.convert(item.data, TaskState)
    if item.data.get("closed"):
        return
    number = item.id.partition(".")[0]
    yield f"*background task {task.task_id} {one_line(task.label)}: {task.status} (#{number})*"
    if text := task.result or task.error:
        yield f"<details><summary>result</summary>\n\n{_fence(text)}\n\n</details>"


def _fence(text: str) -> str:
    """Return a text as a block of code, with a fence that the text does not have."""
    longest = max((len(match[0]) for match in _FENCE.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"


TRANSCRIPT_COMMANDS: tuple[Builtin, ...] = (
    Builtin(
        Command(
            name="copy",
            description="copy the last answer, or an entry",
            argument_hint="[#entry]",
        ),
        _copy,
    ),
    Builtin(
        Command(
            name="show",
            description="show an entry in full, such as the result of a tool",
            argument_hint="entry N",
        ),
        _show,
    ),
    Builtin(
        Command(
            name="export",
            description="write the session to a file, as Markdown or JSON",
            argument_hint="[--json] [FILE]",
            flags=("json",),
            safety="changes-files",
        ),
        _export,
    ),
)
