"""Convert a recording to the journal of a Clew session."""

import time
from collections.abc import Iterable

import anyio
from msgspec.structs import replace

from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Reduce
from clew.context.view import View
from clew.core.entries import Body, Compacted, Entry, MessageAdded, SessionRecord, SetupChanged
from clew.core.ids import EntryId, SessionId, new_session_id
from clew.importers.recorded_session import RecordedSession, RecordedStep, Source
from clew.providers.catalogue import lookup
from clew.stores.protocol import Store

_BATCH = 500


def build_journal(session: RecordedSession) -> list[Entry]:
    """Return a journal with the recorded dates, starting with entry 1.

    Its fold is the view that the other tool had at the end.
    """
    writer = _Writer(session)
    first = next((step.model for step in session.steps if step.model), session.model)
    writer.set_model(first, session.steps[0].at if session.steps else 0.0)
    for place, step in enumerate(session.steps):
        if step.compacts:
            writer.compact(step, _tokens_of_next_request(session.steps[place + 1 :]))
        else:
            writer.add(step)
    return writer.entries


async def import_session(store: Store, session: RecordedSession) -> SessionId:
    """Write `session` to `store` with a new id; a failed import leaves nothing behind.

    Raises:
        StoreError: The store cannot be written.
    """
    entries = build_journal(session)
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
    """Numbers entries, and keeps the view that they produce."""

    def __init__(self, session: RecordedSession) -> None:
        self.entries: list[Entry] = []
        self._session = session
        self._view = View()
        self._at = 0.0

    def add(self, step: RecordedStep) -> None:
        """Add one message."""
        if step.model and step.model != self._view.setup.model.name:
            self.set_model(step.model, step.at)
        self._add(MessageAdded(message=step.message, usage=step.usage), step.at)

    def compact(self, step: RecordedStep, counted: int | None) -> None:
        """Add a compaction; `counted` is the size of the next request in tokens."""
        made = _compaction(self._view, step, self._session.source)
        if counted is not None:
            made = replace(made, report=replace(made.report, tokens_after=counted))
        self._add(made, step.at)

    def set_model(self, model: str, at: float) -> None:
        """Add a setup with the model of the next requests."""
        system, tools = self._session.system, self._session.tools
        self._add(SetupChanged(model=lookup(model), system=system, tools=tools), at)

    def _add(self, body: Body, at: float) -> None:
        self._at = at or self._at
        entry = Entry(id=EntryId(len(self.entries) + 1), at=self._at, body=body)
        self.entries.append(entry)
        self._view = self._view.apply(entry)


def _tokens_of_next_request(steps: Iterable[RecordedStep]) -> int | None:
    """Return the provider's count of the first request after a compaction.

    An estimate would be too low: the count before the compaction includes the system prompt and
    the tools, and most recordings do not contain those.
    """
    for step in steps:
        if step.compacts:
            return None
        if step.usage is not None:
            return step.usage.input_tokens
    return None


def _compaction(view: View, step: RecordedStep, source: Source) -> Compacted:
    plan = Reduce(dropped=tuple(view.items), why=f"recorded by {source} and imported")
    summary = WrittenSummary(text=step.message.text, author="model", usage=step.usage)
    return build_compaction(view, plan, summary, trigger="auto", strategy="imported")
