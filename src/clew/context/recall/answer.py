"""Write what a search found, or entries in full, as text for a model or a person."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from clew.context.recall.search import Found, Hit
from clew.context.recall.units import ReadEntry, Unit, read_units
from clew.core.errors import SessionError
from clew.core.text import one_line, truncate

_REFERENCE = re.compile(r"#?(\d+)(?:(?:-|–|\.\.)#?(\d+))?(?:[~±](\d+))?")
_JOINT = re.compile(r"\s*(-|–|\.\.|~|±)\s*")
_SEPARATOR = re.compile(r"[,\s]+")
_HEAD_CHARS = 160
_NEAR_CHARS = 300
_NEAR_ENTRIES = 40
_FULL_HITS = 4
"""How many hits are shown with all their snippets."""
_SHORT_CHARS = 200
_MOST_SAME = 5
_MOST_ENTRIES = 100
_MOST_CONTEXT = 40
_LEAST_SHARE = 400
"""Characters of each entry of a long range, at least."""


class Hints(Struct, frozen=True, kw_only=True):
    """How a reader asks for more: templates with `{id}`, `{offset}`, `{first}` and `{last}`."""

    read: str
    around: str


class EntryRange(Struct, frozen=True, kw_only=True):
    """A range of entries."""

    first: int
    last: int

    @property
    def numbers(self) -> range:
        """The numbers of the entries."""
        return range(self.first, self.last + 1)


def parse_references(text: str) -> tuple[EntryRange, ...] | None:
    """Return the entries that `#12`, `382-390`, `#12~3` or `#27 #65` stands for.

    None for other text: several numbers without `#` or commas are words to look for.

    Raises:
        SessionError: A range is empty, or there are too many entries.
    """
    named = [part for part in _SEPARATOR.split(_JOINT.sub(r"\1", text.strip())) if part]
    matches = [_REFERENCE.fullmatch(part) for part in named]
    is_list = len(named) == 1 or "," in text or all(part.startswith("#") for part in named)
    if not matches or None in matches or not is_list:
        return None
    references = tuple(_make_reference(match) for match in matches if match)
    sizes = [len(one.numbers) for one in references]
    if min(sizes) < 1 or sum(sizes) > _MOST_ENTRIES:
        raise SessionError(
            f"{one_line(text, 80)} is not a range of entries; write one such as 382-390, with at"
            f" most {_MOST_ENTRIES} entries"
        )
    return references


def _make_reference(match: re.Match[str]) -> EntryRange:
    first, last = int(match[1]), int(match[2] or match[1])
    context = min(int(match[3] or 0), _MOST_CONTEXT)
    return EntryRange(first=max(1, first - context), last=last + context)


def format_found(
    found: Found, *, hints: Hints, read: ReadEntry | None = None, room: int = 12_000
) -> str:
    """Return the hits, the best with the most text, and how to read on.

    Args:
        found: The result of a search.
        hints: How the reader asks for more.
        read: Reads entries of the session, for what came before and after the best hit; None
            names the session of each hit instead.
        room: The maximum number of characters, about.
    """
    blocks: list[str] = []
    for place, hit in enumerate(found.hits):
        block = truncate(_format_hit(hit, place, read), max(_HEAD_CHARS, room))
        room -= len(block)
        if room < 0 and blocks:
            break
        blocks.append(block)
    best = found.hits[0]
    number, offset = best.unit.entry_id, best.snippets[0].offset if best.snippets else 0
    left = found.total - len(blocks)
    last = f"{left:,} more hits; add words or a filter to narrow them. " if left else ""
    last += hints.read.format(id=number, offset=offset)
    last += "; " + hints.around.format(id=number, first=max(1, number - 2), last=number + 2)
    notes = [f"No entry contains: {', '.join(found.missing)}"] if found.missing else []
    return "\n\n".join([*notes, *blocks, f"[{last}]"])


def format_heading(unit: Unit, *, with_call: bool = True) -> str:
    """Return one line about a unit: number, tool or role, call, status, time, length."""
    head = unit.text.split("\n", 1)[0]
    called = one_line(head.removeprefix(unit.tool).strip(), _HEAD_CHARS) if unit.call else ""
    name = unit.tool or unit.role
    status = f" → {unit.status}" if unit.status else ""
    facts = [f"{len(unit.text):,} characters"]
    if unit.at:
        facts.insert(0, f"{datetime.fromtimestamp(unit.at, UTC):%Y-%m-%d %H:%M}")
    if unit.called_in is not None:
        facts.append(f"called in #{unit.called_in}")
    what = f" {called}" if called and with_call else ""
    return f"#{unit.entry_id} {name}{what}{status} ({', '.join(facts)})"


def _format_hit(hit: Hit, place: int, read: ReadEntry | None) -> str:
    unit = hit.unit
    lines = [format_heading(unit)]
    if read is None:
        lines[0] = f"{hit.session_id} {lines[0]}"
    if place < _FULL_HITS:
        for snippet in hit.snippets:
            is_whole = len(snippet.text) >= len(unit.text.rstrip())
            lines.append(snippet.text if is_whole else f"@{snippet.offset} …{snippet.text}…")
    else:
        lines += [one_line(snippet.text, _SHORT_CHARS) for snippet in hit.snippets[:1]]
    if hit.same:
        older = ", ".join(f"#{number}" for number in hit.same[:_MOST_SAME])
        more = f" and {len(hit.same) - _MOST_SAME} more" if len(hit.same) > _MOST_SAME else ""
        lines.append(f"(nearly the same text: {older}{more})")
    if place == 0 and read is not None:
        lines += _near(unit, read)
    return "\n".join(lines)


def _near(unit: Unit, read: ReadEntry) -> list[str]:
    """Return the request that led to a unit, and what the model said after it."""
    lines: list[str] = []
    if unit.role not in ("user", "summary", "note"):
        before = range(unit.entry_id - 1, max(0, unit.entry_id - _NEAR_ENTRIES), -1)
        lines += _first_said(before, "user", "Request before it", read)
    after = range(unit.entry_id + 1, unit.entry_id + _NEAR_ENTRIES)
    return lines + _first_said(after, "assistant", "Said after it", read)


def _first_said(numbers: range, role: str, label: str, read: ReadEntry) -> list[str]:
    for number in numbers:
        for unit in read_units(number, read):
            if unit.role == role:
                return [f"({label}, #{number}: {one_line(unit.text, _NEAR_CHARS)})"]
            if unit.role == "user":
                return []
    return []


def format_entries(
    references: Sequence[EntryRange], read: ReadEntry, *, offset: int = 0, page: int
) -> str:
    """Return entries in full, from `offset` in the first, up to `page` characters.

    Of several entries, a long one leaves room for the others.

    Raises:
        SessionError: There is no text, or the offset is past the end.
    """
    units = _read_all(references, read)
    if not units:
        raise SessionError(f"there is no text under {', '.join(map(_name, references))}")
    if offset >= len(units[0].text):
        raise SessionError(
            f"#{units[0].entry_id} has {len(units[0].text):,} characters; {offset:,} is past the"
            " end"
        )
    most = _share([len(unit.text) for unit in units], page)
    blocks: list[str] = []
    for unit in units:
        if page <= 0:
            blocks.append(f"[the rest starts at #{unit.entry_id}]")
            break
        text = unit.text[offset : offset + min(page, most)]
        end = offset + len(text)
        left = len(unit.text) - end
        more = f"\n[{left:,} more characters of #{unit.entry_id}: offset={end}]" if left else ""
        blocks.append(f"{format_heading(unit, with_call=False)}\n{text}{more}")
        page -= len(text)
        offset = 0
    return "\n\n".join(blocks)


def _share(sizes: Sequence[int], room: int) -> int:
    """Return the largest size that each may have so that all fit; at least a useful passage."""
    for place, size in enumerate(sorted(sizes)):
        most = room // (len(sizes) - place)
        if size > most:
            return max(most, _LEAST_SHARE)
        room -= size
    return max(sizes)


def _read_all(references: Sequence[EntryRange], read: ReadEntry) -> Sequence[Unit]:
    """Return the units of ranges; of a call and its result in them, only the two together."""
    units: dict[tuple[int, str], Unit] = {}
    for reference in references:
        for number in reference.numbers:
            for unit in read_units(number, read):
                key = (unit.entry_id, unit.call.call_id if unit.call else "")
                units.setdefault(key, unit)
    return list(units.values())


def _name(reference: EntryRange) -> str:
    if reference.first == reference.last:
        return f"#{reference.first}"
    return f"#{reference.first}-{reference.last}"
