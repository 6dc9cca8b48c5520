"""A summary without a model: the user's words, findings, state, excerpts, and names.

Everything in it is quoted from the conversation or counted, so nothing can be invented. It
follows the notes of a model, or stands alone. Each section has a share of the room; what one
does not need goes to the excerpts.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from msgspec import Struct

from clew.context.digest.dialogue import find_requests, gather_dialogue, measure_lines
from clew.context.digest.edits.edits_section import EditsSection
from clew.context.digest.excerpts import LEAST_PART, Excerpts
from clew.context.digest.history import History, join_passages
from clew.context.digest.name_index import NameIndex
from clew.context.digest.passages import make_passage, render_text
from clew.context.digest.prose.findings import (
    drop_told,
    fit_statements,
    rank_statements,
    render_findings,
)
from clew.context.digest.prose.told_text import ToldText, drop_told_lines
from clew.context.digest.state.state_ledger import render_state
from clew.context.digest.talk import prepare_talk
from clew.context.estimate import Meter, text_units
from clew.context.items import Item, sort_items
from clew.core.ids import EntryId
from clew.core.messages import Role, assistant
from clew.core.text import pluralize

_FINDINGS, _STATE = 0.42, 0.34
"""Shares of the room beside the user's words."""
_EDITS, _MOST_EDITS = 0.35, 8_000
"""Of what these leave."""
_NAMES = 0.8
"""Of the rest, until there are enough names; the other part is for excerpts."""
_MOST_BESIDE_NOTES = 5_000
"""Characters of findings beside the notes of a model, which tell many of them already."""
_FAIR_STATE = 2_000
_MOST_FINDINGS, _MOST_STATE = 15_000, 6_500
"""Characters; beyond them, excerpts say more."""
_MOST_NAMES_CHARS = 3_000
_REACH = 100_000
"""Units of the newest text that are read line by line."""
_EXCERPTS_HEADING = "Excerpts (single lines; gaps are not marked):"
_NAMES_HEADING = "Names that came up: "
_ROUNDS = 4
_USER = str(Role.USER)
_FULL = 0.95


class Digest(Struct, frozen=True, kw_only=True):
    """A digest that is prepared once and written in any size."""

    write_chars: Callable[[int], str]
    """Writes at most this many characters."""
    chars_per_unit: float

    def write(self, max_units: int, meter: Meter = text_units) -> str:
        """Write the digest; deterministic, and never longer than `max_units`."""
        return _fit(self.write_chars, max_units, meter, int(max_units * self.chars_per_unit))

    def write_after(
        self, notes: str, *, max_notes: int, max_units: int, least: int, meter: Meter = text_units
    ) -> tuple[str, str]:
        """Return notes and the digest that follows them; together they have `max_units`.

        Args:
            notes: What a model wrote. If they are longer than `max_notes`, lines that the digest
                tells as well are left out of them.
            max_notes: What was asked for, in units.
            max_units: The room of both.
            least: The digest gets at least this much.
            meter: Measures a text.
        """
        told = self.write(max(least, max_units - meter(notes)), meter)
        if meter(notes) <= max_notes:
            return notes, told
        shorter = drop_told_lines(notes, ToldText(told))
        longer = self.write(max(least, max_units - meter(shorter)), meter)
        # With more room a digest may tell other things.
        shorter = drop_told_lines(notes, ToldText(longer))
        fits = meter(shorter) + meter(longer) <= max(max_units, meter(notes) + meter(told))
        return (shorter, longer) if fits else (notes, told)


def prepare_digest(  # noqa: PLR0913 - what a digest depends on
    items: Sequence[Item],
    *,
    entries: Sequence[EntryId] | None = None,
    staying: Sequence[Item] = (),
    previous: str = "",
    beside: tuple[str, str] = ("", ""),
    conversation: list[Item] | None = None,
    history: History | None = None,
    keep_words: bool = False,
) -> Digest:
    """Prepare a summary of `items` by rules.

    Args:
        items: The messages that leave, or left, the view.
        entries: Their entries, if a list of them is there already.
        staying: The messages that stay; their text is not quoted again.
        previous: An earlier digest, if the messages that it stands for are gone.
        beside: The notes of a model that precede the digest, and files that follow it; empty
            strings if there are none. They are not quoted again.
        conversation: All of the messages in order, in their original text.
        history: Has read the beginning of the conversation for an earlier digest.
        keep_words: The user's words may take most of the room, if all of them fit into it.
    """
    requests = find_requests(previous)
    whole = sort_items([*items, *staying]) if conversation is None else conversation
    if previous:
        earlier = Item.of(EntryId(0), assistant(previous.replace(requests, "", 1)))
        items, whole, entries = [earlier, *items], [earlier, *whole], None
    head = _write_head([item.entry_id for item in items] if entries is None else entries)
    chars_per_unit = _chars_per_unit(items)
    if requests or any(item.asks for item in whole):
        history = history or History()
        history.follow(whole)
        write = _prepare_work(
            items,
            history,
            staying,
            head=head,
            earlier=requests,
            beside=beside,
            keep_words=keep_words,
        )
    else:
        write = _prepare_talk(items, head, keep_words=keep_words)
    return Digest(write_chars=write, chars_per_unit=chars_per_unit)


def _fit(write: Callable[[int], str], max_units: int, meter: Meter, chars: int) -> str:
    """Find the number of characters for which `write` returns a text of `max_units`."""
    best = ""
    for _ in range(_ROUNDS):
        text = write(chars)
        units = meter(text)
        is_all = len(text) < min(0.9 * chars, chars - LEAST_PART)
        if units <= max_units:
            best = max(best, text, key=len)
            if units >= _FULL * max_units or is_all:
                return best
        # Where all that there is to say takes too much, only its own length can be scaled.
        chars = int((len(text) if is_all else chars) * 0.98 * max_units / max(1, units))
    while not best and chars > 0:
        text = write(chars)
        best = text if meter(text) <= max_units else ""
        chars //= 2
    return best


