"""The tables, and how older ones are brought up to date.

All names begin with `clew_`, so that the tables may live beside others in one database.
"""

import psycopg

from clew.core.errors import StoreUnavailable

_LOCK = 0x434C4557
"""The advisory lock under which one process at a time changes the tables."""
_VERSION_1 = (
    "CREATE TABLE clew_schema (version BIGINT NOT NULL)",
    "INSERT INTO clew_schema VALUES (0)",
    # Room on each page keeps the updates of a turn where the row is, without the indexes.
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
STEPS = (_VERSION_1, _VERSION_2)
"""What leads from each version to the next; from nothing to the first, to begin with."""


def prepare(connection: psycopg.Connection) -> None:
    """Make the tables, or bring them up to date; many may do so at once.

    Raises:
        StoreUnavailable: They are of a newer release; they are left as they are.
    """
    if _version(connection) == len(STEPS):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        # Whoever came first has done the work while this process waited.
        for step in STEPS[_version(connection) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute("UPDATE clew_schema SET version = %s", (len(STEPS),))


def _version(connection: psycopg.Connection) -> int:
    # Not by `to_regclass`: it may go by what was true before this process had to wait.
    there = connection.execute(
        "SELECT FROM pg_class WHERE relname = 'clew_schema' AND pg_table_is_visible(oid)"
    ).fetchone()
    if there is None:
        return 0
    (version,) = connection.execute("SELECT version FROM clew_schema").fetchone() or (0,)
    if version > len(STEPS):
        raise StoreUnavailable(
            f"the session store was written by a newer Clew (format {version}, this one reads "
            f"{len(STEPS)}); update Clew to open it"
        )
    return int(version)
