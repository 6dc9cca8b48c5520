"""The tables of a task store, for SQLite and PostgreSQL."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

_TABLES = (
    """
    CREATE TABLE {prefix}tasks (
        task_id TEXT PRIMARY KEY,
        session_id TEXT NOT NULL,
        cwd TEXT NOT NULL,
        kind TEXT NOT NULL,
        status TEXT NOT NULL,
        worker TEXT NOT NULL,
        epoch {integer} NOT NULL DEFAULT 0,
        pid {integer} NOT NULL DEFAULT 0,
        started TEXT NOT NULL DEFAULT '',
        machine TEXT NOT NULL DEFAULT '',
        cancel_requested {integer} NOT NULL DEFAULT 0,
        request_id TEXT NOT NULL DEFAULT '',
        question {blob},
        answer {blob},
        state {blob} NOT NULL,
        spec {blob} NOT NULL,
        snapshot TEXT NOT NULL,
        sent {integer} NOT NULL DEFAULT 0,
        updated_at {real} NOT NULL
    ){strict}
    """,
    # Lists ask for one status at a time, so that tasks that ended long ago cost nothing.
    "CREATE INDEX {prefix}tasks_status ON {prefix}tasks (status, updated_at)",
    "CREATE INDEX {prefix}tasks_cwd ON {prefix}tasks (cwd, status, updated_at)",
    "CREATE INDEX {prefix}tasks_session ON {prefix}tasks (session_id, status, updated_at)",
    "CREATE INDEX {prefix}tasks_worker ON {prefix}tasks (worker, status, updated_at)",
    """
    CREATE TABLE {prefix}task_messages (
        task_id TEXT NOT NULL,
        number {integer} NOT NULL,
        text TEXT NOT NULL,
        at {real} NOT NULL,
        PRIMARY KEY (task_id, number)
    ){strict}
    """,
    """
    CREATE TABLE {prefix}workers (
        worker TEXT PRIMARY KEY,
        host TEXT NOT NULL,
        pid {integer} NOT NULL,
        started TEXT NOT NULL,
        machine TEXT NOT NULL,
        beat {real} NOT NULL
    ){strict}
    """,
    """
    CREATE TABLE {prefix}schedules (
        schedule_id TEXT PRIMARY KEY,
        text TEXT NOT NULL,
        cron TEXT NOT NULL,
        spec {blob} NOT NULL,
        next_at {real} NOT NULL,
        created_at {real} NOT NULL,
        last_task_id TEXT NOT NULL
    ){strict}
    """,
    "CREATE TABLE {prefix}blobs (name TEXT PRIMARY KEY, data {blob} NOT NULL){strict}",
)
_BLOB_DATES = (
    # Blobs of older stores count as old.
    "ALTER TABLE {prefix}blobs ADD COLUMN stored_at {real} NOT NULL DEFAULT 0",
    "CREATE INDEX {prefix}tasks_snapshot ON {prefix}tasks (snapshot) WHERE snapshot <> ''",
)
SQLITE_TYPES: Mapping[str, str] = MappingProxyType(
    {"prefix": "", "integer": "INTEGER", "real": "REAL", "blob": "BLOB", "strict": " STRICT"}
)
POSTGRES_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "prefix": "clew_",
        "integer": "BIGINT",
        "real": "DOUBLE PRECISION",
        "blob": "BYTEA",
        "strict": "",
    }
)


def task_tables(types: Mapping[str, str]) -> Iterator[str]:
    """Yield the statements that create the tables."""
    for statement in _TABLES:
        yield statement.format_map(types)


def blob_dates(types: Mapping[str, str]) -> Iterator[str]:
    """Yield the statements with which tables get the times of blobs."""
    for statement in _BLOB_DATES:
        yield statement.format_map(types)
