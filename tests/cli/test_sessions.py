"""`clew sessions`: what is kept, and what can be done with it."""

import gzip
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import CompletedProcess

import anyio
import pytest

from clew.core.entries import Entry, MessageAdded, SessionRecord, UnknownBody
from clew.core.ids import EntryId, SessionId
from clew.core.messages import assistant, user
from clew.sdk.folders import store_path
from clew.stores.record import StoredSession
from clew.stores.sqlite import SqliteStore
from clew.testing.fake_openai import fake_openai, text_response
from tests.forked_clew import run_clew

pytestmark = pytest.mark.anyio

LONG_AGO, NEWER = SessionId("aaaa11112222"), SessionId("bbbb11112222")


async def clew(
    *arguments: str, cwd: Path, piped: bytes = b"", store: str = ""
) -> "CompletedProcess[bytes]":
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "CLEW_HOME": str(cwd / "clew")}
    env["CLEW_STORE"] = store
    with anyio.fail_after(60):
        return await run_clew(arguments, env=env, cwd=cwd, input=piped)


async def out(*arguments: str, cwd: Path) -> list[str]:
    """Run a command that must succeed, and return the lines it prints."""
    done = await clew(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


def said(number: int, text: str, at: float) -> Entry:
    message = user(text) if number % 2 else assistant(text)
    return Entry(id=EntryId(number), at=at, body=MessageAdded(message=message))


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    """A folder with two sessions."""
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "clew"))
    made = SqliteStore(store_path(tmp_path))
    for session_id, at, text in (
        (LONG_AGO, 1_000.0, "where is the \x1b[2Jexit of the labyrinth"),
        (NEWER, 90_000.0, "another question"),
    ):
        await made.create(
            SessionRecord(id=session_id, cwd=str(tmp_path), created_at=at, updated_at=at)
        )
        await made.append(session_id, [said(1, text, at), said(2, "follow the thread", at)])
    yield made
    await made.aclose()


@pytest.mark.req("STO-3", "CLI-1")
async def test_sessions_are_listed_by_name_or_first_words_the_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "clew"))
    async with fake_openai(text_response("ok")) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        await clew("-p", "first \x1b[2Jquestion", *flags, cwd=tmp_path)
        await clew("-p", "second\nquestion", *flags, cwd=tmp_path)
    before = await out("sessions", cwd=tmp_path)

    await out("sessions", "rename", before[1].split()[0], "The", "labyrinth", cwd=tmp_path)

    after = await out("sessions", "list", cwd=tmp_path)
    assert before[0].endswith("second question")
    assert " 2 messages " in before[0]
    assert before[1].endswith("first ␛[2Jquestion")
    assert after[1].endswith("The labyrinth")


