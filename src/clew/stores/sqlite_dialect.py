"""What SQLite spells differently from PostgreSQL, and its index for word search (FTS5).

The key of an entry is one integer, the session's number and the entry's own: all entries of a
session are one range of keys, in the table and in the index. The index follows the entries in
batches, because updating it at every commit would write three times as much. `Store.search`
first indexes what is still missing.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from clew.context.recall import entry_text
from clew.core.entries import Entry
from clew.core.ids import SessionId
from clew.stores.record import COLUMNS
from clew.stores.search_terms import split_words
from clew.stores.sql import SqlConnection
from clew.stores.sql_rows import LAST_ENTRY
from clew.stores.stored_entries import StoredEntries

_BATCH = 64
"""How many entries of a session may be missing in the index."""
_MOST = 512
"""How many entries one transaction indexes at most."""
_RANGE = "BETWEEN (:number << 32) + :first AND (:number << 32) + :last"
_BEHIND = "SELECT number, indexed FROM sessions WHERE indexed < last LIMIT 1"
_SEARCH = f"""
SELECT {", ".join(COLUMNS)}, newest & 0xFFFFFFFF, matches, line
FROM sessions JOIN (
    SELECT rowid >> 32 AS number, max(rowid) AS newest, sum((rowid & 0xFFFFFFFF) > 0) AS matches
    FROM words WHERE words MATCH :terms GROUP BY rowid >> 32
) USING (number) LEFT JOIN entries ON place = newest
ORDER BY updated_at DESC, number DESC
LIMIT :limit
"""  # noqa: S608 - names, no values


class SqliteDialect:
    """The SQL of SQLite; see `SqlDialect`. The session's name is word row 0 of the session."""

    names: Mapping[str, str] = MappingProxyType(
        {
            "sessions": "sessions",
            "entries": "entries",
            "leases": "leases",
            "snapshots": "snapshots",
            "session": "number",
            "more_columns": "",
            "more_values": "",
            "for_update": "",
            "entry_id": "place & 0xFFFFFFFF",
            "entry_key": "place",
            "entry_range": f"place {_RANGE}",
            "copied_entry": "place + ((:copy - :number) << 32), line",
            "now": ":now",
            "silence": ":now - beat",
        }
    )

    def add_entries(
        self, connection: SqlConnection, number: int, rows: Sequence[tuple[Entry, bytes]]
    ) -> None:
        """Insert entries, and index those that wait if there are enough of them."""
        connection.executemany(
            "INSERT INTO entries VALUES ((:number << 32) + :id, :line)",
            [{"number": number, "id": entry.id, "line": line} for entry, line in rows],
        )
        (indexed,) = connection.execute(
            "SELECT indexed FROM sessions WHERE number = :number", {"number": number}
        ).fetchone()
        if rows[-1][0].id - indexed >= _BATCH:
            _index(connection, number, after=indexed)

    def index_name(self, connection: SqlConnection, number: int, name: str) -> None:
        """Let a session be found by its name."""
        connection.execute("DELETE FROM words WHERE rowid = :number << 32", {"number": number})
        _insert(connection, number, [(0, name)])

    def remove_words(self, connection: SqlConnection, number: int) -> None:
        """Remove all words of a session, also from the pages of the index."""
        connection.execute(
            f"DELETE FROM words WHERE rowid {_RANGE}",  # noqa: S608 - a constant
            {"number": number, "first": 0, "last": LAST_ENTRY},
        )
        connection.execute("INSERT INTO words (words) VALUES ('optimize')")

    def search(
        self, connection: SqlConnection, terms: Sequence[str], *, limit: int
    ) -> Iterable[Sequence[Any]]:
        """Find sessions by the words that are indexed."""
        wanted = " ".join(f'"{term}"*' for term in terms)
        return connection.execute(_SEARCH, {"terms": wanted, "limit": limit}).fetchall()


def is_index_behind(connection: SqlConnection) -> bool:
    """Return whether the index misses entries."""
    return connection.execute(_BEHIND).fetchone() is not None


def index_next(connection: SqlConnection) -> None:
    """Index the next entries that the index misses, of one session."""
    row = connection.execute(_BEHIND).fetchone()
    if row is not None:
        _index(connection, row[0], after=row[1])


def _index(connection: SqlConnection, number: int, *, after: int) -> None:
    rows = connection.execute(
        f"SELECT place & 0xFFFFFFFF, line FROM entries WHERE place {_RANGE}"  # noqa: S608
        " ORDER BY place LIMIT :most",
        {"number": number, "first": after + 1, "last": LAST_ENTRY, "most": _MOST},
    ).fetchall()
    entries = StoredEntries(SessionId("?"), rows)
    _insert(connection, number, ((entry.id, entry_text(entry)) for entry in entries))
    reached = rows[-1][0] if len(rows) == _MOST else None
    connection.execute(
        "UPDATE sessions SET indexed = ifnull(:reached, last) WHERE number = :number",
        {"reached": reached, "number": number},
    )


def _insert(connection: SqlConnection, number: int, texts: Iterable[tuple[int, str]]) -> None:
    rows = (
        {"number": number, "id": entry_id, "words": " ".join(split_words(text))}
        for entry_id, text in texts
    )
    connection.executemany(
        "INSERT INTO words (rowid, text) VALUES ((:number << 32) + :id, :words)",
        [row for row in rows if row["words"]],
    )
