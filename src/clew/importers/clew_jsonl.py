"""Clew's own journals as a file: one entry a line.

A Clew compaction may keep messages from the middle. As in every recording, they stand
behind the summary here, and what was dropped before it.
"""

from collections.abc import Iterable

from clew.context.view import find_withdrawn
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
from clew.importers.findings import Findings
from clew.importers.parts import Draft, summary
from clew.importers.recorded import RecordedSession
from clew.importers.tidy import last_model, tidy

_NO_SUMMARY = "(Earlier messages were dropped here without a summary.)"


def export_jsonl(entries: Iterable[Entry]) -> bytes:
    """Write `entries` as a file that `parse` reads and people can search."""
    return b"".join(encode(entry) + b"\n" for entry in entries)


def parse(lines: Iterable[bytes]) -> RecordedSession:
    """Read a journal; a line that is no entry is noted and passed over."""
    findings = Findings()
    entries = _entries(lines, findings)
    gone = find_withdrawn(entries)
    reader = _Reader(findings)
    for entry in entries:
        if gone.counts(entry):
            reader.take(entry, stale=gone.is_stale(entry))
    steps = tidy([*reader.left, *(draft for _, draft in reader.held)], findings)
    return RecordedSession(
        source="clew",
        model=last_model(steps) or reader.setup.model.name,
        system=reader.setup.system,
        tools=reader.setup.tools,
        steps=steps,
        problems=findings.report(),
    )


def _entries(lines: Iterable[bytes], findings: Findings) -> list[Entry]:
    entries: list[Entry] = []
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            entries.append(decode(line))
        except (StoreDamaged, UnicodeDecodeError) as error:
            findings.damaged(number, error)
    return entries


class _Reader:
    """Takes a journal entry by entry."""

    def __init__(self, findings: Findings) -> None:
        self.setup = SetupChanged(model=ModelFacts(name=""))
        self.left: list[Draft] = []
        """What is no longer in the view, oldest first."""
        self.held: list[tuple[EntryId, Draft]] = []
        self._findings = findings

    def take(self, entry: Entry, *, stale: bool = False) -> None:
        """Make of one entry what it stands for; a stale one counted what was undone later."""
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
            self._findings.count(
                len(self.left) + len(self.held),
                "1 message before a clear left out",
                "{} messages before a clear left out",
            )
            self.left, self.held = [], []
        elif isinstance(body, UnknownBody):
            self._findings.unknown("body")
        else:
            self._findings.silent(type(body).__name__)

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
            # These counts were made when the dropped messages were still sent.
            draft.usage = None
        self._findings.count(
            len(body.replaced),
            "1 message that a compaction shortened is shown in full",
            "{} messages that a compaction shortened are shown in full",
        )
        kept[:0] = [(entry_id, self._draft(message, at)) for message in body.inserted]
        if body.summary:
            made = summary(body.summary, at=at)
            made.usage = body.usage
            kept.insert(0, (entry_id, made))
        elif dropped and not any(draft.compacts for _, draft in kept):
            self._findings.note("a compaction dropped messages without a summary")
            kept.insert(0, (entry_id, summary(_NO_SUMMARY, at=at)))
        self.held = kept
