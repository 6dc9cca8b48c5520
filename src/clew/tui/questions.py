"""The questions that wait for an answer: permission requests, as a list with one open question.

Every line of a model, a tool or a file stands behind a bar, so that it cannot imitate Clew.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from clew.core.events import PermissionRequest
from clew.core.permissions import Risk
from clew.core.sanitize import sanitize, sanitize_line, split_rows
from clew.core.text import pluralize, truncate_middle
from clew.sdk.permission_preview import preview_request
from clew.sdk.permission_requests import Choice, list_choices
from clew.tui.blocks import EXIT_PLAN_MODE

BAR: Final = "  │ "
MAX_LINES: Final = 20
"""The most lines of a preview; `v` shows all of them."""
MAX_URL: Final = 1_000
"""The most characters of a URL in a question."""
_MAX_SCOPE = 80
_MAX_REASON = 300
_MIN_WIDTH = 8
_VERBS = {Risk.INSPECT: "read", Risk.MODIFY: "change", Risk.EXECUTE: "run", Risk.UNKNOWN: "do"}
_WEB = ("http://", "https://")

ANSI: Final = "ansi"
"""The style of a text that has its own colours."""
Line: TypeAlias = tuple[str, str]
"""A style of `clew.tui.layout`, and a text."""


class QuestionList:
    """The pending requests, which of them is open, and which answer is selected."""

    def __init__(self) -> None:
        self._requests: list[PermissionRequest] = []
        self._index = 0
        self.selected = 0
        """The number of the selected answer."""
        self.writing: Choice | None = None
        """The answer whose text the user writes; None while choosing."""
        self.is_armed = False
        """True when keys answer the question. Until the user has seen it, they do not."""

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def is_writing(self) -> bool:
        """True while the user writes to the model."""
        return self.writing is not None

    @property
    def current(self) -> PermissionRequest | None:
        """The open question; None when nothing is asked."""
        return self._requests[self._index] if self._requests else None

    @property
    def others(self) -> Sequence[PermissionRequest]:
        """The other pending questions, in their order."""
        return [one for place, one in enumerate(self._requests) if place != self._index]

    def add(self, request: PermissionRequest) -> None:
        """Add a request at the end of the list."""
        if all(one.request_id != request.request_id for one in self._requests):
            self._requests.append(request)

    def remove(self, request_id: str) -> None:
        """Remove a request that was answered, or is no longer needed."""
        current = self.current
        self._requests = [one for one in self._requests if one.request_id != request_id]
        if current is None or current.request_id == request_id:
            self._open(min(self._index, max(0, len(self._requests) - 1)))
        else:
            self._index = self._requests.index(current)

    def clear(self) -> None:
        """Remove all requests."""
        self._requests = []
        self._open(0)

    def select(self, step: int) -> None:
        """Select the next answer, or the previous one."""
        if self.current is not None:
            self.selected = (self.selected + step) % len(list_choices(self.current))

    def switch(self, step: int) -> None:
        """Open the next question, or the previous one."""
        if self._requests:
            self._open((self._index + step) % len(self._requests), armed=self.is_armed)

    def find_choice(self, key: str) -> Choice | None:
        """Return the answer with that key; the selected one for an empty key."""
        if self.current is None:
            return None
        choices = list_choices(self.current)
        if not key:
            return choices[self.selected]
        return next((one for one in choices if one.key == key.lower()), None)

    def _open(self, index: int, *, armed: bool = False) -> None:
        self._index, self.selected, self.writing, self.is_armed = index, 0, None, armed


def format_title(request: PermissionRequest) -> str:
    """Return who wants to do what, without the target."""
    if request.tool_name == EXIT_PLAN_MODE:
        return "The model presents a plan:"
    asker = f"{sanitize_line(request.asker, _MAX_SCOPE)}: " if request.asker else ""
    if request.is_question:
        return f"{asker}{sanitize_line(request.tool_name, _MAX_SCOPE)} asks you:"
    verb = "send a request to" if _is_fetch(request) else _VERBS[request.risk]
    return f"{asker}{sanitize_line(request.tool_name, _MAX_SCOPE)} wants to {verb}:"


def format_request(request: PermissionRequest, *, width: int) -> tuple[str, list[str]]:
    """Return the first line of the question, and the lines that stand behind the bar."""
    title, target = format_target(request, width=width)
    return title, [*target, *preview_request(request)]


def format_target(request: PermissionRequest, *, width: int) -> tuple[str, list[str]]:
    """Return the first line of the question, and the lines of a target that does not fit there."""
    title = format_title(request)
    target = "" if request.tool_name == EXIT_PLAN_MODE else request.target
    target = sanitize(truncate_middle(target, MAX_URL) if _is_fetch(request) else target)
    if "\n" not in target and len(list(split_rows(f"{title} {target}", width))) == 1:
        return f"{title} {target}".rstrip(), []
    return title, target.split("\n")


def add_bars(lines: Sequence[str], *, width: int, limit: int | None = MAX_LINES) -> Iterator[str]:
    """Yield lines behind the bar, with long ones wrapped; counts the ones over `limit`."""
    for line in lines[:limit]:
        for row in split_rows(sanitize(line), max(_MIN_WIDTH, width - len(BAR) - 1)):
            yield BAR + row
    if limit is not None and len(lines) > limit:
        yield f"{BAR}… {pluralize(len(lines) - limit, 'more line')}"


def draw_questions(
    questions: QuestionList, preview: Sequence[str], *, width: int, rows: int
) -> list[Line]:
    """Return the lines of the live area about the open question, in at most `rows` rows.

    Args:
        questions: The questions.
        preview: What the call would do, as rows with colours.
        width: The columns of the terminal.
        rows: The most rows.
    """
    request = questions.current
    if request is None:
        return []
    title, target = format_target(request, width=width)
    below = [
        ("dim", row) for row in _wrap(f"({sanitize_line(request.reason, _MAX_REASON)})", width)
    ]
    below += _draw_choices(questions, width=width, hidden=len(target) + len(preview) > MAX_LINES)
    below += [("dim", _cut(f"also waiting: {_brief(one)}", width)) for one in questions.others]
    room = max(1, rows - len(below) - 1)
    bars = [("", bar) for bar in add_bars(target, width=width, limit=None)]
    bars += [(ANSI, row) for row in preview]
    most = min(room, MAX_LINES)
    if len(bars) > most:
        hidden = pluralize(len(bars) - most + 1, "more line")
        bars = [*bars[: most - 1], ("dim", f"{BAR}… {hidden}; v shows all")]
    number = f" ({len(questions)} questions)" if len(questions) > 1 else ""
    drawn = [("question", _cut(title + number, width)), *bars, *below]
    return drawn if len(drawn) <= rows else [drawn[0], *drawn[len(drawn) - rows + 1 :]]


def _draw_choices(questions: QuestionList, *, width: int, hidden: bool) -> list[Line]:
    assert questions.current is not None  # noqa: S101 - the caller has checked
    if questions.is_writing:
        what = "write your answer" if questions.current.is_question else "write to the model"
        return [("dim", _cut(f"{what}; Enter sends, Esc goes back", width))]
    if not questions.is_armed:
        return [("dim", _cut("pause typing to answer", width))]
    lines = []
    for place, choice in enumerate(list_choices(questions.current)):
        is_selected = place == questions.selected
        mark = "❯" if is_selected else " "
        text = _cut(f"{mark} {choice.key}  {choice.label}", width)
        lines.append(("selected" if is_selected else "", text))
    more = ["v shows all of it"] if hidden else []
    more += ["← → other question"] if len(questions) > 1 else []
    hint = ", ".join(["press a key, or ↑ ↓ and Enter", *more, "Esc interrupts"])
    return [*lines, ("dim", _cut(f"  {hint}", width))]


def _brief(request: PermissionRequest) -> str:
    return f"{format_title(request)} {sanitize_line(request.target, _MAX_SCOPE)}"


def _is_fetch(request: PermissionRequest) -> bool:
    return request.risk is Risk.INSPECT and request.target.startswith(_WEB)


def _wrap(text: str, width: int) -> list[str]:
    return list(split_rows(text, max(_MIN_WIDTH, width - 1)))


def _cut(text: str, width: int) -> str:
    rows = list(split_rows(text, max(1, width - 1)))
    return rows[0] if len(rows) == 1 else f"{rows[0][:-1]}…"