async def test_a_folder_without_sessions_prints_a_message_and_creates_no_store(
    tmp_path: Path,
) -> None:
    done = await clew("sessions", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"clew: there are no sessions in this folder\n"
    assert (await clew("sessions", "show", "x", cwd=tmp_path)).returncode == 1
    assert not (tmp_path / "clew").exists()


@pytest.mark.usefixtures("store")
async def test_a_list_may_be_short_and_may_be_json(tmp_path: Path) -> None:
    short = await clew("sessions", "list", "--limit", "1", cwd=tmp_path)
    whole = await out("sessions", "list", "--json", cwd=tmp_path)

    assert short.stdout.decode().startswith(NEWER)
    assert b"older" in short.stderr
    records = [json.loads(line) for line in whole]
    assert [record["id"] for record in records] == [NEWER, LONG_AGO]
    assert records[0]["messages"] == 2
    assert "\x1b" not in "".join(whole)


@pytest.mark.usefixtures("store")
async def test_a_session_is_shown_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    shown = await out("sessions", "show", "aaaa", cwd=tmp_path)

    assert shown[0] == f"id           {LONG_AGO}"
    assert any(line.startswith("size         2 messages in 2 entries, ") for line in shown)
    assert "last words   follow the thread" in shown
    assert shown[-2:] == [
        "#1 you: where is the [2Jexit of the labyrinth",
        "#2 model: follow the thread",
    ]


@pytest.mark.req("STO-3")
@pytest.mark.usefixtures("store")
async def test_sessions_are_found_by_words_and_names(tmp_path: Path) -> None:
    await out("sessions", "rename", "bbbb", "Ariadne", cwd=tmp_path)

    by_word = await out("sessions", "search", "LABY", cwd=tmp_path)
    by_name = await out("sessions", "search", "ariadne", cwd=tmp_path)
    by_both = await out("sessions", "search", "thread", cwd=tmp_path)
    nothing = await clew("sessions", "search", "minotaur", cwd=tmp_path)

    assert by_word[0].startswith(LONG_AGO)
    assert by_word[1] == "    #1  where is the ␛[2Jexit of the labyrinth"
    assert [line.split()[0] for line in by_name] == [NEWER]
    assert [line.split()[0] for line in by_both] == [NEWER, "#2", LONG_AGO, "#2"]
    assert (nothing.returncode, nothing.stderr) == (1, b"clew: no session contains 'minotaur'\n")


@pytest.mark.req("CMP-10")
@pytest.mark.usefixtures("store")
async def test_entries_are_recalled_from_the_shell(tmp_path: Path) -> None:
    found = await out("sessions", "recall", LONG_AGO, "labyrinth", cwd=tmp_path)
    read = await out("sessions", "recall", "aaaa", "1-2", cwd=tmp_path)
    everywhere = await out("sessions", "recall", "all", "thread", cwd=tmp_path)
    as_json = await out("sessions", "recall", LONG_AGO, "labyrinth", "--json", cwd=tmp_path)
    nothing = await clew("sessions", "recall", LONG_AGO, "minotaur", cwd=tmp_path)
    wrong = await clew("sessions", "recall", LONG_AGO, "role:king", cwd=tmp_path)

    assert found[0].startswith("#1 user (")
    assert found[1] == "where is the ␛[2Jexit of the labyrinth"
    assert [line.split()[0] for line in read if line.startswith("#")] == ["#1", "#2"]
    assert {LONG_AGO, NEWER} <= {line.split()[0] for line in everywhere if line}
    assert json.loads(as_json[0])["unit"]["entry_id"] == 1
    assert (nothing.returncode, nothing.stdout) == (
        1,
        b"Nothing in this session matches 'minotaur'.\n",
    )
    assert b"there is no role 'king'" in wrong.stderr


@pytest.mark.req("STO-3")
async def test_a_fork_copies_entries_up_to_a_number(tmp_path: Path, store: SqliteStore) -> None:
    before = await store.load(LONG_AGO)

    (fork,) = await out("sessions", "fork", LONG_AGO, "--upto", "1", "--name", "b", cwd=tmp_path)

    record, entries = await store.load(SessionId(fork))
    assert (record.parent, record.forked_at, record.name) == (LONG_AGO, 1, "b")
    assert entries == before[1][:1]
    assert await store.load(LONG_AGO) == before


async def test_only_a_whole_id_deletes(tmp_path: Path, store: SqliteStore) -> None:
    short = await clew("sessions", "delete", "aaaa", cwd=tmp_path)
    one_wrong = await clew("sessions", "delete", LONG_AGO, "x", cwd=tmp_path)
    assert (short.returncode, one_wrong.returncode) == (1, 1)
    assert f"did you mean {LONG_AGO}?".encode() in short.stderr
    assert len(await store.sessions()) == 2

    kept = store_path(tmp_path).parent / "checkpoints"
    (kept / LONG_AGO).mkdir(parents=True)
    (kept / NEWER).mkdir()

    done = await clew("sessions", "delete", LONG_AGO, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, b"clew: deleted 1 session with all data\n")
    assert [path.name for path in kept.iterdir()] == [NEWER]
    assert [record.id for record in await store.sessions()] == [NEWER]


@pytest.mark.req("STO-3")
@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 121])
async def test_a_name_is_a_short_line(tmp_path: Path, store: SqliteStore, name: str) -> None:
    done = await clew("sessions", "rename", LONG_AGO, name, cwd=tmp_path)

    assert done.returncode == 1
    assert b"name" in done.stderr
    assert (await store.record(LONG_AGO)).name == ""


