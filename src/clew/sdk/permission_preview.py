"""What a tool call would do, as lines to show before the user allows it."""

import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from clew.core.events import PermissionRequest
from clew.core.file_change import FileChange, read_file_change
from clew.core.redaction import redact
from clew.core.redaction.marks import RedactedText
from clew.core.text import one_line
from clew.tools.builtin.diff import compare
from clew.tools.builtin.edit import EditRequest, apply
from clew.tools.builtin.files import ToolFailure

_MAX_DESCRIPTION = 200
_MAX_BYTES = 1_000_000
"""Larger files are shown as new content, not as a diff."""


def preview_change(request: PermissionRequest, *, cwd: str = "") -> FileChange | None:
    """Return what an Edit or Write call would change, as its result will report it.

    None for other calls, for a file that cannot be read here, and for a call that would fail or
    change nothing. The text contains text of the model and of files.

    Args:
        request: The request.
        cwd: The folder in which the session works; by default that of this process.
    """
    target = str(Path(cwd, _expand(request.target)))
    match request.tool_name, request.arguments:
        case "Edit", {"file_path": str(path), "old_string": str(), "new_string": str()}:
            before = _read(target)
            after = None if before is None else _apply(before, request.arguments)
        case "Write", {"file_path": str(path), "content": str(after)}:
            before = _read(target)
            if before is None and os.path.lexists(target):
                return None
        case _:
            return None
    if after is None:
        return None
    created = before is None
    change = compare(before or "", after, path, created=created)
    return read_file_change(redact(change.data()))


def preview_request(request: PermissionRequest) -> list[str]:
    """Return what a call would do beyond its target: a diff, new content, or its arguments.

    The lines contain text of the model and of files. Sanitize them before you show them.
    """
    match request.tool_name, request.arguments:
        case "Bash", {"description": str(text)} if text.strip():
            return [f"the model says: {one_line(text, _MAX_DESCRIPTION)}"]
        case "Bash" | "BackgroundProcess", _:
            return []
        case "Edit", {"old_string": str(old), "new_string": str(new), **rest}:
            scope = ["every occurrence:"] if rest.get("replace_all") else []
            return scope + _diff(f"{old}\n", f"{new}\n")
        case "ExitPlanMode", {"plan": str(plan)}:
            return plan.split("\n")
        case "Write", {"content": str(content)}:
            current = _read(request.target)
            return _diff(current, content) if current is not None else _format_addition(content)
        case _:
            return _other_arguments(request)


def _apply(before: str, arguments: dict[str, Any]) -> str | None:
    edit = EditRequest(
        path=arguments["file_path"],
        old=arguments["old_string"],
        new=arguments["new_string"],
        everywhere=bool(arguments.get("replace_all")),
        marks=False,
    )
    try:
        return apply(RedactedText(before), before, edit)[0]
    except ToolFailure:
        return None


def _other_arguments(request: PermissionRequest) -> list[str]:
    others = {key: value for key, value in request.arguments.items() if value != request.target}
    shown = msgspec.json.format(msgspec.json.encode(others), indent=2).decode()
    return shown.split("\n") if others else []


def _diff(old: str, new: str) -> list[str]:
    changed = [line for hunk in compare(old, new, "").hunks for line in hunk.lines]
    return [line for text in changed for line in text.split("\n")] or ["(no change)"]


def _format_addition(content: str) -> list[str]:
    return [f"+{line}" for line in content.removesuffix("\n").split("\n")]


def _expand(target: str) -> Path:
    try:
        return Path(target).expanduser()
    except RuntimeError:
        return Path(target)


def _read(target: str) -> str | None:
    try:
        path = _expand(target)
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            return None
        # As the model saw it: a mark that stays is no change.
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            return redact(file.read())
    except (OSError, ValueError):
        return None
