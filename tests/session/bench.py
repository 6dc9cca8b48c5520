"""A session beside its model, and everything that must agree after each move."""

from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec.structs import replace

from clew import Session, tool
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.render import find_problems, render
from clew.context.summary_prompt import SUMMARY_SYSTEM
from clew.context.view import View, fold
from clew.core.entries import Body, Compacted, Entry, MessageAdded, SessionRecord, SetupChanged
from clew.core.errors import SessionNotFound
from clew.core.events import EntryAdded, Event
from clew.core.ids import EntryId, SessionId
from clew.core.messages import Role, assistant, user
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.log.events import LogLevel
from clew.log.replay_state import replay_log
from clew.log.writer import SessionLog
from clew.providers.protocol import Chunk, Request
from clew.providers.scripted import ScriptedProvider, ScriptedReply
from clew.session.history import get_messages_for_api
from clew.stores.memory import MemoryStore
from clew.stores.protocol import Store
from clew.stores.sqlite import SqliteStore
from tests.event_buses import bus_for
from tests.session.plain_model import Model

WINDOW = 3_000
FACTS = ModelFacts(name="m", window=WINDOW, max_output=300, summarises=False)
POLICY = ContextPolicy(thresholds=Thresholds(compact=0.6), preserve_recent_turns=2)
AHEAD = ContextPolicy(
    thresholds=Thresholds(warn=0.4, compact=0.6),
    preserve_recent_turns=2,
    background_compaction="on",
)
"""Prepares summaries in the background."""
LONG_TURNS = 45
"""Enough for a snapshot when a session is closed."""


@tool(risk=Risk.INSPECT)
def read(size: int) -> str:
    """Return so many lines."""
    return "line of a file\n" * size


@tool(risk=Risk.INSPECT)
def crash() -> str:
    """Fail in an unforeseen way."""
    raise ZeroDivisionError("boom")


@tool(risk=Risk.EXECUTE, target="what")
def launch(what: str) -> str:
    """Launch something; nobody is there to allow it."""
    return f"{what} launched"


@tool(risk=Risk.INSPECT)
async def wait() -> str:
    """Never come to an end."""
    await anyio.sleep_forever()
    raise AssertionError


