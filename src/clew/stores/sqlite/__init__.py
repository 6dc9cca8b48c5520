"""A store in one SQLite file."""

from clew.stores.sqlite.store import SqliteStore as SqliteStore
