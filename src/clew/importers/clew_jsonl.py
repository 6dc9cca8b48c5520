"""Export and read Clew's own journals: JSON lines with one entry each.

A Clew compaction may keep messages from the middle. As in every `RecordedSession`, kept messages
follow the summary, and dropped messages precede it.
"""

from collections.abc import Iterable, Sequence

from clew.context.undone_entries import find_undone_entries
from clew.core.entries import (
    Cleared,
    Compacted,
    Entry,
    MessageAdded,
    SetupChanged,
    UnknownBody,
    decode,
    encode,
)
from clew.core.errors import StoreDamaged
from clew.core.ids import EntryId
from clew.core.messages import Message, Role
from clew.core.models import ModelFacts
from clew.importers.import_notes import ImportNotes
from clew.importers.recorded_session import Draft, RecordedSession, summary_draft
from clew.importers.repair import last_model, repair_conversation

_NO_SUMMARY = "(Earlier messages were dropped here without a summary.)"


def export_jsonl(entries: Iterable[Entry]) -> bytes:
    """Encode `entries` as a text file that `parse` reads."""
    return b"".join(encode(entry) + b"\n" for entry in entries)


def parse(lines: Iterable[bytes]) -> RecordedSession:
    """Read a journal; a damaged line is noted and skipped."""
    notes = ImportNotes()
    return _record(_entries(lines, notes), notes)


def record_entries(entries: Sequence[Entry]) -> RecordedSession:
    """Return the conversation of a journal as a recording."""
    return _record(entries, ImportNotes())


def _record(entries: Sequence[Entry], notes: ImportNotes) -> RecordedSession:
    gone = find_undone_entries(entries)
    reader = _Reader(notes)
    for entry in entries:
        if gone.counts(entry):
            reader.add(entry, stale=entry.id in gone.stale)
    steps = repair_conversation([*reader.left, *(draft for _, draft in reader.held)], notes)
    return RecordedSession(
        source="clew",
        model=last_model(steps) or reader.setup.model.name,
        system=reader.setup.system,
        tools=reader.setup.tools,
        steps=steps,
        problems=notes.to_list(),
    )


def _entries(lines: Iterable[bytes], notes: ImportNotes) -> list[Entry]:
    entries: list[Entry] = []
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            entries.append(decode(line))
        except (StoreDamaged, UnicodeDecodeError) as error:
            notes.add_damage(number, error)
    return entries


class _Reader:
    """Builds drafts from journal entries."""

    def __init__(self, notes: ImportNotes) -> None:
        self.setup = SetupChanged(model=ModelFacts(name=""))
        self.left: list[Draft] = []
        """Messages that left the view, oldest first."""
        self.held: list[tuple[EntryId, Draft]] = []
        self._notes = notes

    def add(self, entry: Entry, *, stale: bool = False) -> None:
        """Add one entry; the usage of a stale one includes messages that were undone later."""
        body = entry.body
        if isinstance(body, MessageAdded):
            draft = self._draft(body.message, entry.at)
            draft.usage = None if stale else body.usage
            self.held.append((entry.id, draft))
        elif isinstance(body, Compacted):
            self._compact(entry.id, body, entry.at)
        elif isinstance(body, SetupChanged):
            self.setup = body
        elif isinstance(body, Cleared):
            self._notes.add_count(
                len(self.left) + len(self.held),
                "skipped 1 message before a clear",
                "skipped {} messages before a clear",
            )
            self.left, self.held = [], []
        elif isinstance(body, UnknownBody):
            self._notes.count_unknown("body")
        else:
            self._notes.count_silent(type(body).__name__)

    def _draft(self, message: Message, at: float) -> Draft:
        return Draft(
            role=message.role,
            parts=list(message.parts),
            model=self.setup.model.name if message.role is Role.ASSISTANT else "",
            at=at,
            interrupted=message.interrupted,
        )

    def _compact(self, entry_id: EntryId, body: Compacted, at: float) -> None:
        dropped = frozenset(body.dropped)
        self.left += [draft for held, draft in self.held if held in dropped]
        kept = [(held, draft) for held, draft in self.held if held not in dropped]
        for _, draft in kept:
            # The provider counted these while the dropped messages were still sent.
            draft.usage = None
        self._notes.add_count(
            len(body.replaced),
            "1 message that a compaction truncated is complete here",
            "{} messages that a compaction truncated are complete here",
        )
        kept[:0] = [(entry_id, self._draft(message, at)) for message in body.inserted]
        if body.summary:
            made = summary_draft(body.summary, at=at)
            made.usage = body.usage
            kept.insert(0, (entry_id, made))
        elif dropped and not any(draft.compacts for _, draft in kept):
            self._notes.add("a compaction dropped messages without a summary")
            kept.insert(0, (entry_id, summary_draft(_NO_SUMMARY, at=at)))
        self.held = kept
