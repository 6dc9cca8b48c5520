"""The text of entries as people and models read it: calls in words, edits as diffs."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from clew.context.tool_arguments import (
    COMMAND_KEYS,
    PATH_KEYS,
    SHELL_TOOLS,
    find_replacements,
    find_string,
)
from clew.core.entries import Compacted, Entry, MessageAdded, Noted, TaskChanged
from clew.core.json_text import JsonDecoder
from clew.core.messages import Reasoning, Text, ToolCall, ToolResult
from clew.core.tasks import TaskState

_PATCHED_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_BOILERPLATE = re.compile(
    r"<(system-reminder|local-command-caveat|local-command-stdout|persisted-output)>.*?</\1>\s*"
    r"|</?(?:command-name|command-message|command-args|bash-input|bash-stdout|bash-stderr)>"
    r"|Todos have been modified successfully\. Ensure that you continue[^\n]*",
    re.DOTALL,
)
_EXIT_STATUS = re.compile(
    r'^\[?(?:Process exited with code|Exit code:?|exit code) (-?\d+)\]?$|"exit_code": ?(-?\d+)',
    re.MULTILINE,
)
_STATUS_CHARS = 600
"""The exit status is within this many characters of the beginning or the end."""
_CONTEXT_LINES = 2
_COMMAND_KEYS = ("command", "cmd")
_any_json = JsonDecoder()


def entry_text(entry: Entry) -> str:
    """Return the text of an entry; a truncated tool output is returned in full."""
    match entry.body:
        case MessageAdded(full_text=str(full_text)):
            return full_text
        case MessageAdded(message=message):
            return "\n".join(_part_texts(message.parts))
        case Compacted(summary=summary):
            return summary
        case Noted(text=text):
            return text
        case TaskChanged(state=task, closed=False, reported=False):
            return format_task(task)
        case _:
            return ""


def format_task(task: TaskState) -> str:
    """Return how a background task ended, with its result; empty for one that has not ended."""
    if not task.status.is_terminal:
        return ""
    head = f"background task {task.task_id} ({task.label}): {task.status}"
    return "\n".join(filter(None, [head, task.error, task.result]))


def strip_boilerplate(text: str) -> str:
    """Return `text` without what programs add to every message, such as system reminders."""
    return _BOILERPLATE.sub("", text) if "<" in text or "Todos have" in text else text


def format_call(call: ToolCall) -> str:
    """Return a tool call as text: a command after `$`, an edit as a diff, or named arguments."""
    arguments = decode_arguments(call)
    path = "".join(find_files(call)[:1])
    if command := _find_command(call, arguments, path):
        return f"$ {command}"
    edits = find_replacements(arguments)
    if edits:
        diffs = [format_diff(old, new) for old, new, _ in edits]
        return "\n".join([f"{call.name} {path}", *diffs])
    named = [f"{call.name} {path}".rstrip()]
    for key, value in arguments.items():
        if key not in PATH_KEYS:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            named.append(f"{key}: {text}")
    if not arguments and call.arguments not in ("", "{}"):
        named.append(call.arguments)
    return "\n".join(named)


def _find_command(call: ToolCall, arguments: dict[str, object], path: str) -> str:
    """Return the command of a shell, or of another tool that has one and names no file."""
    if call.name.lower() in SHELL_TOOLS:
        return find_string(arguments, COMMAND_KEYS)
    return "" if path else find_string(arguments, _COMMAND_KEYS)


def decode_arguments(call: ToolCall) -> dict[str, object]:
    """Return the arguments of a call; empty when the model did not write a JSON object."""
    try:
        found = _any_json.decode(call.arguments)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def find_files(call: ToolCall) -> list[str]:
    """Return the paths that a call names in its arguments or in a patch."""
    arguments = decode_arguments(call)
    named = [value for key in PATH_KEYS if isinstance(value := arguments.get(key), str) and value]
    patch = arguments.get("input", arguments.get("patch"))
    return named + (_PATCHED_FILE.findall(patch) if isinstance(patch, str) else [])


def format_diff(old: str, new: str) -> str:
    """Return a replacement as lines with `-` and `+`, without what both sides share."""
    before, after = old.splitlines(), new.splitlines()
    most = min(len(before), len(after))
    head = next((n for n in range(most) if before[n] != after[n]), most)
    left = most - head
    tail = next((n for n in range(left) if before[-1 - n] != after[-1 - n]), left)
    start = max(0, head - _CONTEXT_LINES)
    end = len(before) - tail
    lines = [f"  {line}" for line in before[start:head]]
    lines += [f"- {line}" for line in before[head:end]]
    lines += [f"+ {line}" for line in after[head : len(after) - tail]]
    lines += [f"  {line}" for line in before[end : end + _CONTEXT_LINES]]
    return "\n".join(lines)


def describe_status(call: ToolCall | None, result: ToolResult, text: str) -> str:
    """Return how a call ended: `exit 1` for a command, `failed` for others; empty for success."""
    is_command = call is not None and format_call(call).startswith("$ ")
    if is_command:
        found = _EXIT_STATUS.search(text[:_STATUS_CHARS]) or _EXIT_STATUS.search(
            text[-_STATUS_CHARS:]
        )
        if found:
            return f"exit {found[1] or found[2]}"
    if result.failed:
        return "failed"
    return "exit 0" if is_command else ""


def _part_texts(parts: Iterable[object]) -> Iterator[str]:
    for part in parts:
        match part:
            case Text(text=text) | ToolResult(text=text) | Reasoning(text=text):
                yield text
            case ToolCall(name=name, arguments=arguments):
                yield f"{name} {arguments}"
            case _:
                pass
