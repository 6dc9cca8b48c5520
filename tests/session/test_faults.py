"""What a person meets when a disk, a file, a clock or another process is at fault.

Each time: a sentence that says what happened, nothing lost of what was safe, and a session that
works again when the fault is gone. What the parts do by themselves is shown in
`test_stores_sqlite` (full and read-only disks, damaged files, migrations), `test_stores` (killed
processes), `test_log` and `test_log_validation` (logs that are full, torn or tampered with).
"""

import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from subprocess import CompletedProcess

import anyio
import pytest

from clew import Session, tool
from clew.context.validity import problems
from clew.core.access import Risk
from clew.core.entries import (
    SCHEMA,
    Body,
    Entry,
    MessageAdded,
    SessionRecord,
    SetupChanged,
    UnknownBody,
)
from clew.core.errors import SessionBusy, StoreDamaged, StoreUnavailable
from clew.core.events import EntryAdded, Event, Warned
from clew.core.ids import CallId, EntryId, SessionId
from clew.core.messages import Message, ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from clew.providers.scripted import Reply, ScriptedProvider, call_reply
from clew.session.log.faults import Code
from clew.session.log.replaying import replay
from clew.session.log.validation import validate
from clew.session.log.writer import SessionLog
from clew.session.stores.sqlite import SqliteStore
from clew.testing.fake_openai import fake_openai, says
from tests.session.test_stores import child
from tests.session.test_stores_sqlite import file_size_limit, fingerprint, read_only

pytestmark = [pytest.mark.anyio, pytest.mark.req("STO-2")]

FACTS = ModelFacts(name="m", window=20_000, summarises=False)
S = SessionId("s")
NOBODY = ("--base-url", "http://127.0.0.1:9", "--model", "gpt-4o")
"""A model that is never asked."""
CALL = ToolCall(call_id=CallId("c1"), name="add")


@tool(risk=Risk.INSPECT)
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


