"""A session with everything that can be watched about it."""

from pathlib import Path
from typing import Any

from clew import Session, tool
from clew.core.events import Event
from clew.core.ids import SessionId
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.log.reader import LogReader
from clew.log.writer import SessionLog
from clew.providers.scripted import ScriptedProvider, ScriptedReply
from clew.stores.protocol import Store
from clew.stores.sqlite import SqliteStore
from tests.event_buses import bus_for

FACTS = ModelFacts(name="m", window=2_000, max_output=200, summarises=False)
S = SessionId("s")
LONG = "a long answer with many words in it. " * 12


@tool(risk=Risk.INSPECT)
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@tool(risk=Risk.EXECUTE, target="what")
def launch(what: str) -> str:
    """Launch something."""
    return f"{what} launched"


@tool(risk=Risk.INSPECT)
def crash() -> str:
    """Fail in an unforeseen way."""
    raise ZeroDivisionError("boom")


class Told:
    """Hooks that remember what they were told."""

    def __init__(self) -> None:
        self.seen: list[tuple[HookEvent, HookInput]] = []
        self.answers: dict[HookEvent, HookVerdict] = {}
        self.stored: int | None = None
        self.store: Store | None = None

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        self.seen.append((event, payload))
        if event is HookEvent.SESSION_END and self.store is not None:
            known = {record.id: record for record in await self.store.sessions()}
            self.stored = known[S].messages if S in known else None
        return self.answers.get(event, HookVerdict())

    def of(self, event: HookEvent) -> list[HookInput]:
        return [payload for name, payload in self.seen if name is event]


class Scene:
    """Makes sessions, and keeps what they said, told and wrote."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.events: list[Event] = []
        self.hooks = Told()
        self.store = SqliteStore(tmp_path / "s.db")
        self.hooks.store = self.store
        self.provider = ScriptedProvider([])

    def session(self, *replies: ScriptedReply, **options: Any) -> Session:
        self.provider = ScriptedProvider(replies, FACTS)
        made: dict[str, Any] = {
            "tools": [add, launch, crash],
            "store": self.store,
            "session_id": "s",
            "hooks": self.hooks,
            "system_message": "Be exact.",
            "event_bus": bus_for(self.events.append),
            "session_log": SessionLog(self.folder / "logs"),
        }
        return Session(self.provider, model="m", **made | options)

    def heard(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def logged(self, name: str) -> list[dict[str, Any]]:
        return [
            line.fields for line in LogReader(self.folder / "logs" / "s.jsonl") if line.name == name
        ]
