"""A summary that no model writes: facts, telling excerpts, and an index of names.

Everything in it stood in the conversation; nothing can be invented. It is what compaction
falls back on, and what it uses where a model's summaries are not to be trusted.
"""

from collections.abc import Sequence

from clew.context.estimate import text_units
from clew.context.excerpts import excerpts
from clew.context.facts import gather
from clew.context.items import Item
from clew.context.names import names
from clew.context.passages import Passage, passages

_FACTS_SHARE = 0.15
_NAMES_SHARE = 0.45
_MOST_NAMES_CHARS = 9_000
_REACH = 100_000
"""Only the newest text is read line by line: this many units of it."""
_NAMES_HEADING = "Names that came up: "


def digest(items: Sequence[Item], *, max_units: int, known: str = "") -> str:
    """Summarise `items` by rules alone; deterministic, and never above `max_units`.

    `known` is text that stays in the view anyway, so that its names are not listed again.
    """
    stretch = list(passages(_newest(items, _REACH)))
    chars = max_units * _chars_per_unit(stretch)
    text = _write(items, stretch, max_chars=int(chars), known=known)
    while text_units(text) > max_units:
        chars *= 0.98 * max_units / text_units(text)
        text = _write(items, stretch, max_chars=int(chars), known=known)
    return text


def _write(items: Sequence[Item], stretch: Sequence[Passage], *, max_chars: int, known: str) -> str:
    head = _head(items)[: max(0, max_chars)]
    for_facts = int(max_chars * _FACTS_SHARE)
    facts = gather(items, max_chars=2 * for_facts).lines(max_chars=for_facts)
    room = max_chars - len(head) - sum(len(line) + 1 for line in facts) - 2
    for_names = min(int(room * _NAMES_SHARE), _MOST_NAMES_CHARS)
    quoted = excerpts(stretch, max_chars=room - for_names - 1)
    body = "\n".join([head, *facts, *(["", *quoted] if quoted else [])])
    room = max_chars - len(body) - len(_NAMES_HEADING) - 1
    index = names(stretch, known=body + known, max_chars=room)
    return f"{body}\n{_NAMES_HEADING}{', '.join(index)}" if index else body


def _head(items: Sequence[Item]) -> str:
    first, last = items[0].entry_id, items[-1].entry_id
    if first < 1:
        return f"{len(items)} earlier messages were set aside."
    return (
        f"{len(items)} earlier messages (#{first} to #{last}) were set aside. None is lost: each "
        f"can be read back by its number."
    )


def _newest(items: Sequence[Item], units: int) -> Sequence[Item]:
    for start in range(len(items) - 1, -1, -1):
        units -= items[start].units
        if units < 0:
            return items[start:]
    return items


def _chars_per_unit(stretch: Sequence[Passage]) -> float:
    sample = "\n".join(passage.text[:2_000] for passage in stretch[-20:])
    return max(1.0, len(sample) / max(1, text_units(sample)))