async def test_rename_prints_the_new_name(tmp_path: Path, store: SqliteStore) -> None:
    done = await clew("sessions", "rename", "aaaa", "parser", "work", cwd=tmp_path)

    assert done.stderr == f"clew: {LONG_AGO} is now called parser work\n".encode()
    assert (await store.record(LONG_AGO)).name == "parser work"


@pytest.mark.usefixtures("store")
async def test_sessions_are_listed_as_json_without_an_action_too(tmp_path: Path) -> None:
    listed = await out("sessions", "list", "--json", "--limit", "1", cwd=tmp_path)

    assert await out("sessions", "--json", "--limit", "1", cwd=tmp_path) == listed
    assert json.loads(listed[0])["id"] == NEWER


@pytest.mark.req("STO-4")
async def test_a_session_in_use_is_not_deleted_and_its_holder_is_named(
    tmp_path: Path, store: SqliteStore
) -> None:
    await store.lease(LONG_AGO)

    done = await clew("sessions", "delete", LONG_AGO, cwd=tmp_path)

    assert done.returncode == 1
    assert f"in use by process {os.getpid()} on ".encode() in done.stderr
    assert len(await store.sessions()) == 2


async def test_a_name_that_matches_no_session_or_two_is_an_error(
    tmp_path: Path, store: SqliteStore
) -> None:
    await store.fork(LONG_AGO, name="twin")
    await store.fork(LONG_AGO, name="twin")

    none = await clew("sessions", "show", "zzzz", cwd=tmp_path)
    two = await clew("sessions", "show", "twin", cwd=tmp_path)

    assert none.stderr.startswith(b"clew: no session matches zzzz")
    assert two.stderr.startswith(b"clew: 2 sessions match twin")


@pytest.mark.req("STO-3")
async def test_an_export_brings_a_session_to_another_machine_whole(
    tmp_path: Path, store: SqliteStore
) -> None:
    strange = Entry(id=EntryId(3), at=1.5, schema=9, body=UnknownBody(b'{"kind":"new",\n "x" :1}'))
    await store.append(LONG_AGO, [strange])
    await store.annotate(LONG_AGO, {"sandbox": {"id": 7}})
    await store.rename(LONG_AGO, "The labyrinth")
    exported = await clew("sessions", "export", LONG_AGO, cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "f.jsonl.gz").write_bytes(gzip.compress(exported.stdout))

    (there,) = await out("sessions", "import", "f.jsonl.gz", cwd=elsewhere)

    again = await clew("sessions", "export", there, cwd=elsewhere)
    assert there == LONG_AGO
    assert again.stdout == exported.stdout
    assert exported.stdout.count(b"\n") == 4
    head = json.loads(exported.stdout.split(b"\n")[0])
    assert head["body"]["record"]["extra"] == {"sandbox": {"id": 7}}


async def test_an_import_never_writes_over_a_session(tmp_path: Path, store: SqliteStore) -> None:
    exported = (await clew("sessions", "export", LONG_AGO, cwd=tmp_path)).stdout

    done = await clew("sessions", "import", "-", cwd=tmp_path, piped=exported)

    copied = SessionId(done.stdout.decode().strip())
    assert copied != LONG_AGO
    assert (await store.load(copied))[1] == (await store.load(LONG_AGO))[1]


@pytest.mark.req("STO-2")
async def test_a_torn_file_is_imported_as_far_as_it_goes(
    tmp_path: Path, store: SqliteStore
) -> None:
    exported = (await clew("sessions", "export", LONG_AGO, cwd=tmp_path)).stdout

    done = await clew("sessions", "import", "-", cwd=tmp_path, piped=exported[:-20])

    assert b"line 3 was skipped" in done.stderr
    entries = (await store.load(SessionId(done.stdout.decode().strip())))[1]
    assert entries == (await store.load(LONG_AGO))[1][:1]


