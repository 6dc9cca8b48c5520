"""The index of words, for search.

It follows the entries in batches: a commit for every entry would write three times as much.
What it has not reached yet is indexed before a search, so nobody sees the difference.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any

from clew.context.recall import entry_text, excerpt_around
from clew.core.ids import SessionId
from clew.stores.reading import read_entries
from clew.stores.record import Hit, from_row
from clew.stores.sqlite.file import reading, writing
from clew.stores.sqlite.places import entry_of, place, span
from clew.stores.words import terms, words

_BATCH = 64
"""How many entries of a session may wait for the index."""
_MOST = 512
"""How many are indexed at once, where more are waiting."""
_SEARCH = """
SELECT id, cwd, name, created_at, updated_at, parent, forked_at, model, title, last_words,
    entries, messages, size, extra, newest, matches
FROM sessions JOIN (
    SELECT rowid >> 32 AS number, max(rowid) AS newest, sum((rowid & 0xFFFFFFFF) > 0) AS matches
    FROM words WHERE words MATCH ? GROUP BY rowid >> 32
) USING (number)
ORDER BY updated_at DESC, number DESC
LIMIT ?
"""


def keep_up(database: sqlite3.Connection, number: int, *, indexed: int, last: int) -> None:
    """Index entries of a session if enough of them wait; part of the caller's transaction."""
    if last - indexed >= _BATCH:
        _index(database, number, after=indexed)


def catch_up(database: sqlite3.Connection) -> None:
    """Index all that waits."""
    waiting = "SELECT number, indexed FROM sessions WHERE indexed < last LIMIT 1"
    while (row := database.execute(waiting).fetchone()) is not None:
        with writing(database):
            row = database.execute(waiting).fetchone()
            if row is not None:
                _index(database, row[0], after=row[1])


def note_name(database: sqlite3.Connection, number: int, name: str) -> None:
    """Let a session be found by its name."""
    key = place(number, 0)
    database.execute("DELETE FROM words WHERE rowid = ?", (key,))
    _insert(database, [(key, name)])


def forget(database: sqlite3.Connection, number: int) -> None:
    """Take away all words of a session, also from the pages of the index."""
    database.execute(
        "DELETE FROM words WHERE rowid BETWEEN ? AND ?", (place(number, 0), span(number)[1])
    )
    database.execute("INSERT INTO words (words) VALUES ('optimize')")


def search(database: sqlite3.Connection, query: str, *, limit: int) -> list[Hit]:
    """Find sessions by what is in the index."""
    wanted = " ".join(f'"{term}"*' for term in terms(query))
    if not wanted:
        return []
    with reading(database):
        return [_hit(database, row, query) for row in database.execute(_SEARCH, (wanted, limit))]


def _hit(database: sqlite3.Connection, row: tuple[Any, ...], query: str) -> Hit:
    *session, newest, matches = row
    found = from_row(session)
    if not matches:
        return Hit(session=found)
    entry_id = entry_of(newest)
    (line,) = database.execute("SELECT line FROM entries WHERE place = ?", (newest,)).fetchone()
    (entry,) = read_entries(found.id, [(entry_id, line)])
    excerpt = excerpt_around(entry_text(entry), query)
    return Hit(session=found, entry_id=entry_id, matches=matches, excerpt=excerpt)


def _index(database: sqlite3.Connection, number: int, *, after: int) -> None:
    rows = database.execute(
        "SELECT place & 0xFFFFFFFF, line FROM entries WHERE place BETWEEN ? AND ?"
        " ORDER BY place LIMIT ?",
        (*span(number, after), _MOST),
    ).fetchall()
    entries = read_entries(SessionId("?"), rows)
    _insert(database, ((place(number, entry.id), entry_text(entry)) for entry in entries))
    reached = rows[-1][0] if len(rows) == _MOST else None
    database.execute(
        "UPDATE sessions SET indexed = ifnull(?, last) WHERE number = ?", (reached, number)
    )


def _insert(database: sqlite3.Connection, texts: Iterable[tuple[int, str]]) -> None:
    rows = ((key, " ".join(words(text))) for key, text in texts)
    database.executemany(
        "INSERT INTO words (rowid, text) VALUES (?, ?)", [row for row in rows if row[1]]
    )