class Witness(ScriptedProvider):
    """Answers from a script, and holds every request against the model."""

    def __init__(self, seat: "Seat") -> None:
        self.replies: deque[ScriptedReply] = deque()
        self.seat = seat
        super().__init__(self._script(), FACTS)

    def facts(self, model: str) -> ModelFacts:
        """Say that all models are alike but for the name."""
        return replace(FACTS, name=model, summarises=self.seat.ahead)

    def _script(self) -> Iterator[ScriptedReply]:
        while True:
            yield self.replies.popleft() if self.replies else "nothing more to say"

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Check the request, then answer it."""
        if request.system == SUMMARY_SYSTEM:
            async for chunk in ScriptedProvider(["Notes of what was said."]).stream(request):
                yield chunk
            return
        self.seat.requests += 1
        self.seat.catch_up()
        assert find_problems(request.messages) == []
        assert list(request.messages) == self.seat.model.sent()
        assert request.model == self.seat.model.name
        async for chunk in super().stream(request):
            yield chunk


@dataclass
class Seat:
    """One session, its model, and all that it said was safe."""

    session_id: str
    make_model: type[Model] = Model
    ahead: bool = False
    """Whether summaries are prepared in the background."""
    told: list[Entry] = field(default_factory=list)
    requests: int = 0

    def __post_init__(self) -> None:
        self.model = self.make_model()
        self._taken = 0
        self.provider = Witness(self)
        self.session: Session | None = None
        self.log: SessionLog | None = None

    @property
    def live(self) -> Session:
        """The session."""
        assert self.session is not None
        return self.session

    def hear(self, event: Event) -> None:
        """Note which entries are safe."""
        if isinstance(event, EntryAdded):
            self.told.append(event.entry)

    def catch_up(self) -> list[Entry]:
        """Let the model know of what happened; returns that."""
        fresh = self.told[self._taken :]
        self._taken = len(self.told)
        for entry in fresh:
            if isinstance(entry.body, Compacted):
                self._judge(entry.body)
            self.model.take(entry)
        return fresh

    def _judge(self, body: Compacted) -> None:
        """Check that a compaction spares what it must."""
        shown = self.model.shown()
        asked = [number for number, message in shown if message.role is Role.USER]
        assert set(body.dropped) <= {number for number, _ in shown}
        assert not self.model.pinned & set(body.dropped)
        assert not asked or asked[-1] not in body.dropped


class Bench:
    """Sessions in one store, played on step by step; see `tests.session.model`."""

    def __init__(
        self, folder: Path, *, disk: bool, logged: bool, ahead: bool, model: type[Model]
    ) -> None:
        self.folder, self.disk, self.logged, self.make_model = folder, disk, logged, model
        self.store: Store = MemoryStore()
        self.seat = Seat("first", model, ahead)
        self.seen: Counter[str] = Counter()

    async def begin(self, *, long: bool) -> None:
        """Open the first session, if `long` with a past that is worth a snapshot."""
        self.open_store()
        if long:
            entries = past()
            record = SessionRecord(
                id=SessionId(self.seat.session_id), cwd="/", created_at=1.0, updated_at=1.0
            )
            await self.store.create(record)
            await self.store.append(record.id, entries)
            self.seat.told += entries
        await self.open(self.seat)

    def open_store(self) -> None:
        """Reach the place anew, as another process would."""
        if self.disk:
            self.store = SqliteStore(self.folder / "s.db")

    async def open(self, seat: Seat, model: str = "m") -> Session:
        """Begin the session of a seat, or go on with it."""
        seat.log = SessionLog(self.folder, level=LogLevel.EVENTS) if self.logged else None
        seat.session = Session(
            seat.provider,
            model=model,
            tools=[read, crash, launch, wait],
            store=self.store,
            session_id=seat.session_id,
            cwd=self.folder,
            policy=AHEAD if seat.ahead else POLICY,
            session_log=seat.log,
            system_message="Be exact.",
            event_bus=bus_for(seat.hear),
        )
        known = list(seat.told)
        await seat.session.open()
        # Results that an opening adds for calls without one are written before anybody listens.
        stored = await self.stored(seat.session_id)
        assert stored[: len(known)] == known
        seat.told = stored
        return seat.session

    async def close(self) -> None:
        """End what is open."""
        await self.seat.live.shutdown()
        await self.store.aclose()

    async def stored(self, session_id: str) -> list[Entry]:
        """Return what the store holds of a session."""
        try:
            return list((await self.store.load(SessionId(session_id)))[1])
        except SessionNotFound:
            return []

    async def check(self) -> None:
        """Hold the session against its model, its store and its log."""
        seat, session = self.seat, self.seat.live
        if (preparation := session.state.preparation) is not None:
            with anyio.fail_after(5):
                await preparation.done.wait()
        seat.catch_up()
        model, view, shown = seat.model, session.journal.view, seat.model.shown()
        assert [message for _, message in shown] == session.get_history()
        assert [number for number, _ in shown] == [item.entry_id for item in view.items]
        assert model.sent() == list(render(view))
        assert find_problems(model.sent()) == []
        assert model.undoable == list(view.undoable)
        assert model.pinned == set(view.pinned)
        assert plain(fold(session.journal.entries, meter=view.meter)) == plain(view)
        assert await self.stored(seat.session_id) == seat.told
        added = [one.body.message for one in seat.told if isinstance(one.body, MessageAdded)]
        assert get_messages_for_api(session.get_full_history()) == added
        asked = [call.call_id for message in added for call in message.calls]
        assert len(asked) == len(set(asked))
        if seat.told:
            assert session.journal.entries == seat.told
            assert (model.name, model.mode) == (view.setup.model.name, view.mode)
        if seat.log is not None and seat.log.path is not None and seat.log.path.exists():
            replayed = replay_log(seat.log.path)
            assert replayed.history == session.get_history()
            assert list(replayed.entries) == seat.told


def plain(view: View) -> dict[str, Any]:
    """Return a view in a form in which two can be compared, however each was made."""
    fields: dict[str, Any] = msgspec.structs.asdict(view)
    return fields | {"items": list(view.items), "archived": list(view.archived)}


def past() -> list[Entry]:
    """Return a conversation that took place before the game begins."""
    bodies: list[Body] = [SetupChanged(model=FACTS)]
    for number in range(LONG_TURNS):
        bodies.append(MessageAdded(message=user(f"question {number}")))
        bodies.append(MessageAdded(message=assistant(f"answer {number}")))
    return [Entry(id=EntryId(n), at=1.0, body=body) for n, body in enumerate(bodies, 1)]
