"""What PostgreSQL spells differently from SQLite: parameters, tables, and its word search.

All tables have names that begin with `clew_`, so they can share a database with others.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import sql

from clew.context.recall.documents import Document
from clew.context.recall.search import IndexQuery, Place
from clew.context.recall.words import split_words
from clew.core.errors import StoreUnavailable
from clew.stores.postgres_replicas import TABLE as REPLICAS
from clew.stores.record import COLUMNS
from clew.stores.sql import Scope, SqlConnection
from clew.stores.task_tables import POSTGRES_TYPES, blob_dates, task_tables

_LOCK = 0x434C4557
"""The advisory lock that a process holds while it changes the tables."""
_MOST_POSITIONS = 4
"""PostgreSQL limits the size of all words and positions of one text to a megabyte."""
_POSITIONS = ["1", *(",".join(map(str, range(1, n + 1))) for n in range(1, _MOST_POSITIONS + 1))]
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_SEARCH = f"""
WITH found AS (
    SELECT session AS number, max(id) AS newest, count(*) AS matches
    FROM clew_documents WHERE words @@ :terms::tsquery GROUP BY session
)
SELECT {", ".join(f"s.{column}" for column in COLUMNS)}, newest, matches, line
FROM clew_sessions s
LEFT JOIN found USING (number)
LEFT JOIN clew_entries e ON e.session = number AND e.id = newest
WHERE (newest IS NOT NULL OR s.words @@ :terms::tsquery)
    AND (:kind::text IS NULL OR kind = :kind)
