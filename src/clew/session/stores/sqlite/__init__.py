"""A store in one SQLite file."""

from clew.session.stores.sqlite.store import SqliteStore as SqliteStore