def _chars_per_unit(items: Sequence[Item]) -> float:
    sample = render_text(items[-20:])[:20_000]
    return max(1.0, len(sample) / max(1, text_units(sample)))


def _prepare_work(  # noqa: PLR0913 - the same
    items: Sequence[Item],
    history: History,
    staying: Sequence[Item],
    *,
    head: str,
    earlier: str,
    beside: tuple[str, str],
    keep_words: bool,
) -> Callable[[int], str]:
    """Return the writer of a digest of an agent's work."""
    recent = _take_newest(items, _REACH)
    leaving, visible_texts = history.read_texts(recent, staying)
    stretch = [one for one in join_passages(leaving) if one.label != _USER]
    shown = [*join_passages(visible_texts), *map(make_passage, beside)]
    state = history.state.gather_state()
    known = frozenset(chain.from_iterable([one.line_texts for one in shown]))
    excerpts = Excerpts(stretch, known=known, told="\n".join(state.changed_files.lines))
    edits = EditsSection(state.changes, known=known)
    index = NameIndex(stretch)
    known_names = set(chain.from_iterable([one.names for one in shown]))
    visible = {item.entry_id for item in staying}
    findings = rank_statements([text.prose or text.read_prose() for text in leaving])
    findings = drop_told(findings, beside[0])
    dialogue = gather_dialogue(
        history, state, visible, earlier=earlier, notes=beside[0], keep_words=keep_words
    )

    def list_known(lines: Sequence[str]) -> set[str]:
        return known_names | history.collect_names(lines)

    def write(max_chars: int) -> str:
        lines = dialogue.write(head, max_chars)
        room = max_chars - measure_lines(lines)
        for_findings = _limit_findings(room, notes=beside[0])
        said = "\n".join(lines)
        told = render_findings(fit_statements(findings, max_chars=for_findings, told=said))
        facts = render_state(state, max_chars=_limit_state(room))
        lines += [f"\n{text}" for text in (told, facts) if text]
        lines += _write_edits(edits, max_chars - measure_lines(lines))
        return _write_details(lines, excerpts, index, list_known=list_known, max_chars=max_chars)

    return write


def _limit_state(room: int) -> int:
    """Return the characters that the state may take: half of a small room."""
    return min(max(int(room * _STATE), min(room // 2, _FAIR_STATE)), _MOST_STATE)


def _limit_findings(room: int, *, notes: str) -> int:
    """Return the characters that findings may take."""
    return int(min(room * _FINDINGS, _MOST_BESIDE_NOTES if notes else _MOST_FINDINGS))


def _write_edits(edits: EditsSection, room: int) -> list[str]:
    text = edits.write(min(int(room * _EDITS), _MOST_EDITS))
    return [f"\n{text}"] if text else []


def _write_details(
    lines: Sequence[str],
    excerpts: Excerpts,
    index: NameIndex,
    *,
    list_known: Callable[[Sequence[str]], set[str]],
    max_chars: int,
) -> str:
    """Add excerpts and names to `lines`; what whole lines and names leave takes a part of one.

    `list_known` returns the names that a reader has beside these lines, and those in them.
    """
    text = "\n".join(lines)
    left = max_chars - len(text) - 1
    for_names = min(int(left * _NAMES), _MOST_NAMES_CHARS, index.chars)
    for_excerpts = left - for_names - len(_EXCERPTS_HEADING) - 2
    quoted = excerpts.choose(max_chars=for_excerpts, told=text)
    body = _add_excerpts(text, quoted)
    left = max_chars - len(body) - len(_NAMES_HEADING) - 2
    known = list_known([*lines, _add_excerpts("", quoted)])
    names = index.choose(max_chars=left, known=known)
    listed = f"\n\n{_NAMES_HEADING}{', '.join(names)}" if names else ""
    if max_chars - len(body) - len(listed) >= LEAST_PART:
        room = max_chars - len(text) - len(listed) - len(_EXCERPTS_HEADING) - 3
        body = _add_excerpts(text, excerpts.choose(max_chars=room, told=text, cut=True))
    return body + listed


def _add_excerpts(text: str, quoted: Sequence[str]) -> str:
    return "\n".join([text, f"\n{_EXCERPTS_HEADING}", *quoted]) if quoted else text


def _prepare_talk(items: Sequence[Item], head: str, *, keep_words: bool) -> Callable[[int], str]:
    """Return the writer of a digest of a conversation without tools."""
    write_talk = prepare_talk(items, keep_words=keep_words)

    def write(max_chars: int) -> str:
        first = head[: max(0, max_chars)]
        text = write_talk(max_chars - len(first) - 1)
        return f"{first}\n{text}" if text else first

    return write


def _write_head(entries: Iterable[EntryId]) -> str:
    entries = sorted(entries)
    last = entries[-1] if entries else 0
    count = pluralize(len(entries), "earlier message")
    were = "was" if len(entries) == 1 else "were"
    if last <= 0:
        return f"{count} {were} set aside."
    first = entries[bisect_right(entries, 0)]
    return (
        f"{count} (#{first} to #{last}) {were} set aside. None is lost: each can be read back by "
        f"its number."
    )


def _take_newest(items: Sequence[Item], units: int) -> Sequence[Item]:
    for start in range(len(items) - 1, -1, -1):
        units -= items[start].units
        if units < 0:
            return items[start:]
    return items
