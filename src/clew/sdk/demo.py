"""A session for demonstrations: on the embedded model, with log files that fill its window.

Everything in it is real: the model runs on this machine, tools read files in a temporary
folder, and the session is on disk from its first entry.
"""

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from clew.context.recall.entry_text import entry_text
from clew.context.view import View
from clew.core.context_state import ContextState
from clew.core.entries import Entry
from clew.core.ids import EntryId, SessionId, new_session_id
from clew.providers.catalogue import SMOLLM2
from clew.providers.embedded.provider import Embedded
from clew.sdk.folders import store_path
from clew.session.event_bus import EnvelopeListener
from clew.session.gate import Gate
from clew.session.session import Session
from clew.stores.protocol import Store
from clew.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools

DEMO_MODEL = SMOLLM2.name
RULE = "Remember this rule: the release code word is MARIGOLD-7 and we never deploy on Fridays."
NEEDLE = "order 4711 failed: card declined"
"""A line of the first log, to find again after a compaction."""
_SYSTEM = "You are a friendly guide. Answer in one short sentence."
_TOKENS_PER_LINE = 170
"""The window grows the logs: one line for this many tokens, so that it fills in small steps."""
_WHO = ("the baker", "the florist", "a customer", "the courier", "the night clerk")
_DID = ("paid for", "returned", "asked about", "picked up")
_WHAT = ("a basket of apples", "the blue umbrella", "two concert tickets")


class DemoSession:
    """An open session of a demo."""

    def __init__(self, session: Session, *, folder: Path, window: int) -> None:
        self._session = session
        self._folder = folder
        self._window = window

    @property
    def context(self) -> ContextState:
        """The state of the context window."""
        return self._session.get_context_state()

    @property
    def view(self) -> View:
        """What the model sees."""
        return self._session.journal.view

    @property
    def keeps_rule(self) -> bool:
        """True while `RULE` is in the view."""
        return any(RULE in message.text for message in self._session.get_history())

    async def ask(self, prompt: str) -> None:
        """Run a prompt.

        Raises:
            AbortError: `abort` was called.
        """
        await self._session.run(prompt)

    def abort(self) -> None:
        """Abort the prompt that runs."""
        self._session.abort()

    async def read_log(self, number: int) -> tuple[str, list[str]]:
        """Write log file `number` and read it with a tool; returns the command and its output."""
        name = f"shop-{number}.log"
        _write_log(self._folder / name, number, self._window // _TOKENS_PER_LINE)
        command = f"cat {name}"
        arguments = msgspec.json.encode({"command": command}).decode()
        output = await self._session.run_tool("Bash", arguments, said=f"!{command}")
        return command, output.text.splitlines()

    def find_needle(self) -> Entry:
        """Return the journal entry with the tool result that contains `NEEDLE`."""
        (entry,) = self._session.search(NEEDLE)
        return entry

    async def undo(self) -> EntryId:
        """Undo the last compaction; returns the id of its entry."""
        return (await self._session.undo()).id


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The parts that the sessions of a demo share: one id, one store, one model."""

    session_id: SessionId
    window: int
    folder: Path
    provider: Embedded
    store: Store

    @asynccontextmanager
    async def open(self, on_envelope: EnvelopeListener) -> AsyncGenerator[DemoSession, None]:
        """Open the session, or open it again from disk."""
        session = Session(
            self.provider,
            model=DEMO_MODEL,
            system_message=_SYSTEM,
            tools=builtin_tools(),
            store=self.store,
            session_id=self.session_id,
            cwd=self.folder,
            gate=Gate(cwd=self.folder),
            max_context_tokens=self.window,
        )
        session.bus.on_any(on_envelope)
        async with session:
            yield DemoSession(session, folder=self.folder, window=self.window)


@asynccontextmanager
async def prepare_demo(cwd: Path, *, window: int, port: int = 0) -> AsyncGenerator[Demo, None]:
    """Start the embedded model and make a temporary folder; removes both at the end.

    Args:
        cwd: The project that stores the session.
        window: The context window in tokens.
        port: The port of the model's server; 0 for any free one.

    Raises:
        ConfigError: The embedded model is not installed.
    """
    provider = Embedded(port=port)
    store = SqliteStore(store_path(cwd))
    with tempfile.TemporaryDirectory(prefix="clew-demo-") as folder:
        try:
            yield Demo(
                session_id=new_session_id(),
                window=window,
                folder=Path(folder),
                provider=provider,
                store=store,
            )
        finally:
            await provider.aclose()
            await store.aclose()


def find_needle_line(entry: Entry) -> str:
    """Return the line with `NEEDLE` in an entry."""
    return next(line for line in entry_text(entry).splitlines() if NEEDLE in line)


def _write_log(path: Path, number: int, length: int) -> None:
    numbers = [number * length + line for line in range(max(2, length))]
    lines = [
        f"{_WHO[n % len(_WHO)]} {_DID[n % len(_DID)]} {_WHAT[n % len(_WHAT)]} this morning"
        for n in numbers
    ]
    if number == 1:
        lines[1] = NEEDLE
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
