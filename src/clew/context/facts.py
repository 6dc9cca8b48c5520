"""Facts about a conversation that code extracts: files, commands and open tasks."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from clew.context.items import Item
from clew.core.ids import CallId
from clew.core.messages import ToolCall

_READS = frozenset({"Read", "read", "read_file", "view"})
_CHANGES = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit", "write", "edit", "apply_patch"})
_PATH_KEYS = ("file_path", "path", "filename", "notebook_path")
_COMMAND_KEYS = ("command", "cmd")
_TASK_LISTS = {"TodoWrite": ("todos", "content"), "update_plan": ("plan", "step")}
"""Tools that write the whole task list: the key of the list, and the key of a task's text."""
_object = msgspec.json.Decoder(dict[str, object])
_FINISHED = frozenset({"completed", "done", "cancelled"})


class Facts(Struct, frozen=True, kw_only=True):
    """Files, commands and open tasks of a conversation, without duplicates, newest last."""

    files_read: tuple[str, ...] = ()
    files_changed: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    open_tasks: tuple[str, ...] = ()

    def lines(self, *, max_chars: int | None = None) -> list[str]:
        """Return the facts as lines; with `max_chars` the oldest are omitted."""
        named = (
            ("Open tasks", self.open_tasks),
            ("Files changed", self.files_changed),
            ("Files read", self.files_read),
            ("Commands run", self.commands),
        )
        given = [(name, values) for name, values in named if values]
        if max_chars is None:
            return [f"{name}: {'; '.join(values)}" for name, values in given]
        lines: list[str] = []
        for place, (name, values) in enumerate(given):
            room = max_chars // (len(given) - place)
            kept = _take_newest(values, room - len(name) - 2)
            if kept:
                lines.append(f"{name}: {'; '.join(kept)}")
                max_chars -= len(lines[-1]) + 1
        return lines


def gather_facts(items: Sequence[Item], *, max_chars: int | None = None) -> Facts:
    """Collect facts from the tool calls of `items`; failed calls are ignored.

    With `max_chars` the search ends when the newest facts fill that many characters.
    """
    failed: set[CallId] = set()
    read: dict[str, None] = {}
    changed: dict[str, None] = {}
    commands: dict[str, None] = {}
    tasks: tuple[str, ...] | None = None
    room = max_chars if max_chars is not None else 10**12
    for item in reversed(items):
        if item.answers:
            failed.update(one.call_id for one in item.message.results if one.failed)
        if not item.asks or room < 0:
            continue
        for call in reversed(item.message.calls):
            if call.call_id in failed:
                continue
            arguments = _decode_arguments(call)
            if call.name in _TASK_LISTS:
                if tasks is None:
                    tasks = _open_tasks(arguments, *_TASK_LISTS[call.name])
                continue
            seen, value = _classify_call(call.name, arguments, (read, changed, commands))
            if value and value not in seen:
                seen[value] = None
                room -= len(value)
    return Facts(
        files_read=tuple(path for path in reversed(read) if path not in changed),
        files_changed=tuple(reversed(changed)),
        commands=tuple(reversed(commands)),
        open_tasks=tasks or (),
    )


def _classify_call(
    tool: str, arguments: dict[str, object], kinds: tuple[dict[str, None], ...]
) -> tuple[dict[str, None], str]:
    read, changed, commands = kinds
    path = _first_value(arguments, _PATH_KEYS)
    if path and tool in _CHANGES:
        return changed, path
    if path and tool in _READS:
        return read, path
    return commands, " ".join(_first_value(arguments, _COMMAND_KEYS).split())[:120]


def _take_newest(values: Sequence[str], max_chars: int) -> list[str]:
    kept: list[str] = []
    for value in reversed(values):
        max_chars -= len(value) + 2
        if max_chars < 0:
            break
        kept.append(value)
    return kept[::-1]


def _first_value(arguments: dict[str, object], keys: Iterable[str]) -> str:
    found = next((arguments[key] for key in keys if key in arguments), "")
    return found if isinstance(found, str) else ""


def _open_tasks(arguments: dict[str, object], key: str, wording: str) -> tuple[str, ...]:
    tasks = arguments.get(key)
    if not isinstance(tasks, list):
        return ()
    return tuple(
        str(task[wording])[:160]
        for task in tasks
        if isinstance(task, dict) and wording in task and task.get("status") not in _FINISHED
    )


def _decode_arguments(call: ToolCall) -> dict[str, object]:
    try:
        return _object.decode(call.arguments)
    except msgspec.DecodeError:
        return {}
