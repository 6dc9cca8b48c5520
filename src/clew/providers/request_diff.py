"""Find where a request differs from the recorded one."""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.messages import Message, Part
from clew.providers.protocol import Request
from clew.providers.recorded_calls import RecordedRequest, extra_fields

_AROUND = 40
_SHOWN = 120

Redact = Callable[[Any], Any]


class Difference(Struct, frozen=True, kw_only=True):
    """The first place where two requests differ."""

    call: int
    """The number of the call, starting at 1."""
    where: str
    """For example `message 3 (tool), part 1 (tool_result), text, character 120`."""
    expected: str
    found: str
    message: int | None = None
    """The number of the message, starting at 1."""
    part: int | None = None

    def __str__(self) -> str:
        return f"call {self.call}, {self.where}: expected {self.expected}, found {self.found}"


class Comparison:
    """Compares the requests of a session with those of a recording, in order.

    Messages that matched in the previous call are not compared again.
    """

    def __init__(self, redact: Redact | None = None) -> None:
        self._redact = redact
        self._expected: list[Message] = []
        self._seen: tuple[Message, ...] = ()
        self._agreed = 0

    def compare(self, call: int, expected: RecordedRequest, request: Request) -> Difference | None:
        """Return the first difference in request order, or None."""
        del self._expected[expected.keep :]
        self._expected += expected.new
        kept = min(self._agreed, expected.keep)
        start = kept if request.messages[:kept] == self._seen[:kept] else 0
        where = (
            self._plain("model", expected.model, request.model)
            or self._plain("system prompt", expected.system, request.system)
            or self._tools(expected, request)
            or self._messages(request.messages, start)
            or self._head(expected, request)
        )
        self._seen = request.messages
        self._agreed = 0 if where and where.message else len(request.messages)
        return where and msgspec.structs.replace(where, call=call)

    def _messages(self, found: tuple[Message, ...], start: int) -> Difference | None:
        for place in range(start, max(len(found), len(self._expected))):
            number = place + 1
            if place >= len(found) or place >= len(self._expected):
                wanted = self._expected[place] if place < len(self._expected) else None
                given = found[place] if place < len(found) else None
                return Difference(
                    call=0,
                    where=f"message {number}",
                    expected=_summary(wanted),
                    found=_summary(given),
                    message=number,
                )
            inside = self._message(number, self._expected[place], found[place])
            if inside is not None:
                return inside
        return None

    def _message(self, number: int, expected: Message, found: Message) -> Difference | None:
        if expected is found or expected == found:
            return None
        if self._redact is not None:
            found = msgspec.convert(self._redact(msgspec.to_builtins(found)), Message)
            if expected == found:
                return None
        where = f"message {number} ({expected.role})"
        for name in ("role", "interrupted", "provenance"):
            one, other = getattr(expected, name), getattr(found, name)
            if one != other:
                return _text(
                    f"{where}, {name}", _format_value(one), _format_value(other), message=number
                )
        for place, (a, b) in enumerate(zip_longest(expected.parts, found.parts), 1):
            if a != b:
                return _part(where, place, a, b, message=number)
        return None

    def _plain(self, name: str, expected: str | None, found: str) -> Difference | None:
        if expected is None or expected == found:
            return None
        found = self._clean(found)
        return None if expected == found else _text(name, expected, found)

    def _tools(self, expected: RecordedRequest, request: Request) -> Difference | None:
        if expected.tools is None or expected.tools == request.tools:
            return None
        pairs = zip_longest(expected.tools, request.tools)
        for place, (one, other) in enumerate(pairs, 1):
            a, b = msgspec.to_builtins(one), self._clean(msgspec.to_builtins(other))
            if a != b:
                return _text(f"tool {place}", _json(a), _json(b))
        return None

    def _head(self, expected: RecordedRequest, request: Request) -> Difference | None:
        if expected.head is None:
            return None
        found = self._clean(extra_fields(request))
        for name in sorted({*expected.head, *found}):
            one, other = expected.head.get(name), found.get(name)
            if one != other:
                return _text(name, _json(one), _json(other))
        return None

    def _clean(self, value: Any) -> Any:
        return value if self._redact is None else self._redact(value)


def _part(
    where: str, place: int, expected: Part | None, found: Part | None, *, message: int
) -> Difference:
    if expected is None or found is None or type(expected) is not type(found):
        return Difference(
            call=0,
            where=f"{where}, part {place}",
            expected=_kind(expected),
            found=_kind(found),
            message=message,
            part=place,
        )
    where = f"{where}, part {place} ({_kind(expected)})"
    for name in expected.__struct_fields__:
        one, other = getattr(expected, name), getattr(found, name)
        if one != other:
            return _text(
                f"{where}, {name}",
                _format_value(one),
                _format_value(other),
                message=message,
                part=place,
            )
    raise AssertionError


def _text(
    where: str, expected: str, found: str, *, message: int | None = None, part: int | None = None
) -> Difference:
    """Describe where two texts differ, with some context."""
    pairs = zip(expected, found, strict=False)
    least = min(len(expected), len(found))
    first = next((n for n, (a, b) in enumerate(pairs) if a != b), least)
    if first:
        where = f"{where}, character {first + 1}"
    return Difference(
        call=0,
        where=where,
        expected=_around(expected, first),
        found=_around(found, first),
        message=message,
        part=part,
    )


def _around(text: str, place: int) -> str:
    start = max(0, place - _AROUND)
    end = start + _SHOWN
    cut = ("…" if start else "", text[start:end], "…" if end < len(text) else "")
    return repr("".join(cut))


def _summary(message: Message | None) -> str:
    if message is None:
        return "no message"
    return f"{message.role} with {', '.join(map(_kind, message.parts)) or 'nothing'}"


def _kind(part: Part | None) -> str:
    return "nothing" if part is None else str(part.__struct_config__.tag)


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else _json(msgspec.to_builtins(value))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def compare_messages(one: Sequence[Message], other: Sequence[Message]) -> Difference | None:
    """Return the first difference between two conversations, or None."""
    comparison = Comparison()
    expected = RecordedRequest(new=tuple(one))
    return comparison.compare(0, expected, Request(model="", messages=tuple(other)))
