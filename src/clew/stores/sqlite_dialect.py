"""What SQLite spells differently from PostgreSQL, and its index for word search (FTS5).

The key of an entry is one integer, the session's number and the entry's own: all entries of a
session are one range of keys, in the table and in the index.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from clew.context.recall.documents import Document
from clew.context.recall.search import IndexQuery, Place
from clew.context.recall.words import split_words
from clew.stores.record import COLUMNS
from clew.stores.sql import Scope, SqlConnection
from clew.stores.sql_rows import LAST_ENTRY
from clew.stores.sqlite_file import DOCUMENTS, index_names

_RANGE = "BETWEEN (:number << 32) + :first AND (:number << 32) + :last"
_SEARCH = f"""
SELECT {", ".join(COLUMNS)}, newest & 0xFFFFFFFF, matches, line
FROM sessions JOIN (
    SELECT rowid >> 32 AS number, max(rowid) AS newest, sum((rowid & 0xFFFFFFFF) > 0) AS matches
    FROM documents WHERE documents MATCH :terms GROUP BY rowid >> 32
) USING (number) LEFT JOIN entries ON place = newest
WHERE :kind IS NULL OR kind = :kind
ORDER BY updated_at DESC, number DESC
LIMIT :limit
"""  # noqa: S608 - names, no values
_MOST_COUNTED = 8_000
"""Words in more entries are common; counting all of them would take longer than the search."""
_MOST_WITHOUT_WORDS = 16
"""How many entries in a row may have no words to index."""
_IN_FOLDER = "(SELECT number FROM sessions WHERE cwd = :cwd)"


class SqliteDialect:
    """The SQL of SQLite; see `SqlDialect`. The session's name is document 0 of the session."""

    names: Mapping[str, str] = MappingProxyType(
        {
            "sessions": "sessions",
            "entries": "entries",
            "leases": "leases",
            "snapshots": "snapshots",
            "tasks": "tasks",
            "task_messages": "task_messages",
            "workers": "workers",
            "schedules": "schedules",
            "blobs": "blobs",
            "session": "number",
            "more_columns": "",
            "more_values": "",
            "for_update": "",
            "entry_id": "place & 0xFFFFFFFF",
            "entry_key": "place",
            "entry_range": f"place {_RANGE}",
            "new_entry": "(:number << 32) + :id, :line",
            "copied_entry": "place + ((:copy - :number) << 32), line",
            "now": ":now",
            "seconds": ":now",
            "silence": ":now - beat",
            "integer": "INTEGER",
            "in_ids": "IN (SELECT value FROM json_each(:ids))",
        }
    )

    def add_documents(
        self, connection: SqlConnection, number: int, documents: Iterable[Document]
    ) -> None:
        """Index entries. One that is indexed already stays as it is."""
        connection.executemany(
            "INSERT INTO documents (rowid, text, at) VALUES ((:number << 32) + :id, :words, :at)",
            [
                {"number": number, "id": one.entry_id, "words": one.repeat_words(), "at": one.at}
                for one in documents
            ],
        )

    def index_name(self, connection: SqlConnection, number: int, name: str) -> None:
        """Let a session be found by its name."""
        connection.execute("DELETE FROM documents WHERE rowid = :number << 32", {"number": number})
        if words := " ".join(split_words(name)):
            connection.execute(
                "INSERT INTO documents (rowid, text) VALUES (:number << 32, :words)",
                {"number": number, "words": words},
            )

    def remove_words(self, connection: SqlConnection, number: int) -> None:
        """Remove all words of a session, also from the pages of the index."""
        connection.execute(
            f"DELETE FROM documents WHERE rowid {_RANGE}",  # noqa: S608 - a constant
            {"number": number, "first": 0, "last": LAST_ENTRY},
        )
        connection.execute("INSERT INTO documents (documents) VALUES ('optimize')")

    def rebuild_index(self, connection: SqlConnection) -> None:
        """Make an empty index in place of a damaged one."""
        # SQLite does not drop an index that it cannot open: it is made valid, and empty, first.
        connection.execute("DELETE FROM documents_data")
        connection.execute("INSERT INTO documents_data VALUES (1, X''), (10, X'00000000000000')")
        connection.execute("DROP TABLE documents")
        connection.execute(DOCUMENTS)
        index_names(connection)

    def is_index_sound(self, connection: SqlConnection) -> bool:
        """Does the index find the first and the last entry that it should contain?

        Some damage makes SQLite take an index for an empty one, without an error.
        """
        for order in ("ASC", "DESC"):
            row = connection.execute(
                "SELECT rowid, text FROM documents"  # noqa: S608 - a constant
                f" WHERE (rowid & 0xFFFFFFFF) > 0 AND text <> '' ORDER BY rowid {order} LIMIT 1"
            ).fetchone()
            if row is None:
                (indexed,) = connection.execute(
                    "SELECT sum(indexed) FROM sessions WHERE messages > 0"
                ).fetchone()
                return (indexed or 0) <= _MOST_WITHOUT_WORDS
            place, text = row
            word = {"word": _quote(text.split()[0]), "place": place}
            found = "SELECT 1 FROM documents WHERE documents MATCH :word AND rowid = :place"
            if connection.execute(found, word).fetchone() is None:
                return False
        return True

    def search(
        self, connection: SqlConnection, terms: Sequence[str], *, kind: str | None, limit: int
    ) -> Iterable[Sequence[Any]]:
        """Find sessions by the words that are indexed."""
        wanted = " ".join(f'"{term}"*' for term in terms)
        return connection.execute(
            _SEARCH, {"terms": wanted, "kind": kind, "limit": limit}
        ).fetchall()

    def count_entries(self, connection: SqlConnection, scope: Scope, words: Sequence[str]) -> int:
        """Count indexed entries."""
        (count,) = connection.execute(
            f"SELECT count(*) FROM (SELECT rowid FROM documents WHERE documents MATCH :terms"  # noqa: S608
            f" AND {_within(scope)} LIMIT {_MOST_COUNTED})",
            {"terms": _all_of(words), **_bounds(scope)},
        ).fetchone()
        return int(count)

    def find_entries(
        self, connection: SqlConnection, scope: Scope, query: IndexQuery, *, limit: int
    ) -> list[Place]:
        """Find indexed entries by BM25; without words that rank, the newest first."""
        terms = [_all_of(query.all_of)] if query.all_of else []
        if query.any_of:
            terms.append(f"({' OR '.join(f'({_all_of(group)})' for group in query.any_of)})")
        match = "documents MATCH :terms AND" if terms else ""
        order = "bm25(documents), rowid DESC" if query.any_of else "rowid DESC"
        timed = "" if query.since is None else "AND at >= :since "
        timed += "" if query.until is None else "AND at <= :until"
        rows = connection.execute(
            f"SELECT rowid >> 32, rowid & 0xFFFFFFFF FROM documents WHERE {match}"  # noqa: S608
            f" {_within(scope)} {timed} ORDER BY {order} LIMIT :limit",
            {
                "terms": " AND ".join(terms),
                "since": query.since,
                "until": query.until,
                "limit": limit,
                **_bounds(scope),
            },
        )
        return rows.fetchall()

    def read_words(self, connection: SqlConnection, places: Sequence[Place]) -> Mapping[Place, str]:
        """Return the words of indexed entries, between spaces."""
        keys = ",".join(str((session << 32) + entry_id) for session, entry_id in places)
        rows = connection.execute(
            f"SELECT rowid >> 32, rowid & 0xFFFFFFFF, text FROM documents WHERE rowid IN ({keys})"  # noqa: S608
        ).fetchall()
        return {(session, entry_id): f" {text} " for session, entry_id, text in rows}

    def make_counter(self, word: str) -> Callable[[str], int]:
        """Return a function that counts a word."""
        if word.endswith("*"):
            return lambda text: text.count(f" {word[:-1]}")
        # The first form is the stem of most others, and `v2` is none of `2`.
        stem, *_ = forms = word.split("|")
        others = [form for form in forms if not form.startswith(stem)]
        return lambda text: sum(
            _count_forms(text, start, frozenset(forms)) for start in (stem, *others)
        )


def _count_forms(text: str, stem: str, forms: frozenset[str]) -> int:
    """Count words in a text with spaces around each word."""
    count = 0
    start = text.find(f" {stem}")
    while start >= 0:
        end = text.find(" ", start + 1)
        count += text[start + 1 : end] in forms
        start = text.find(f" {stem}", end)
    return count


def _all_of(words: Sequence[str]) -> str:
    return " AND ".join(map(_quote, words))


def _quote(word: str) -> str:
    if word.endswith("*"):
        return f'"{word[:-1]}"*'
    forms = " OR ".join(f'"{form}"' for form in word.split("|"))
    return f"({forms})" if "|" in word else forms


def _within(scope: Scope) -> str:
    if scope.number is not None:
        return f"rowid {_RANGE}"
    folder = "" if scope.cwd is None else f" AND rowid >> 32 IN {_IN_FOLDER}"
    return f"(rowid & 0xFFFFFFFF) > 0{folder}"


def _bounds(scope: Scope) -> dict[str, object]:
    return {"number": scope.number, "first": 1, "last": LAST_ENTRY, "cwd": scope.cwd}
