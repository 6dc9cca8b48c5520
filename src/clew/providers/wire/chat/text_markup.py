"""Find reasoning and tool calls that a model wrote into its text, while it streams.

Servers of local models should remove a model's own markup, but do not always know it. So a profile
can name the tags of its family. The same text gives the same result, wherever it is split.
"""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from clew.providers.wire.chat.text_tool_calls import (
    CallSyntax,
    PartialTextCall,
    parse_call,
    suffix_overlap,
)


class ThinkTags(Struct, frozen=True):
    """The tags around reasoning. They count only at the start of a response."""

    opening: str
    closing: str


class CallTags(Struct, frozen=True):
    """The tags around a tool call. They count anywhere, if they contain a call."""

    opening: str
    closing: str
    form: CallSyntax


TextTags: TypeAlias = ThinkTags | CallTags

THINK = ThinkTags("<think>", "</think>")
GEMMA: tuple[TextTags, ...] = (
    ThinkTags("<|channel>thought\n", "<channel|>"),
    THINK,
    CallTags("<|tool_call>call:", "<tool_call|>", CallSyntax.GEMMA),
    CallTags("[TOOL_REQUEST]", "[END_TOOL_REQUEST]", CallSyntax.JSON),
)
"""The tags of Gemma 4 (https://ai.google.dev/gemma/docs/core/prompt-formatting-gemma4), and
those that LM Studio gives models which have none."""


class TextRun(Struct, frozen=True):
    """Text of the response, or of its reasoning."""

    text: str
    thought: bool = False


class TextCall(Struct, frozen=True):
    """A tool call in the text."""

    name: str
    arguments: str


MarkupItem: TypeAlias = TextRun | TextCall


class MarkupSplitter:
    """Splits the text of one response into text, reasoning and tool calls."""

    def __init__(self, tags: Iterable[TextTags], tools: Iterable[str] = ()) -> None:
        """Look for `tags`. A call of an unknown tool stays text: a model may quote one."""
        tags = tuple(tags)
        self._thoughts = [each for each in tags if isinstance(each, ThinkTags)]
        self._calls = [each for each in tags if isinstance(each, CallTags)]
        self._tools = frozenset(tools)
        self._held = ""
        self._inside: TextTags | None = None
        self._partial: PartialTextCall | None = None
        self._at_start = bool(self._thoughts)
        self._trims = False

    def feed(self, text: str) -> list[MarkupItem]:
        """Return the items in the text so far; an incomplete tag is held back."""
        self._held += text
        found: list[MarkupItem] = []
        while self._step(found):
            pass
        return found

    def close(self) -> list[MarkupItem]:
        """Return the text that was held back, as the response is over."""
        held, self._held = self._held, ""
        match self._inside:
            case ThinkTags():
                return self._emit_text(held, thought=True)
            case CallTags(opening=opening):
                self._inside = None
                return self._emit_text(opening + held)
            case None:
                return self._emit_text(held)

    def _step(self, found: list[MarkupItem]) -> bool:
        """Process one tag; False when that needs more text."""
        match self._inside:
            case ThinkTags() as marks:
                return self._think(marks, found)
            case CallTags() as marks:
                return self._call(marks, found)
            case None:
                return self._begin() if self._at_start else self._speak(found)

    def _begin(self) -> bool:
        text = self._held.lstrip()
        for marks in self._thoughts:
            if text.startswith(marks.opening):
                self._held = text.removeprefix(marks.opening)
                self._inside, self._trims = marks, True
                return True
        self._at_start = any(marks.opening.startswith(text) for marks in self._thoughts)
        return not self._at_start

    def _think(self, marks: ThinkTags, found: list[MarkupItem]) -> bool:
        thought, closing, rest = self._held.partition(marks.closing)
        if closing:
            found += self._emit_text(thought, thought=True)
            self._held, self._inside, self._trims = rest, None, True
            return True
        found += self._emit_text(self._all_but([marks.closing]), thought=True)
        return False

    def _speak(self, found: list[MarkupItem]) -> bool:
        places = [(self._held.find(marks.opening), marks) for marks in self._calls]
        begun = [(place, marks) for place, marks in places if place >= 0]
        if not begun:
            found += self._emit_text(self._all_but([marks.opening for marks in self._calls]))
            return False
        place, marks = min(begun, key=lambda each: each[0])
        found += self._emit_text(self._held[:place])
        self._held, self._inside = self._held[place + len(marks.opening) :], marks
        self._partial = PartialTextCall(marks.form, marks.closing, self._tools)
        return True

    def _call(self, marks: CallTags, found: list[MarkupItem]) -> bool:
        text, closing, rest = self._held.partition(marks.closing)
        can_continue = self._partial is not None and self._partial.can_continue(text)
        if can_continue and not closing:
            return False
        self._inside = self._partial = None
        call = parse_call(text, marks.form) if can_continue else None
        if call is not None and call[0] in self._tools:
            found.append(TextCall(*call))
            self._held, self._trims = rest, True
        else:
            # Not a call, but one may follow, so skip only the opening tag.
            found += self._emit_text(marks.opening)
        return True

    def _all_but(self, marks: list[str]) -> str:
        """Return the held text, except an end that may be the start of a tag."""
        keep = max((suffix_overlap(self._held, mark) for mark in marks), default=0)
        text, self._held = self._held[: len(self._held) - keep], self._held[-keep:] if keep else ""
        return text

    def _emit_text(self, text: str, *, thought: bool = False) -> list[MarkupItem]:
        if self._trims:
            text = text.lstrip()
            self._trims = not text
        return [TextRun(text, thought)] if text else []
