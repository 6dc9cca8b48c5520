"""`clew demo`: a guided minute on the embedded model.

Everything shown is real: the model runs on this machine, the tool output comes from files
the demo makes in a temporary folder, and the session is on disk from its first entry.
"""

import tempfile
from argparse import Namespace
from pathlib import Path

import anyio
import msgspec

from clew.cli.paint import painter
from clew.cli.screen import Screen
from clew.context.recall import entry_text
from clew.core.context_state import Status
from clew.core.entries import Entry
from clew.core.errors import AbortError, ClewError
from clew.core.events import EntryAdded, Envelope
from clew.core.ids import SessionId, new_session_id
from clew.providers.catalogue import SMOLLM2
from clew.providers.embedded.provider import Embedded
from clew.sdk.folders import store_path, working_folder
from clew.session.gate import Gate
from clew.session.session import Session
from clew.stores.protocol import Store
from clew.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools

SYSTEM = "You are a friendly guide. Answer in one short sentence."
RULE = "Remember this rule: the release code word is MARIGOLD-7 and we never deploy on Fridays."
NEEDLE = "order 4711 failed: card declined"
_TOKENS_PER_LINE = 170
"""Of the window, for each line of a log: small steps, so that every colour is seen."""
_MOST_LOGS = 20
_WHO = ("the baker", "the florist", "a customer", "the courier", "the night clerk")
_DID = ("paid for", "returned", "asked about", "picked up")
_WHAT = ("a basket of apples", "the blue umbrella", "two concert tickets")


def run_demo(arguments: Namespace) -> int:
    """Play the scenes; raises a `ClewError` where one of them cannot be played."""
    return anyio.run(_demo, arguments)


async def _demo(arguments: Namespace) -> int:
    provider = Embedded(port=arguments.port)
    store = SqliteStore(store_path(working_folder()))
    with tempfile.TemporaryDirectory(prefix="clew-demo-") as folder:
        try:
            await Demo(arguments, provider=provider, store=store, folder=Path(folder)).play()
        finally:
            await provider.aclose()
            await store.aclose()
    return 0


class Demo:
    """The scenes, in order; each leaves the session as the next one needs it."""

    def __init__(
        self, arguments: Namespace, *, provider: Embedded, store: Store, folder: Path
    ) -> None:
        self._window: int = arguments.window
        self._provider = provider
        self._store = store
        self._folder = folder
        self._screen = Screen(painter())
        self._screen.by_hand = True
        self._id: SessionId = new_session_id()
        self._scene = 0
        self._entries = 0

    async def play(self) -> None:
        """Play all scenes."""
        self._say(
            f"Clew demo: {SMOLLM2.name} on this machine, a window of {self._window:,} tokens, "
            f"session {self._id}"
        )
        async with self._session() as session:
            self._screen.on_lost = session.abort
            await self._answer(session)
            await self._fill(session)
            needle = await self._compact(session)
            self._read_back(session, needle)
            await self._undo(session)
            before = session.journal.view
        async with self._session() as session:
            self._screen.on_lost = session.abort
            self._title("Resume from disk")
            same = session.journal.view == before
            self._say(f"the view after reopening the store is the same: {'yes' if same else 'NO'}")
            if not same:
                raise ClewError("the resumed view differs from the one that was left")
            await self._ask(session, "Thank you. Say goodbye.")
        self._say(f"Talk to this session yourself: clew --resume {self._id}")

    def _session(self) -> Session:
        session = Session(
            self._provider,
            model=SMOLLM2.name,
            system_message=SYSTEM,
            tools=builtin_tools(),
            store=self._store,
            session_id=self._id,
            cwd=self._folder,
            gate=Gate(cwd=self._folder),
            max_context_tokens=self._window,
        )
        session.bus.on_any(self._hear)
        return session

    def _hear(self, envelope: Envelope) -> None:
        if isinstance(envelope.event, EntryAdded):
            self._entries = envelope.event.entry.id
        self._screen(envelope)

    async def _answer(self, session: Session) -> None:
        self._title("A real model answers, word by word")
        await self._ask(session, "What is a ball of thread good for in a labyrinth?")
        await self._ask(session, RULE)

    async def _fill(self, session: Session) -> None:
        self._title("Tool results fill the window: green, yellow, red")
        for number in range(1, _MOST_LOGS + 1):
            _write_log(
                self._folder / f"shop-{number}.log", number, self._window // _TOKENS_PER_LINE
            )
            await self._shell(session, f"cat shop-{number}.log")
            if session.get_context_state().status is Status.CRITICAL:
                return

    async def _compact(self, session: Session) -> Entry:
        self._title("The next question does not fit: Clew compacts first, and says what it did")
        (needle,) = session.search(NEEDLE)
        await self._ask(session, "How are you today?")
        return needle

    def _read_back(self, session: Session, needle: Entry) -> None:
        self._title("Nothing is lost: a line from before the compaction, read back")
        shown = "\n".join(message.text for message in session.get_history())
        self._say(f"the user's rule is still in the view: {'yes' if RULE in shown else 'NO'}")
        line = next(line for line in entry_text(needle).splitlines() if NEEDLE in line)
        self._say(f"journal entry #{needle.id} says: {line}")

    async def _undo(self, session: Session) -> None:
        self._title("Changed your mind? Undo the compaction")
        undone = await session.undo()
        self._say(f"compaction #{undone.id} is taken back; every message is in the view again")
        self._gauge(session)

    async def _ask(self, session: Session, prompt: str) -> None:
        self._say(f"> {prompt}", "bold")
        self._screen.hint()
        try:
            await session.run(prompt)
        except AbortError:
            self._screen.check()
            raise
        self._gauge(session)

    async def _shell(self, session: Session, command: str) -> None:
        self._say(f"> !{command}", "bold")
        arguments = msgspec.json.encode({"command": command}).decode()
        output = await session.run_tool("Bash", arguments, said=f"!{command}")
        lines = output.text.splitlines()
        self._say(f"  {lines[0] if lines else ''} … ({len(lines)} lines)")
        self._gauge(session)

    def _gauge(self, session: Session) -> None:
        self._screen.gauge(session.get_context_state())
        self._say(f"{self._entries} entries on disk", "dim")

    def _title(self, text: str) -> None:
        self._scene += 1
        self._screen.line()
        self._say(f"── {self._scene}. {text}", "bold")

    def _say(self, text: str, style: str = "") -> None:
        self._screen.line(text, style)
        self._screen.check()


def _write_log(path: Path, number: int, length: int) -> None:
    numbers = [number * length + line for line in range(max(2, length))]
    lines = [
        f"{_WHO[n % len(_WHO)]} {_DID[n % len(_DID)]} {_WHAT[n % len(_WHAT)]} this morning"
        for n in numbers
    ]
    if number == 1:
        lines[1] = NEEDLE
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
