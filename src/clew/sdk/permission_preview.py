"""What a tool call would do, as lines to show before the user allows it."""

import stat
from pathlib import Path

import msgspec

from clew.core.events import PermissionRequest
from clew.core.redaction import redact
from clew.tools.builtin.diff import compare

_MAX_BYTES = 1_000_000
"""Larger files are shown as new content, not as a diff."""


def preview_request(request: PermissionRequest) -> list[str]:
    """Return what a call would do beyond its target: a diff, new content, or its arguments.

    The lines contain text of the model and of files. Sanitize them before you show them.
    """
    match request.tool_name, request.arguments:
        case "Bash", _:
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


def _other_arguments(request: PermissionRequest) -> list[str]:
    others = {key: value for key, value in request.arguments.items() if value != request.target}
    shown = msgspec.json.format(msgspec.json.encode(others), indent=2).decode()
    return shown.split("\n") if others else []


def _diff(old: str, new: str) -> list[str]:
    changed = [line for hunk in compare(old, new, "").hunks for line in hunk.lines]
    return [line for text in changed for line in text.split("\n")] or ["(no change)"]


def _format_addition(content: str) -> list[str]:
    return [f"+{line}" for line in content.removesuffix("\n").split("\n")]


def _read(target: str) -> str | None:
    try:
        path = Path(target).expanduser()
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            return None
        # As the model saw it: a mark that stays is no change.
        return redact(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RuntimeError):
        return None