class Person:
    """Somebody who talks to a session, and remembers what was said to be safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = SqliteStore(path)
        self.safe: list[Entry] = []
        self.warnings: list[str] = []
        self.provider = ScriptedProvider([])

    def hear(self, event: Event) -> None:
        if isinstance(event, EntryAdded):
            self.safe.append(event.entry)
        elif isinstance(event, Warned):
            self.warnings.append(event.text)

    @asynccontextmanager
    async def session(
        self, *replies: Reply, log: SessionLog | None = None
    ) -> AsyncIterator[Session]:
        self.provider = ScriptedProvider(replies, FACTS)
        made = Session(
            self.provider,
            model="m",
            tools=[add],
            store=self.store,
            session_id=S,
            log=log,
            on_event=self.hear,
        )
        async with made as opened:
            yield opened

    async def talk(self, *words: str) -> None:
        """Say something in a session of its own, each time with a tool call."""
        replies: list[Reply] = []
        for word in words:
            replies += [call_reply(("add", {"a": 1, "b": len(word)})), f"yes, {word}"]
        async with self.session(*replies) as session:
            for word in words:
                await session.run(word)

    async def look(self) -> list[Entry]:
        """Open the file anew, and make sure that all is there and the session goes on."""
        await self.store.aclose()
        self.store = SqliteStore(self.path)
        stored = list((await self.store.load(S))[1])
        assert stored == self.safe
        async with self.session("it goes on") as session:
            assert await session.run("and now?") == "it goes on"
        assert problems(self.provider.requests[0].messages) == []
        return stored


@pytest.fixture
async def person(tmp_path: Path) -> AsyncIterator[Person]:
    made = Person(tmp_path / "store" / "s.db")
    yield made
    await made.store.aclose()


async def clew(
    *arguments: str, store: Path, piped: bytes = b"", room: int | None = None
) -> "CompletedProcess[bytes]":
    """Run the command; with `room`, no file may grow beyond so many bytes."""
    home = store.parent.parent
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "CLEW_HOME": str(home / "clew")}
    limit = "import os,resource as r,sys\nn=int(sys.argv[1])\nr.setrlimit(r.RLIMIT_FSIZE,(n,n))\n"
    limit += "os.execv(sys.executable,[sys.executable,'-m','clew.cli',*sys.argv[2:]])"
    limited = [sys.executable, "-c", limit, str(room)]
    command = [sys.executable, "-m", "clew.cli"] if room is None else limited
    with anyio.fail_after(60):
        return await anyio.run_process(
            [*command, *arguments],
            env=env | {"CLEW_STORE": str(store)},
            cwd=home,
            check=False,
            input=piped,
        )


def sentence(done: "CompletedProcess[bytes]") -> str:
    """Return the one sentence with which a command failed."""
    assert done.returncode == 1
    said = done.stderr.decode()
    assert "Traceback" not in said
    return said


# --- the disk ------------------------------------------------------------------------------


async def test_a_session_outlives_a_full_disk(person: Person) -> None:
    replies: list[Reply] = ["one", call_reply(("add", {"a": 1, "b": 2})), "three", "four"]
    async with person.session(*replies) as session:
        await session.run("first")
        with file_size_limit(person.path.stat().st_size + 100_000):
            with pytest.raises(StoreUnavailable, match=r"s\.db cannot be used"):
                await session.run("second " * 60_000)
            assert [m.text for m in session.get_history()] == ["first", "one"]
            assert list((await person.store.load(S))[1]) == person.safe

        assert await session.run("third") == "three"
    await person.look()


async def test_so_does_the_command_line(tmp_path: Path) -> None:
    store = tmp_path / "store" / "s.db"
    async with fake_openai(says("one"), says("two"), says("three")) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        await clew("-p", "first", *flags, store=store)
        failed = await clew(
            *("-p", "-", "--continue", *flags),
            store=store,
            piped=b"second " * 30_000,
            room=store.stat().st_size + 50_000,
        )
        done = await clew("-p", "third", "--continue", *flags, store=store)

    assert "s.db cannot be used" in sentence(failed)
    assert done.returncode == 0
    asked = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "user"]
    assert asked == ["first", "third"]


async def test_a_place_that_may_only_be_read_stops_a_session_before_it_begins(
    person: Person,
) -> None:
    await person.talk("first")
    await person.store.aclose()
    before = fingerprint(person.path)
    person.store = SqliteStore(person.path)

    with read_only(person.path.parent):
        with pytest.raises(StoreUnavailable, match=r"s\.db cannot be used"):
            async with person.session():
                pass
        assert "s.db cannot be used" in sentence(
            await clew("sessions", "rename", S, "name", store=person.path)
        )
        assert fingerprint(person.path) == before

    await person.look()


async def test_a_folder_that_cannot_be_made_can_be_cleared_away(person: Person) -> None:
    person.path.parent.write_text("in the way")
    new = Session(ScriptedProvider(["one"], FACTS), model="m", store=person.store)
    async with new as session:
        with pytest.raises(StoreUnavailable, match=r"store cannot be made: File exists"):
            await session.run("first")
        with pytest.raises(StoreUnavailable, match=r"store cannot be made: File exists"):
            async with person.session():
                pass
        person.path.parent.unlink()

        assert await session.run("second") == "one"
        assert [m.text for m in session.get_history()] == ["second", "one"]
    await person.talk("third")
    await person.look()


# --- the file ------------------------------------------------------------------------------


async def test_a_damaged_page_is_named_and_the_rest_is_saved(
    person: Person, tmp_path: Path
) -> None:
    await person.talk(*(f"labyrinth {number}" for number in range(60)))
    await person.store.aclose()
    whole = person.path.read_bytes()
    page = whole.index(b"yes, labyrinth 30") // 4_096 * 4_096
    person.path.write_bytes(whole[:page] + b"\xff" * 4_096 + whole[page + 4_096 :])

    with pytest.raises(StoreDamaged, match=r"is damaged .* it was not changed.*--salvage"):
        async with person.session():
            pass
    shown = await clew("sessions", "show", S, store=person.path)
    saved = await clew("sessions", "export", "--salvage", S, store=person.path)
    other = tmp_path / "other" / "s.db"
    taken = await clew("sessions", "import", "-", store=other, piped=saved.stdout)

    assert "--salvage" in sentence(shown)
    assert "could not be read" in saved.stderr.decode()
    assert (saved.returncode, taken.returncode) == (0, 0)
    person.path, person.safe, before = other, [], len(person.safe)
    person.store = SqliteStore(other)
    person.safe = list((await person.store.load(S))[1])
    assert before - 40 < len(person.safe) < before
    await person.look()


async def test_an_entry_that_cannot_be_read_is_told_of_and_the_next_request_is_valid(
    person: Person,
) -> None:
    await person.talk("first", "second")
    for number in (3, 4, 5, 6):
        with torn_entry(person.path, number):
            async with person.session("fine") as session:
                assert await session.run("go on") == "fine"
            assert problems(person.provider.requests[0].messages) == []
    lines = [f"an entry of this session is damaged and left out: #{n}" for n in (3, 4, 5, 6)]
    assert [text for text in person.warnings if "damaged" in text] == lines
    await person.look()


@pytest.mark.parametrize("number", [3, 4])
async def test_so_it_is_in_a_session_that_is_opened_from_a_snapshot(
    person: Person, number: int
) -> None:
    await person.talk(*(f"question {number}" for number in range(20)))
    with torn_entry(person.path, number):
        async with person.session("fine") as session:
            await session.run("go on")

    assert problems(person.provider.requests[0].messages) == []
    assert f"an entry of this session is damaged and left out: #{number}" in person.warnings


class torn_entry:  # noqa: N801 - reads as a verb where it is used
    """Tear the line of an entry, and mend it at the end."""

    def __init__(self, path: Path, number: int) -> None:
        self._path, self._number, self._line = path, number, b""

    def __enter__(self) -> None:
        self._line = self._set(b'{"id":')

    def __exit__(self, *_: object) -> None:
        self._set(self._line)

    def _set(self, line: bytes) -> bytes:
        where = "WHERE place & 0xFFFFFFFF = ?"
        with closing(sqlite3.connect(self._path)) as database:
            (old,) = database.execute(
                f"SELECT line FROM entries {where}", (self._number,)
            ).fetchone()
            database.execute(f"UPDATE entries SET line = ? {where}", (line, self._number))
            database.commit()
        return bytes(old)


@pytest.mark.req("STO-4")
async def test_a_file_of_a_newer_release_is_named_and_left_alone(person: Person) -> None:
    await person.talk("first")
    await person.store.aclose()
    set_version(person.path, 99)
    before = fingerprint(person.path)

    with pytest.raises(StoreUnavailable, match=r"newer Clew \(format 99.*update Clew"):
        async with person.session():
            pass
    said = sentence(await clew("-p", "hi", "--continue", *NOBODY, store=person.path))
    assert fingerprint(person.path) == before

    assert "newer Clew" in said
    set_version(person.path, 3)
    await person.look()


def set_version(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {version}")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.mark.req("STO-4")
async def test_entries_of_a_newer_release_are_passed_over_and_kept_as_they_are(
    person: Person,
) -> None:
    await person.talk("first")
    raw = b'{"kind":"hologram",  "of":"a thread"}'
    last = person.safe[-1].id
    newer = [
        Entry(id=EntryId(last + 1), at=1.0, schema=SCHEMA + 1, body=UnknownBody(raw)),
        Entry(id=EntryId(last + 2), at=1.0, body=UnknownBody(b'{"kind":"later"}')),
    ]
    await person.store.append(S, newer)
    person.safe += newer

    await person.talk("second")
    exported = await clew("sessions", "export", S, store=person.path)

    assert raw in exported.stdout
    texts = [message.text for message in person.provider.requests[0].messages]
    assert texts == ["first", "", "", "yes, first", "second"]
    await person.look()


async def test_a_store_that_is_deleted_while_a_session_is_open_is_made_anew(
    person: Person,
) -> None:
    async with person.session("one", "two", "three") as session:
        await session.run("first")
        for file in person.path.parent.iterdir():
            file.unlink()
        with pytest.raises(StoreUnavailable, match="moved or deleted while it was in use"):
            await session.run("second")

        assert await session.run("third") == "two"
        assert [m.text for m in session.get_history()] == ["first", "one", "third", "two"]
    await person.look()


async def test_a_store_that_is_moved_away_and_back_is_gone_on_with(person: Person) -> None:
    async with person.session("one", "two", "three") as session:
        await session.run("first")
        elsewhere = person.path.parent.with_name("elsewhere")
        person.path.parent.rename(elsewhere)
        with pytest.raises(StoreUnavailable, match="moved or deleted while it was in use"):
            await session.run("second")
        elsewhere.rename(person.path.parent)

        assert await session.run("third") == "two"
        assert [m.text for m in session.get_history()] == ["first", "one", "third", "two"]
    await person.look()


# --- the clock -----------------------------------------------------------------------------


@pytest.mark.req("STO-3")
async def test_a_clock_that_goes_back_changes_neither_order_nor_words(
    person: Person, tmp_path: Path
) -> None:
    far = 4_000_000_000.0
    bodies: list[Body] = [SetupChanged(model=FACTS), MessageAdded(message=user("from tomorrow"))]
    entries = [Entry(id=EntryId(n), at=far, body=body) for n, body in enumerate(bodies, 1)]
    await person.store.create(SessionRecord(id=S, cwd="/", created_at=far, updated_at=far))
    await person.store.append(S, entries)
    person.safe += entries
    log = SessionLog(tmp_path / "logs", clock=iter(range(1_000, 0, -1)).__next__)

    async with person.session("yes", "again", log=log) as session:
        await session.run("is it today?")
        await session.run("still?")
        assert replay(tmp_path / "logs" / "s.jsonl").history == session.get_history()

    assert validate(tmp_path / "logs" / "s.jsonl").faults == ()
    assert (await person.store.record(S)).updated_at == far
    ids = [entry.id for entry in (await person.store.load(S))[1]]
    assert ids == list(range(1, len(ids) + 1))
    await person.look()


# --- the log -------------------------------------------------------------------------------


@pytest.mark.req("LOG-3", "LOG-4")
@pytest.mark.parametrize("fault", ["a payload is missing", "the last line is torn"])
async def test_a_log_at_fault_is_named_and_costs_the_session_nothing(
    person: Person, tmp_path: Path, fault: str
) -> None:
    logs = tmp_path / "logs"
    async with person.session("word " * 500, log=SessionLog(logs, inline_limit=500)) as session:
        await session.run("a long answer, please")
    path = logs / "s.jsonl"
    if fault == "a payload is missing":
        for payload in (logs / "s.payloads").iterdir():
            payload.unlink()
        code = Code.PAYLOAD_MISSING
    else:
        path.write_bytes(path.read_bytes()[:-20])
        code = Code.LINE_TORN

    told = await clew("log", "validate", str(path), store=person.path)
    async with person.session("fine", log=SessionLog(logs, inline_limit=500)) as session:
        assert await session.run("go on") == "fine"
        history = session.get_history()

    assert code in told.stdout.decode()
    assert told.returncode == (0 if code.is_tolerated else 1)
    assert {one.code for one in validate(path).faults} <= {code}
    assert replay(path).history == history
    await person.look()


# --- others --------------------------------------------------------------------------------


@pytest.mark.req("STO-4")
async def test_a_session_that_another_process_holds_is_free_when_that_one_is_dead(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store" / "s.db"
    one = Person(path)
    shared = SessionId("shared")
    await one.store.create(SessionRecord(id=shared, cwd="/", created_at=1.0, updated_at=1.0))
    await one.store.append(
        shared, [Entry(id=EntryId(1), at=1.0, body=MessageAdded(message=user("hello")))]
    )
    with child(str(path), "hold") as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        session = Session(ScriptedProvider(["hi"]), model="m", store=one.store, session_id=shared)
        with pytest.raises(SessionBusy, match=f"in use by process {holder.pid} on .* since 20"):
            await session.open()
        said = sentence(await clew("-p", "x", "--resume", shared, *NOBODY, store=path))
        assert len((await one.store.load(shared))[1]) == 1
        holder.send_signal(signal.SIGKILL)
        holder.wait()

        assert await session.run("who is there?") == "hi"

    assert f"in use by process {holder.pid}" in said
    assert "fork" in said
    await session.shutdown()
    await one.store.aclose()


@pytest.mark.req("SES-3", "CMP-4")
@pytest.mark.parametrize(
    "before",
    [
        pytest.param((user("hi"), assistant("hello")), id="after an answer"),
        pytest.param(
            (
                user("hi"),
                assistant(CALL, interrupted=True),
                tool_result(CALL, "Error: the run was aborted", failed=True),
            ),
            id="after a call that was broken off",
        ),
    ],
)
async def test_a_prompt_too_large_that_a_crash_left_behind_does_not_stop_a_session(
    person: Person, before: Sequence[Message]
) -> None:
    messages = [*before, user("flood " * 60_000)]
    bodies: list[Body] = [SetupChanged(model=FACTS)]
    bodies += [MessageAdded(message=message) for message in messages]
    entries = [Entry(id=EntryId(n), at=1.0, body=body) for n, body in enumerate(bodies, 1)]
    await person.store.create(SessionRecord(id=S, cwd="/", created_at=1.0, updated_at=1.0))
    await person.store.append(S, entries)

    async with person.session("dry again") as session:
        assert await session.run("a short question") == "dry again"


@pytest.mark.req("CMP-4")
async def test_a_request_begins_with_the_user_whatever_was_undone(person: Person) -> None:
    async with person.session("one", "two") as session:
        await session.run("first")
        await session.clear_history()
        await session.rewind(session.journal.entries[-1].id, code=False)
        await session.inject_message(assistant("by the way"))
        await session.undo()

        await session.run("second")

    assert problems(person.provider.requests[-1].messages) == []