ORDER BY s.updated_at DESC, number DESC
LIMIT :limit
"""  # noqa: S608 - names, no values
_VERSION_1 = (
    "CREATE TABLE clew_schema (version BIGINT NOT NULL)",
    "INSERT INTO clew_schema VALUES (0)",
    # Free space on each page keeps the updates of a turn in place, without index updates.
    """
    CREATE TABLE clew_sessions (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        cwd TEXT NOT NULL,
        name TEXT NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        updated_at DOUBLE PRECISION NOT NULL,
        parent TEXT,
        forked_at BIGINT,
        model TEXT NOT NULL DEFAULT '',
        title TEXT NOT NULL DEFAULT '',
        last_words TEXT NOT NULL DEFAULT '',
        entries BIGINT NOT NULL DEFAULT 0,
        messages BIGINT NOT NULL DEFAULT 0,
        size BIGINT NOT NULL DEFAULT 0,
        extra BYTEA NOT NULL,
        last BIGINT NOT NULL DEFAULT 0,
        words TSVECTOR NOT NULL
    ) WITH (fillfactor = 70)
    """,
    """
    CREATE TABLE clew_entries (
        session BIGINT NOT NULL REFERENCES clew_sessions ON DELETE CASCADE,
        id BIGINT NOT NULL,
        line BYTEA NOT NULL,
        words TSVECTOR NOT NULL,
        PRIMARY KEY (session, id)
    )
    """,
    """
    CREATE TABLE clew_leases (
        session BIGINT PRIMARY KEY REFERENCES clew_sessions ON DELETE CASCADE,
        owner TEXT NOT NULL,
        pid BIGINT NOT NULL,
        started TEXT NOT NULL,
        machine TEXT NOT NULL,
        host TEXT NOT NULL,
        since DOUBLE PRECISION NOT NULL,
        beat TIMESTAMPTZ NOT NULL
    )
    """,
    "CREATE INDEX clew_sessions_cwd ON clew_sessions (cwd)",
    "CREATE INDEX clew_sessions_words ON clew_sessions USING GIN (words)",
    "CREATE INDEX clew_entries_words ON clew_entries USING GIN (words)",
)
_VERSION_2 = (
    """
    CREATE TABLE clew_snapshots (
        session BIGINT PRIMARY KEY REFERENCES clew_sessions ON DELETE CASCADE,
        data BYTEA NOT NULL
    )
    """,
)
_VERSION_3 = (
    "ALTER TABLE clew_sessions ADD COLUMN indexed BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE clew_entries DROP COLUMN words",
    """
    CREATE TABLE clew_documents (
        session BIGINT NOT NULL REFERENCES clew_sessions ON DELETE CASCADE,
        id BIGINT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        words TSVECTOR NOT NULL,
        PRIMARY KEY (session, id)
    )
    """,
    "CREATE INDEX clew_documents_words ON clew_documents USING GIN (words)",
)
_VERSION_4 = (
    "ALTER TABLE clew_sessions ADD COLUMN kind TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX clew_sessions_parent ON clew_sessions (parent) WHERE parent IS NOT NULL",
    "ALTER TABLE clew_leases ADD COLUMN epoch BIGINT NOT NULL DEFAULT 1",
    "ALTER TABLE clew_leases ADD COLUMN silent_after DOUBLE PRECISION",
    *task_tables(POSTGRES_TYPES),
)
_VERSION_5 = tuple(blob_dates(POSTGRES_TYPES))
_VERSION_6 = (REPLICAS,)
_STEPS = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4, _VERSION_5, _VERSION_6)
"""The statements that lead from each version of the tables to the next, from none to the first."""


class PostgresConnection:
    """A psycopg connection that takes `:name` parameters; see `SqlConnection`."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def execute(
        self, statement: str, values: Mapping[str, Any] = MappingProxyType({}), /
    ) -> psycopg.Cursor:
        """Run a statement. Results come in binary form: stored lines need no decoding."""
        return self._connection.execute(_to_psycopg(statement), values, binary=True)

    def executemany(self, statement: str, rows: Iterable[Mapping[str, Any]], /) -> None:
        """Run a statement once for each row of parameters."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_to_psycopg(statement), rows)


class PostgresDialect:
    """The SQL of PostgreSQL; see `SqlDialect`. Leases are dated by the server's clock."""

    names: Mapping[str, str] = MappingProxyType(
        {
            "sessions": "clew_sessions",
            "entries": "clew_entries",
            "leases": "clew_leases",
            "snapshots": "clew_snapshots",
            "tasks": "clew_tasks",
            "task_messages": "clew_task_messages",
            "workers": "clew_workers",
            "schedules": "clew_schedules",
            "blobs": "clew_blobs",
            "session": "session",
            "more_columns": ", words",
            "more_values": ", ''",
            "for_update": " FOR UPDATE",
            "entry_id": "id",
            "entry_key": "id",
            "entry_range": "session = :number AND id BETWEEN :first AND :last",
            "new_entry": ":number, :id, :line",
            "copied_entry": ":copy, id, line",
            "now": "clock_timestamp()",
            "seconds": "extract(epoch FROM clock_timestamp())::float8",
            "silence": "extract(epoch FROM clock_timestamp() - beat)::float8",
            "integer": "BIGINT",
            "in_ids": "IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))",
        }
    )

    def add_documents(
        self, connection: SqlConnection, number: int, documents: Iterable[Document]
    ) -> None:
        """Index entries; how often a word occurs is stored as that many positions."""
        connection.executemany(
            "INSERT INTO clew_documents VALUES (:number, :id, :at, :words::tsvector)",
            [
                {
                    "number": number,
                    "id": one.entry_id,
                    "at": one.at,
                    "words": " ".join(
                        f"'{word}':{_POSITIONS[min(count, _MOST_POSITIONS)]}"
                        for word, count in one.words.items()
                    ),
                }
                for one in documents
            ],
        )

    def index_name(self, connection: SqlConnection, number: int, name: str) -> None:
        """Let a session be found by its name."""
        connection.execute(
            "UPDATE clew_sessions SET words = array_to_tsvector(:words::text[])"
            " WHERE number = :number",
            {"words": split_words(name), "number": number},
        )

    def remove_words(self, connection: SqlConnection, number: int) -> None:
        """Do nothing: they are deleted with the session."""

    def rebuild_index(self, connection: SqlConnection) -> None:
        """Empty the index; the server reports damage to its files itself."""
        connection.execute("DELETE FROM clew_documents")
        connection.execute("UPDATE clew_sessions SET indexed = 0")

    def is_index_sound(self, connection: SqlConnection) -> bool:  # noqa: ARG002
        """Return True: the server reports damage to its files itself."""
        return True

    def search(
        self, connection: SqlConnection, terms: Sequence[str], *, kind: str | None, limit: int
    ) -> Iterable[Sequence[Any]]:
        """Find sessions by their words."""
        wanted = " & ".join(f"'{term}':*" for term in terms)
        return connection.execute(
            _SEARCH, {"terms": wanted, "kind": kind, "limit": limit}
        ).fetchall()

    def count_entries(self, connection: SqlConnection, scope: Scope, words: Sequence[str]) -> int:
        """Count indexed entries."""
        (count,) = connection.execute(
            "SELECT count(*) FROM clew_documents"  # noqa: S608
            f" WHERE {_within(scope)} AND words @@ :terms::tsquery",
            {"terms": _all_of(words), "number": scope.number, "cwd": scope.cwd},
        ).fetchone()
        return int(count)

    def find_entries(
        self, connection: SqlConnection, scope: Scope, query: IndexQuery, *, limit: int
    ) -> list[Place]:
        """Find indexed entries; each word counts by how rare it is, as in BM25."""
        (size,) = connection.execute("SELECT count(*) FROM clew_documents").fetchone()
        values: dict[str, object] = {}
        ranks: list[str] = []
        for place, group in enumerate(query.any_of):
            # Parameters have names without digits.
            name = f"word_{chr(ord('a') + place // 26)}{chr(ord('a') + place % 26)}"
            count = self.count_entries(connection, scope, group)
            weight = math.log(1 + (size - count + 0.5) / (count + 0.5))
            values[name] = _all_of(group)
            ranks.append(f"{weight:.6f} * ts_rank(words, :{name}::tsquery, 1)")
        conditions = [_within(scope)]
        if query.all_of:
            conditions.append("words @@ :required::tsquery")
        if query.any_of:
            conditions.append("words @@ :wanted::tsquery")
        if query.since is not None:
            conditions.append("at >= :since")
        if query.until is not None:
            conditions.append("at <= :until")
        order = f"{' + '.join(ranks)} DESC, " if ranks else ""
        return connection.execute(
            f"SELECT session, id FROM clew_documents WHERE {' AND '.join(conditions)}"  # noqa: S608
            f" ORDER BY {order}session DESC, id DESC LIMIT :limit",
            {
                **values,
                "number": scope.number,
                "cwd": scope.cwd,
                "required": _all_of(query.all_of),
                "wanted": " | ".join(f"({_all_of(group)})" for group in query.any_of),
                "since": query.since,
                "until": query.until,
                "limit": limit,
            },
        ).fetchall()

    def read_words(self, connection: SqlConnection, places: Sequence[Place]) -> Mapping[Place, str]:
        """Return the words of indexed entries with their positions."""
        rows = connection.execute(
            "SELECT session, id, words::text FROM clew_documents"
            " JOIN unnest(:sessions::bigint[], :ids::bigint[]) AS wanted (session, id)"
            " USING (session, id)",
            {"sessions": [one for one, _ in places], "ids": [one for _, one in places]},
        ).fetchall()
        return {(session, entry_id): text for session, entry_id, text in rows}

    def make_counter(self, word: str) -> Callable[[str], int]:
        """Return a function that counts the positions of a word."""
        if word.endswith("*"):
            pattern = re.compile(rf"'{re.escape(word[:-1])}[^']*':([0-9,]+)")
            return lambda text: sum(found.count(",") + 1 for found in pattern.findall(text))
        return lambda text: sum(_count_positions(text, form) for form in word.split("|"))


