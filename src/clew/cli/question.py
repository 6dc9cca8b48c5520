"""What a person is shown before a tool call may run.

Every line that others wrote stands behind a bar, so that none can pass for a line of Clew's.
"""

import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from clew.cli.sanitize import one_line, rows, sanitize
from clew.core.access import Approval, Risk
from clew.core.events import PermissionRequest
from clew.core.text import pluralize
from clew.tools.builtin.diff import compare

BAR = "  │ "
MOST_LINES = 20
_MOST_BYTES = 1_000_000
_SHOWN_SHAPE = 80
_NARROWEST = 8
_VERBS = {Risk.INSPECT: "read", Risk.MODIFY: "change", Risk.EXECUTE: "run", Risk.UNKNOWN: "do"}
_ANSWERS = {
    **dict.fromkeys(("y", "yes", "o", "once"), Approval.ONCE),
    **dict.fromkeys(("s", "session"), Approval.SESSION),
    **dict.fromkeys(("p", "project"), Approval.PROJECT),
    **dict.fromkeys(("n", "no"), Approval.NO),
}
VIEW = frozenset({"v", "view"})


def choices(*, session: str, project: bool, hidden: bool) -> str:
    """Return the answers that may be given.

    Args:
        session: What would be allowed until the session ends.
        project: Can the call be allowed for the project?
        hidden: Are there lines that are not shown?
    """
    longer = f"[s]ession: {one_line(session, _SHOWN_SHAPE)}" if session else "[s]ession"
    kept = ", [p]roject" if project else ""
    return f"[y]es once, {longer}{kept}, [n]o{', [v]iew all' if hidden else ''}"


def approval(typed: str, *, project: bool) -> Approval | None:
    """Return what an answer means; None for a word that means nothing here."""
    found = _ANSWERS.get(typed.strip().lower())
    return None if found is Approval.PROJECT and not project else found


def question(request: PermissionRequest, *, width: int) -> tuple[str, list[str]]:
    """Return the first line of a question, and the lines that belong behind the bar."""
    title = f"{request.tool_name} wants to {_VERBS[request.risk]}:"
    target = sanitize(request.target)
    if "\n" not in target and len(list(rows(f"{title} {target}", width))) == 1:
        return f"{title} {target}", preview(request)
    return title, [*target.split("\n"), *preview(request)]


def barred(lines: list[str], *, width: int, most: int | None = MOST_LINES) -> Iterator[str]:
    """Put lines behind the bar, long ones broken; what is left out is counted."""
    for line in lines[:most]:
        for row in rows(sanitize(line), max(_NARROWEST, width - len(BAR) - 1)):
            yield BAR + row
    if most is not None and len(lines) > most:
        yield f"{BAR}… {pluralize(len(lines) - most, 'more line')}"


def preview(request: PermissionRequest) -> list[str]:
    """Show what a call would do beyond its target: a diff, a content, the arguments."""
    match request.tool_name, request.arguments:
        case "Bash", _:
            return []
        case "Edit", {"old_string": str(old), "new_string": str(new), **rest}:
            every = ["every occurrence:"] if rest.get("replace_all") else []
            return every + _changes(f"{old}\n", f"{new}\n")
        case "Write", {"content": str(content)}:
            now = _content(request.target)
            return _changes(now, content) if now is not None else _added(content)
        case _:
            return _others(request)


def _others(request: PermissionRequest) -> list[str]:
    others = {k: value for k, value in request.arguments.items() if value != request.target}
    shown = msgspec.json.format(msgspec.json.encode(others), indent=2).decode()
    return shown.split("\n") if others else []


def _changes(old: str, new: str) -> list[str]:
    changed = [line for hunk in compare(old, new, "").hunks for line in hunk.lines]
    return [line for text in changed for line in text.split("\n")] or ["(no change)"]


def _added(content: str) -> list[str]:
    return [f"+{line}" for line in content.removesuffix("\n").split("\n")]


def _content(target: str) -> str | None:
    try:
        path = Path(target).expanduser()
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError, RuntimeError):
        return None
