"""A recording as the journal of a Clew session."""

import time
from collections.abc import Iterable

import anyio
from msgspec.structs import replace

from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Reduce
from clew.context.view import View
from clew.core.entries import Body, Compacted, Entry, MessageAdded, SessionRecord, SetupChanged
from clew.core.ids import EntryId, SessionId, new_session_id
from clew.importers.recorded import RecordedSession, Source, Step
from clew.providers.catalogue import lookup
from clew.stores.protocol import Store

_BATCH = 500


def entries_for(session: RecordedSession) -> list[Body]:
    """Return the bodies of a journal whose first entry has the id 1.

    Its fold is the view that the other tool had at the end.
    """
    return [entry.body for entry in journal_of(session)]


def journal_of(session: RecordedSession) -> list[Entry]:
    """Return the same as entries, dated as they were recorded."""
    writer = _Writer(session)
    first = next((step.model for step in session.steps if step.model), session.model)
    writer.choose(first, session.steps[0].at if session.steps else 0.0)
    for place, step in enumerate(session.steps):
        if step.compacts:
            writer.compact(step, _counted_next(session.steps[place + 1 :]))
        else:
            writer.take(step)
    return writer.entries


async def import_session(store: Store, session: RecordedSession) -> SessionId:
    """Write `session` into `store` under a fresh id; when it fails, nothing of it stays.

    Raises:
        StoreError: The store cannot be written to.
    """
    entries = journal_of(session)
    session_id = new_session_id()
    record = SessionRecord(
        id=session_id,
        cwd=session.cwd,
        created_at=entries[0].at or time.time(),
        updated_at=entries[-1].at or time.time(),
        name=session.name,
    )
    await store.create(record)
    try:
        for start in range(0, len(entries), _BATCH):
            await store.append(session_id, entries[start : start + _BATCH])
    except BaseException:
        with anyio.CancelScope(shield=True):
            await store.delete(session_id)
        raise
    return session_id


class _Writer:
    """Numbers bodies, and keeps the view that they lead to."""

    def __init__(self, session: RecordedSession) -> None:
        self.entries: list[Entry] = []
        self._session = session
        self._view = View()
        self._at = 0.0

    def take(self, step: Step) -> None:
        """Write one message."""
        if step.model and step.model != self._view.setup.model.name:
            self.choose(step.model, step.at)
        self._add(MessageAdded(message=step.message, usage=step.usage), step.at)

    def compact(self, step: Step, counted: int | None) -> None:
        """Write a compaction after which the next request held `counted` tokens."""
        made = _compaction(self._view, step, self._session.source)
        if counted is not None:
            made = replace(made, report=replace(made.report, tokens_after=counted))
        self._add(made, step.at)

    def choose(self, model: str, at: float) -> None:
        """Write which model the requests go to from here on."""
        system, tools = self._session.system, self._session.tools
        self._add(SetupChanged(model=lookup(model), system=system, tools=tools), at)

    def _add(self, body: Body, at: float) -> None:
        self._at = at or self._at
        entry = Entry(id=EntryId(len(self.entries) + 1), at=self._at, body=body)
        self.entries.append(entry)
        self._view = self._view.apply(entry)


def _counted_next(steps: Iterable[Step]) -> int | None:
    """Return the provider's count of the first request after a compaction.

    An estimate would not do: most tools do not record their system prompt and tools, which
    the count before the compaction contains.
    """
    for step in steps:
        if step.compacts:
            return None
        if step.usage is not None:
            return step.usage.input_tokens
    return None


def _compaction(view: View, step: Step, source: Source) -> Compacted:
    plan = Reduce(dropped=tuple(view.items), why=f"recorded by {source} and imported")
    summary = WrittenSummary(text=step.message.text, author="model", usage=step.usage)
    return build_compaction(view, plan, summary, trigger="auto", strategy="imported")
