"""What the agent needs next and still sees: identifiers and whole lines, at recorded calls.

The measure is that of `benchmarks.recall`, taken while a session continues. Earlier content that
the tool calls of the next sixty answers use again is needed; the share of it that the view
contains is the quality of the view.
"""

import re
from collections.abc import Sequence
from functools import cached_property

import msgspec

from clew.context.digest.passages import render_text
from clew.context.items import Item
from clew.context.view import View
from clew.core.messages import Message, Role
from clew.simulation.recall import ANSWERS_AHEAD, find_names, message_text

EVERY = 10
"""One in this many calls is measured."""
_NUMBERED = re.compile(r"^\s*\d+[→\t]")
_LONG = 24


class ViewQuality:
    """Scores views of one session; the totals are by scenario."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._texts: dict[int, tuple[Item, str]] = {}
        self.names: dict[str, list[int]] = {}
        """Needed and seen names of each scenario."""
        self.lines: dict[str, list[int]] = {}

    def __call__(self, scenario: str, view: View, index: int) -> None:
        """Score the view before the answer `index`."""
        if self._answers.index(index) % EVERY:
            return
        ahead = [n for n in self._answers if n >= index][:ANSWERS_AHEAD]
        text = "\n".join(self._text(item) for item in view.items)
        for totals, used, said in (
            (self.names, self._called_names, self._names),
            (self.lines, self._called_lines, self._lines),
        ):
            seen = frozenset[str]().union(*said[:index])
            needed = seen.intersection(frozenset[str]().union(*(used[n] for n in ahead)))
            total = totals.setdefault(scenario, [0, 0])
            total[0] += len(needed)
            total[1] += sum(one in text for one in needed)

    def _text(self, item: Item) -> str:
        known = self._texts.get(id(item))
        if known is None:
            known = self._texts[id(item)] = (item, render_text([item]))
        return known[1]

    @cached_property
    def _answers(self) -> list[int]:
        return [n for n, message in enumerate(self._messages) if message.role is Role.ASSISTANT]

    @cached_property
    def _names(self) -> list[frozenset[str]]:
        return [find_names(message_text(message)) for message in self._messages]

    @cached_property
    def _lines(self) -> list[frozenset[str]]:
        return [_find_lines(message_text(message)) for message in self._messages]

    @cached_property
    def _called_names(self) -> list[frozenset[str]]:
        return [find_names(_argument_text(message)) for message in self._messages]

    @cached_property
    def _called_lines(self) -> list[frozenset[str]]:
        return [_find_lines(_argument_text(message)) for message in self._messages]


def sum_qualities(sessions: Sequence[ViewQuality]) -> dict[str, tuple[float, float]]:
    """Return the share of needed names and of needed lines that each scenario keeps in view."""
    return {
        scenario: (
            _share([session.names.get(scenario, [0, 0]) for session in sessions]),
            _share([session.lines.get(scenario, [0, 0]) for session in sessions]),
        )
        for scenario in dict.fromkeys(name for session in sessions for name in session.names)
    }


def _share(totals: Sequence[Sequence[int]]) -> float:
    needed = sum(total[0] for total in totals)
    return sum(total[1] for total in totals) / needed if needed else 1.0


def _find_lines(text: str) -> frozenset[str]:
    stripped = (_NUMBERED.sub("", line).strip() for line in text.splitlines())
    return frozenset(line for line in stripped if len(line) >= _LONG)


def _argument_text(message: Message) -> str:
    """Return every string in the arguments of the calls, a line each."""
    return "\n".join(_strings(_parse(call.arguments)) for call in message.calls)


def _parse(arguments: str) -> object:
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def _strings(value: object) -> str:
    match value:
        case str():
            return value
        case dict():
            return "\n".join(map(_strings, value.values()))
        case list():
            return "\n".join(map(_strings, value))
        case _:
            return ""
