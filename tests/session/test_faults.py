"""What a person meets when a disk, a clock, a log or another process is at fault.

Each time: a sentence that says what happened, nothing lost of what was safe, and a session that
works again when the fault is gone. What the parts do by themselves is shown in
`test_stores_sqlite` (full and read-only disks), `test_stores` (killed processes), `test_log` and
`test_log_validation` (logs that are full, torn or tampered with); files at fault are in
`test_faults_files`.
"""

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from clew import Session
from clew.context.render import find_problems
from clew.core.entries import Body, Entry, MessageAdded, SessionRecord, SetupChanged
from clew.core.errors import SessionBusy, StoreUnavailable
from clew.core.ids import EntryId, SessionId
from clew.core.messages import Message, assistant, tool_result, user
from clew.log.reader import FaultCode
from clew.log.replay_state import replay_log
from clew.log.validation import validate_log
from clew.log.writer import SessionLog
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply
from clew.stores.sqlite import SqliteStore
from clew.testing.fake_openai import fake_openai, text_response
from tests.session.person import CALL, FACTS, NOBODY, Person, S, clew, sentence
from tests.stores.store_child import child
from tests.stores.test_sqlite import file_size_limit, fingerprint, read_only

pytestmark = [pytest.mark.anyio, pytest.mark.req("STO-2")]


# --- the disk ------------------------------------------------------------------------------


async def test_a_session_outlives_a_full_disk(person: Person) -> None:
    replies: list[ScriptedReply] = ["one", call_reply(("add", {"a": 1, "b": 2})), "three", "four"]
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
    async with fake_openai(
        text_response("one"), text_response("two"), text_response("three")
    ) as server:
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
        assert replay_log(tmp_path / "logs" / "s.jsonl").history == session.get_history()

    assert validate_log(tmp_path / "logs" / "s.jsonl").faults == ()
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
        code = FaultCode.PAYLOAD_MISSING
    else:
        path.write_bytes(path.read_bytes()[:-20])
        code = FaultCode.LINE_TORN

    told = await clew("log", "validate", str(path), store=person.path)
    async with person.session("fine", log=SessionLog(logs, inline_limit=500)) as session:
        assert await session.run("go on") == "fine"
        history = session.get_history()

    assert code in told.stdout.decode()
    assert told.returncode == (0 if code.is_tolerated else 1)
    assert {one.code for one in validate_log(path).faults} <= {code}
    assert replay_log(path).history == history
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

    assert find_problems(person.provider.requests[-1].messages) == []