@pytest.mark.req("STO-5")
async def test_a_session_of_another_tool_is_imported(tmp_path: Path) -> None:
    lines = (
        {"type": "user", "uuid": "1", "sessionId": "s", "cwd": "/x", "message": {
            "role": "user", "content": "what is a clew"}},
        {"type": "assistant", "uuid": "2", "parentUuid": "1", "sessionId": "s", "message": {
            "role": "assistant", "content": [{"type": "text", "text": "a ball of thread"}]}},
    )  # fmt: skip
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")

    (made,) = await out("sessions", "import", "s.jsonl", cwd=tmp_path)

    assert "last words   a ball of thread" in await out("sessions", "show", made, cwd=tmp_path)


async def test_a_file_without_a_session_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no session at all", encoding="utf-8")

    for name in ("notes.txt", "-", "absent"):
        done = await clew("sessions", "import", name, cwd=tmp_path, piped=b"[]")
        assert done.returncode == 1
        assert done.stderr.startswith(b"clew: ")


async def test_sessions_may_be_kept_in_another_place(tmp_path: Path) -> None:
    shared = SqliteStore(tmp_path / "shared.db")
    for folder in (tmp_path, tmp_path / "other"):
        session_id = SessionId(f"in-{folder.name}")
        await shared.create(
            StoredSession(id=session_id, cwd=str(folder), created_at=1.0, updated_at=1.0)
        )
    await shared.aclose()
    place = str(tmp_path / "shared.db")

    here = await clew("sessions", cwd=tmp_path, store=place)
    everywhere = await clew("sessions", "list", "--all", cwd=tmp_path, store=place)
    wrong = await clew("sessions", cwd=tmp_path, store="redis://x")

    assert here.stdout.decode().startswith(f"in-{tmp_path.name}  ")
    assert len(here.stdout.splitlines()) == 1
    assert len(everywhere.stdout.splitlines()) == 2
    assert (wrong.returncode, b"redis:// is not a session store" in wrong.stderr) == (1, True)


@pytest.mark.req("STO-2")
async def test_a_truncated_export_is_reported_and_an_empty_one_rejected(
    tmp_path: Path, store: SqliteStore
) -> None:
    lines = (await clew("sessions", "export", LONG_AGO, cwd=tmp_path)).stdout.splitlines(
        keepends=True
    )
    cut, empty = tmp_path / "cut.jsonl", tmp_path / "empty.jsonl"
    cut.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    empty.write_bytes(lines[0] + lines[1][:20])

    partly = await clew("sessions", "import", str(cut), cwd=tmp_path)
    refused = await clew("sessions", "import", str(empty), cwd=tmp_path)

    assert partly.returncode == 0
    assert f"the file has {len(lines) - 2} of {len(lines) - 1} entries" in partly.stderr.decode()
    assert refused.returncode == 1
    assert "ends before its first entry" in refused.stderr.decode()
    assert len(await store.sessions()) == 3


@pytest.mark.req("STO-1", "AGT-3")
async def test_sessions_of_agents_are_listed_and_found_when_asked_for(
    store: SqliteStore, tmp_path: Path
) -> None:
    agent = SessionId("agent-12ab34cd")
    await store.create(
        StoredSession(
            id=agent,
            cwd=str(tmp_path),
            created_at=9e9,
            updated_at=9e9,
            parent=NEWER,
            kind="agent",
        )
    )
    await store.append(agent, [said(1, "look for the minotaur", 9e9)])

    assert not [line for line in await out("sessions", cwd=tmp_path) if agent in line]
    assert (await clew("sessions", "search", "minotaur", cwd=tmp_path)).returncode == 1
    first, *_ = await out("sessions", "list", "--agents", cwd=tmp_path)
    assert first.startswith(agent)
    assert first.endswith(f"look for the minotaur  (agent of {NEWER})")
    assert (await out("sessions", "search", "minotaur", "--agents", cwd=tmp_path))[0] == first
    shown = await out("sessions", "show", "agent-12", cwd=tmp_path)
    assert f"agent of     {NEWER}" in shown

    await out("sessions", "delete", NEWER, cwd=tmp_path)

    assert [line[:12] for line in await out("sessions", "--agents", cwd=tmp_path)] == [LONG_AGO]
