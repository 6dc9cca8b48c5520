"""What a person meets when the file of a store is damaged, too new, deleted or moved away.

What the store does by itself is shown in `test_stores_sqlite`.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from clew.context.render import find_problems
from clew.core.entries import SCHEMA, Entry, UnknownBody
from clew.core.errors import StoreDamaged, StoreUnavailable
from clew.core.ids import EntryId
from clew.stores.sqlite import SqliteStore
from tests.session.person import NOBODY, Person, S, clew, sentence
from tests.stores.test_sqlite import fingerprint

pytestmark = [pytest.mark.anyio, pytest.mark.req("STO-2")]


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
            assert find_problems(person.provider.requests[0].messages) == []
    lines = [f"1 entry of this session is damaged and left out: #{n}" for n in (3, 4, 5, 6)]
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

    assert find_problems(person.provider.requests[0].messages) == []
    assert f"1 entry of this session is damaged and left out: #{number}" in person.warnings


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
    current = set_version(person.path, 99)
    before = fingerprint(person.path)

    with pytest.raises(StoreUnavailable, match=r"newer Clew \(format 99.*update Clew"):
        async with person.session():
            pass
    said = sentence(await clew("-p", "hi", "--continue", *NOBODY, store=person.path))
    assert fingerprint(person.path) == before

    assert "newer Clew" in said
    set_version(person.path, current)
    await person.look()


def set_version(path: Path, version: int) -> int:
    """Set the format of a store, and return what it was."""
    with closing(sqlite3.connect(path)) as database:
        (before,) = database.execute("PRAGMA user_version").fetchone()
        database.execute(f"PRAGMA user_version = {version}")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return int(before)


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
