"""Shortening what is too large to keep whole and too recent to drop."""

from collections.abc import Sequence

from clew.context.estimate import text_units
from clew.context.excerpt import excerpt
from clew.context.items import Item
from clew.core.entries import Replacement
from clew.core.ids import EntryId

_LEAST_CHARS = 200


def shorten_results(
    items: Sequence[Item], pinned: frozenset[EntryId], *, room: int
) -> tuple[Replacement, ...]:
    """Cut the largest tool results among `items` until all of them fit into `room` units."""
    excess = sum(item.units for item in items) - room
    changes: list[Replacement] = []
    for item in sorted(items, key=lambda item: -item.units):
        if excess <= 0:
            break
        if len(item.answers) != 1 or item.entry_id in pinned:
            continue
        change = shorter(item, by=excess)
        saved = text_units(_text(item)) - text_units(change.text)
        if saved > 0:
            changes.append(change)
            excess -= saved
    return tuple(changes)


def shorter(item: Item, *, by: int) -> Replacement:
    """Return head and tail of a result, `by` units shorter if it has as many to give."""
    text = _text(item)
    chars = round(len(text) * max(0.0, 1 - by / max(1, item.units)))
    where = f"; entry #{item.entry_id} has it" if item.entry_id > 0 else ""
    return Replacement(
        entry_id=item.entry_id, text=excerpt(text, max(chars, _LEAST_CHARS), where=where)
    )


def _text(item: Item) -> str:
    return "\n".join(result.text for result in item.message.results)
