"""Messages that stay in a compacted view, shortened: results, answers, arguments and requests.

Each step is taken only if the one before was not enough. A truncated text keeps its head and
its tail; a mark in between names the entry that has the whole text. Arguments stay valid JSON.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from clew.context.estimate import text_units
from clew.context.items import Item, ItemKind
from clew.core.entries import Replacement
from clew.core.ids import CallId, EntryId
from clew.core.json_text import JsonDecoder
from clew.core.messages import Message, Part, Text, ToolCall, ToolResult
from clew.core.text import truncate_middle

_LEAST_CHARS = 200
"""Texts are not made shorter than this, except by the last step."""
_BARE_CHARS = 60
_ROUNDS = 3
_any_json = JsonDecoder()

_Slot: TypeAlias = tuple[EntryId, CallId | None]
"""The place of a text: an entry, and a call if the text is its arguments."""


def shorten_items(
    items: Sequence[Item], pinned: frozenset[EntryId], *, room: int, only_results: bool = False
) -> tuple[Replacement, ...]:
    """Truncate texts of `items` until all of them fit into `room` units, as far as possible.

    Tool results come first, then answers, arguments of calls and requests (unless
    `only_results`), each from the longest down to a common length. Pinned messages and
    thinking stay as they are.
    """
    excess = sum(item.units for item in items) - room
    if excess <= 0:
        return ()
    free = [item for item in items if item.entry_id not in pinned]
    changed: dict[_Slot, str] = {}
    every = (_find_results, _find_answers, _find_arguments, _find_requests)
    steps = [(find, _LEAST_CHARS) for find in (every[:1] if only_results else every)]
    if not only_results:
        steps += [(find, _BARE_CHARS) for find in every]
    # The marks take room too, so the first round of a step often saves too little.
    for find, least in (step for step in steps for _ in range(_ROUNDS)):
        excess -= _truncate_all(find(free), changed, excess=excess, least=least)
        if excess <= 0:
            break
    return _make_replacements(free, changed)


def _find_results(items: Iterable[Item]) -> dict[_Slot, str]:
    return {(item.entry_id, None): _result_text(item) for item in items if len(item.answers) == 1}


def _find_answers(items: Iterable[Item]) -> dict[_Slot, str]:
    return {
        (item.entry_id, None): item.message.text
        for item in items
        if item.kind is ItemKind.ASSISTANT and item.message.text
    }


def _find_requests(items: Iterable[Item]) -> dict[_Slot, str]:
    return {
        (item.entry_id, None): item.message.text
        for item in items
        if item.kind is ItemKind.USER and item.message.text
    }


def _find_arguments(items: Iterable[Item]) -> dict[_Slot, str]:
    return {
        (item.entry_id, call.call_id): call.arguments
        for item in items
        if item.asks
        for call in item.message.calls
    }


def _result_text(item: Item) -> str:
    return "\n".join(result.text for result in item.message.results)


def _truncate_all(
    texts: dict[_Slot, str], changed: dict[_Slot, str], *, excess: int, least: int
) -> int:
    """Truncate texts to a common number of characters; returns the units that this saves."""
    now = {slot: changed.get(slot, text) for slot, text in texts.items()}
    sizes = {slot: text_units(text) for slot, text in now.items() if len(text) > least}
    if not sizes:
        return 0
    level = _find_level([(len(now[slot]), units) for slot, units in sizes.items()], excess, least)
    saved = 0
    for slot, units in sizes.items():
        if len(now[slot]) <= level:
            continue
        short = _truncate(texts[slot], level, slot)
        gain = units - text_units(short)
        if gain > 0:
            changed[slot] = short
            saved += gain
    return saved


def _find_level(sizes: Sequence[tuple[int, int]], excess: int, least: int) -> int:
    """Return the largest number of characters per text that saves `excess` units."""
    low, high = least, max(chars for chars, _ in sizes)
    while low < high:
        middle = (low + high + 1) // 2
        saved = sum(units * (1 - middle / chars) for chars, units in sizes if chars > middle)
        low, high = (middle, high) if saved >= excess else (low, middle - 1)
    return low


def _truncate(text: str, chars: int, slot: _Slot) -> str:
    entry_id, call_id = slot
    where = f"; entry #{entry_id} has it" if entry_id > 0 else ""
    if call_id is None:
        return truncate_middle(text, chars, where=where)
    return _truncate_arguments(text, chars, where=where)


def _truncate_arguments(arguments: str, chars: int, *, where: str) -> str:
    """Truncate the long strings in the JSON of a call; the result is JSON with the same keys."""
    try:
        value = _any_json.decode(arguments)
    except msgspec.DecodeError:
        value = {"arguments": arguments}
    limit = chars
    while limit > _BARE_CHARS:
        short = _map_strings(value, lambda text: truncate_middle(text, limit, where=where))  # noqa: B023 - called at once
        written = msgspec.json.encode(short).decode()
        if len(written) <= chars:
            return written
        limit //= 2
    return msgspec.json.encode(_map_strings(value, lambda text: text[:_BARE_CHARS])).decode()


def _map_strings(value: object, change: Callable[[str], str]) -> object:
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _map_strings(inner, change) for key, inner in value.items()}
        case list():
            return [_map_strings(inner, change) for inner in value]
        case _:
            return value


def _make_replacements(items: Iterable[Item], changed: dict[_Slot, str]) -> tuple[Replacement, ...]:
    if not changed:
        return ()
    made: list[Replacement] = []
    for item in items:
        arguments = {
            call_id: changed[item.entry_id, call_id]
            for call_id in item.asks
            if (item.entry_id, call_id) in changed
        }
        text = changed.get((item.entry_id, None))
        if text is None and arguments:
            text = item.message.text
        if text is not None:
            made.append(Replacement(entry_id=item.entry_id, text=text, arguments=arguments))
    return tuple(made)


def apply_replacement(message: Message, change: Replacement) -> Message:
    """Return `message` as `change` shows it."""
    text: str | None = change.text
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case ToolResult(call_id=call_id, name=name, failed=failed):
                parts.append(
                    ToolResult(call_id=call_id, name=name, text=change.text, failed=failed)
                )
            case Text() if text is not None:
                parts.append(Text(text))
                text = None
            case Text():
                pass
            case ToolCall(call_id=call_id) if call_id in change.arguments:
                parts.append(replace(part, arguments=change.arguments[call_id]))
            case _:
                parts.append(part)
    return replace(message, parts=tuple(parts))
