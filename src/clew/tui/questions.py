"""The questions that wait for an answer: permission requests, as a list with one open question.

Every line of a model, a tool or a file stands behind a bar, so that it cannot imitate Clew.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from clew.core.events import PermissionRequest
from clew.core.permissions import Risk
from clew.core.sanitize import sanitize, sanitize_line, split_rows
from clew.core.text import pluralize, truncate_middle
from clew.sdk.permission_requests import Choice, list_choices
from clew.tui.blocks import EXIT_PLAN_MODE
from clew.tui.rendering.lines import Span, wrap_line

BAR: Final = "  │ "
MAX_LINES: Final = 20
"""The most lines of a preview; `v` shows all of them."""
MAX_URL: Final = 1_000
"""The most characters of a URL in a question."""
_MAX_SCOPE = 80
_MAX_REASON = 300
_MIN_WIDTH = 8
_MIN_PREVIEW = 4
"""With fewer rows for what the call would do, the lines below it are cut, not wrapped."""
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
        return "Carry out this plan?"
    asker = f"{sanitize_line(request.asker, _MAX_SCOPE)}: " if request.asker else ""
    if request.is_question:
        return f"{asker}{sanitize_line(request.tool_name, _MAX_SCOPE)} asks you:"
    verb = "send a request to" if _is_fetch(request) else _VERBS[request.risk]
    return f"{asker}{sanitize_line(request.tool_name, _MAX_SCOPE)} wants to {verb}:"


def format_target(request: PermissionRequest, *, width: int) -> tuple[str, list[str]]:
    """Return the first line of the question, and the lines of a target that does not fit there."""
    title = format_title(request)
    target = "" if request.tool_name == EXIT_PLAN_MODE else request.target
    target = sanitize(truncate_middle(target, MAX_URL) if _is_fetch(request) else target)
    if "\n" not in target and len(list(split_rows(f"{title} {target}", width))) == 1:
        return f"{title} {target}".rstrip(), []
    return title, target.split("\n")


def add_bars(lines: Sequence[str], *, width: int) -> Iterator[str]:
    """Yield lines behind the bar, with long ones wrapped."""
    for line in lines:
        for row in split_rows(sanitize(line), max(_MIN_WIDTH, width - len(BAR) - 1)):
            yield BAR + row


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
    below = _draw_below(questions, width=width, hidden=len(target) + len(preview) > MAX_LINES)
    if 1 + min(_MIN_PREVIEW, len(target) + len(preview)) + sum(map(len, below)) > rows:
        below = [lines if len(lines) == 1 else [_cut_rows(lines)] for lines in below]
    below_rows = [row for lines in below for row in lines]
    room = max(1, rows - len(below_rows) - 1)
    bars = [("", bar) for bar in add_bars(target, width=width)]
    bars += [(ANSI, row) for row in preview]
    most = min(room, MAX_LINES)
    if len(bars) > most:
        hidden = pluralize(len(bars) - most + 1, "more line")
        bars = [*bars[: most - 1], ("dim", f"{BAR}… {hidden}; v shows all")]
    number = f" ({len(questions)} questions)" if len(questions) > 1 else ""
    drawn = [("question", _cut(title + number, width)), *bars, *below_rows]
    return drawn if len(drawn) <= rows else [drawn[0], *drawn[len(drawn) - rows + 1 :]]


def _draw_below(questions: QuestionList, *, width: int, hidden: bool) -> list[list[Line]]:
    """Return the reason, the answers and the other questions; each as the rows that it takes."""
    request = questions.current
    lines: list[list[Line]] = []
    if request is not None and request.tool_name != EXIT_PLAN_MODE:
        lines.append(_wrap("dim", f"({sanitize_line(request.reason, _MAX_REASON)})", width))
    lines += _draw_choices(questions, width=width, hidden=hidden)
    return [
        *lines,
        *([("dim", _cut(f"also waiting: {_brief(one)}", width))] for one in questions.others),
    ]


def _draw_choices(questions: QuestionList, *, width: int, hidden: bool) -> list[list[Line]]:
    assert questions.current is not None  # noqa: S101 - the caller has checked
    if questions.writing is not None:
        return [_wrap("dim", _describe_writing(questions.current, questions.writing), width)]
    if not questions.is_armed:
        return [_wrap("dim", "pause typing to answer", width)]
    lines = []
    for place, choice in enumerate(list_choices(questions.current)):
        is_selected = place == questions.selected
        start = f"{'❯' if is_selected else ' '} {choice.key}  "
        style = "selected" if is_selected else ""
        lines.append(_wrap(style, start + choice.label, width, indent=len(start)))
    more = ["v shows all of it"] if hidden else []
    more += ["← → other question"] if len(questions) > 1 else []
    hint = ", ".join(["press a key, or ↑ ↓ and Enter", *more, "Esc interrupts"])
    return [*lines, _wrap("dim", f"  {hint}", width, indent=2)]


def _describe_writing(request: PermissionRequest, choice: Choice) -> str:
    if choice.text:
        return "edit the plan; Enter carries it out, Alt-Enter starts a line, Esc goes back"
    what = "write your answer" if request.is_question else "write to the model"
    return f"{what}; Enter sends, Esc goes back"


def _brief(request: PermissionRequest) -> str:
    return f"{format_title(request)} {sanitize_line(request.target, _MAX_SCOPE)}"


def _is_fetch(request: PermissionRequest) -> bool:
    return request.risk is Risk.INSPECT and request.target.startswith(_WEB)


def _wrap(style: str, text: str, width: int, *, indent: int = 0) -> list[Line]:
    rest = (Span(" " * indent),)
    rows = wrap_line((Span(text),), max(_MIN_WIDTH, width - 1), rest=rest)
    return [(style, "".join(span.text for span in row)) for row in rows]


def _cut_rows(rows: list[Line]) -> Line:
    style, text = rows[0]
    return style, f"{text[:-1]}…"


def _cut(text: str, width: int) -> str:
    rows = list(split_rows(text, max(1, width - 1)))
    return rows[0] if len(rows) == 1 else f"{rows[0][:-1]}…"