def _count_positions(text: str, word: str) -> int:
    start = text.find(f"'{word}':")
    end = text.find(" ", start)
    return text.count(",", start, end if end > 0 else None) + 1 if start >= 0 else 0


def _all_of(words: Sequence[str]) -> str:
    return " & ".join(map(_quote, words))


def _quote(word: str) -> str:
    if word.endswith("*"):
        return f"'{word[:-1]}':*"
    return "(" + " | ".join(f"'{form}'" for form in word.split("|")) + ")"


def _within(scope: Scope) -> str:
    if scope.number is not None:
        return "session = :number"
    if scope.cwd is not None:
        return "session IN (SELECT number FROM clew_sessions WHERE cwd = :cwd)"
    return "true"


def create_tables(connection: psycopg.Connection) -> None:
    """Create the tables, or migrate older ones; several processes may do so at once.

    Raises:
        StoreUnavailable: A newer release made the tables; they are unchanged.
    """
    if _version(connection) == len(_STEPS):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        _create_schema(connection)
        # Another process may have done the work while this one waited.
        for step in _STEPS[_version(connection) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute("UPDATE clew_schema SET version = %s", (len(_STEPS),))


def _create_schema(connection: psycopg.Connection) -> None:
    """Create the schema that the address names in `search_path`, if it does not exist."""
    query = "SELECT current_setting('search_path') WHERE current_schema() IS NULL"
    missing = connection.execute(query).fetchone()
    if missing is not None and _NAME.fullmatch(missing[0]):
        name = sql.Identifier(missing[0])
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))


def _version(connection: psycopg.Connection) -> int:
    # Not `to_regclass`: it may use a catalogue snapshot from before this process had to wait.
    table = connection.execute(
        "SELECT FROM pg_class WHERE relname = 'clew_schema' AND pg_table_is_visible(oid)"
    ).fetchone()
    if table is None:
        return 0
    (version,) = connection.execute("SELECT version FROM clew_schema").fetchone() or (0,)
    if version > len(_STEPS):
        raise StoreUnavailable(
            f"the session store was written by a newer Clew (format {version}, this one reads "
            f"{len(_STEPS)}); update Clew to open it"
        )
    return int(version)


@cache
def _to_psycopg(statement: str) -> str:
    """Replace `:name` by psycopg's `%(name)s`, but not the `::` of a cast."""
    return _PARAMETER.sub(r"%(\1)s", statement)
