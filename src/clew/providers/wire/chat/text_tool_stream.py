"""A tool call among the words while it is still being written.

Until it is complete its text is held back, and what is held back is lost when the answer is
broken off. So it is held only as long as it can still become a call of a tool that there is.
"""

import re
from collections.abc import Collection

from clew.providers.wire.chat.text_tool_calls import QUOTE, CallSyntax

LONGEST = 1 << 16
"""Characters of one call; what goes on for longer is words."""

_MARKS = re.compile(r'[{}"]')
_GEMMA_MARKS = re.compile(rf'{re.escape(QUOTE)}|[{{}}"]')
_IN_TEXT = re.compile(r'\\.?|"', re.DOTALL)
_IN_QUOTE = re.compile(re.escape(QUOTE))
_KEYS = ('"name"', '"arguments"')


class PartialTextCall:
    """Follows one call; each question is asked with all of the text so far."""

    def __init__(self, form: CallSyntax, closing: str, tools: Collection[str]) -> None:
        self._form = form
        self._closing = closing
        self._tools = tools
        self._is_named = False
        self._at = self._depth = self._end = 0
        self._quote = ""

    def goes_on(self, text: str) -> bool:
        """Say whether `text`, and what may follow, can still be a call.

        Once it cannot, it never can: where the text is cut changes nothing.
        """
        if not self._is_named and not self._begins(text):
            return False
        self._follow(text)
        if self._end:
            return self._closing.startswith(text[self._end :].lstrip())
        return len(text) - suffix_overlap(text, self._closing) <= LONGEST

    def _begins(self, text: str) -> bool:
        """Say whether `text` begins like a call of one of the tools."""
        match self._form:
            case CallSyntax.GEMMA:
                name, brace, _ = text.partition("{")
                return self._is_tool(name.strip(), complete=bool(brace))
            case CallSyntax.JSON:
                return self._begins_object(text.lstrip())

    def _begins_object(self, text: str) -> bool:
        inside = text[1:].lstrip()
        if text[:1] not in {"", "{"}:
            return False
        key = next((key for key in _KEYS if inside.startswith(key)), None)
        if key != _KEYS[0]:
            return key is not None or any(each.startswith(inside) for each in _KEYS)
        colon = inside.removeprefix(key).lstrip()
        value = colon[1:].lstrip()
        if colon[:1] not in {"", ":"} or value[:1] not in {"", '"'}:
            return False
        name, quote, _ = value[1:].partition('"')
        return self._is_tool(name, complete=bool(quote))

    def _is_tool(self, name: str, *, complete: bool) -> bool:
        if complete:
            self._is_named = name in self._tools
            return self._is_named
        return any(tool.startswith(name) for tool in self._tools)

    def _follow(self, text: str) -> None:
        """Go on to where the object ends, if it does; nothing is looked at twice."""
        stop = len(text)
        if self._form is CallSyntax.GEMMA:
            stop -= suffix_overlap(text, QUOTE)
        while not self._end and (mark := self._marks().search(text, self._at, stop)):
            if mark[0] == "\\":
                # What it escapes has not come yet.
                self._at = mark.start()
                return
            self._at = mark.end()
            self._take(mark[0])
        self._at = max(self._at, stop)

    def _marks(self) -> re.Pattern[str]:
        if self._quote:
            return _IN_QUOTE if self._quote == QUOTE else _IN_TEXT
        return _GEMMA_MARKS if self._form is CallSyntax.GEMMA else _MARKS

    def _take(self, mark: str) -> None:
        if self._quote:
            self._quote = "" if mark == self._quote else self._quote
        elif mark in {QUOTE, '"'}:
            self._quote = mark
        else:
            self._depth += 1 if mark == "{" else -1
            self._end = self._at if self._depth <= 0 else 0


def suffix_overlap(text: str, mark: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of `mark`."""
    sizes = range(min(len(mark) - 1, len(text)), 0, -1)
    return next((size for size in sizes if text.endswith(mark[:size])), 0)
