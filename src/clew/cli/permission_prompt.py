"""The question that the user answers before a tool call runs.

Every line of a model, a tool or a file stands behind a bar, so that it cannot imitate Clew.
"""

from collections.abc import Iterator

from clew.core.events import PermissionRequest
from clew.core.permissions import Approval, Risk
from clew.core.sanitize import sanitize, sanitize_line, split_rows
from clew.core.text import pluralize, truncate_middle
from clew.sdk.permission_preview import preview_request

BAR = "  │ "
MAX_LINES = 20
_MAX_SCOPE = 80
_MIN_WIDTH = 8
_VERBS = {Risk.INSPECT: "read", Risk.MODIFY: "change", Risk.EXECUTE: "run", Risk.UNKNOWN: "do"}
_ANSWERS = {
    **dict.fromkeys(("y", "yes", "o", "once"), Approval.ONCE),
    **dict.fromkeys(("s", "session"), Approval.SESSION),
    **dict.fromkeys(("p", "project"), Approval.PROJECT),
    **dict.fromkeys(("n", "no"), Approval.NO),
}
VIEW = frozenset({"v", "view"})
MAX_URL = 1_000
"""The most characters of a URL in a question."""
_WEB = ("http://", "https://")


def format_choices(*, session: str, project: bool, hidden: bool) -> str:
    """Return the possible answers.

    Args:
        session: What "session" would allow until the session ends.
        project: Whether the call can be allowed for the project.
        hidden: Whether some lines are hidden.
    """
    longer = f"[s]ession: {sanitize_line(session, _MAX_SCOPE)}" if session else "[s]ession"
    kept = ", [p]roject" if project else ""
    return f"[y]es once, {longer}{kept}, [n]o{', [v]iew all' if hidden else ''}"


def parse_approval(typed: str, *, project: bool) -> Approval | None:
    """Return what an answer means; None when it is not one of the choices."""
    found = _ANSWERS.get(typed.strip().lower())
    return None if found is Approval.PROJECT and not project else found


def format_request(request: PermissionRequest, *, width: int) -> tuple[str, list[str]]:
    """Return the first line of the question, and the lines that stand behind the bar."""
    is_fetch = request.risk is Risk.INSPECT and request.target.startswith(_WEB)
    verb = "send a request to" if is_fetch else _VERBS[request.risk]
    title = f"{request.tool_name} wants to {verb}:"
    target = sanitize(truncate_middle(request.target, MAX_URL) if is_fetch else request.target)
    preview = preview_request(request)
    if "\n" not in target and len(list(split_rows(f"{title} {target}", width))) == 1:
        return f"{title} {target}", preview
    return title, [*target.split("\n"), *preview]


def add_bars(lines: list[str], *, width: int, limit: int | None = MAX_LINES) -> Iterator[str]:
    """Yield lines behind the bar, with long ones wrapped; counts the ones over `limit`."""
    for line in lines[:limit]:
        for row in split_rows(sanitize(line), max(_MIN_WIDTH, width - len(BAR) - 1)):
            yield BAR + row
    if limit is not None and len(lines) > limit:
        yield f"{BAR}… {pluralize(len(lines) - limit, 'more line')}"
