"""Stores for sessions: the `Store` protocol, and stores in memory, SQLite and PostgreSQL."""

import importlib.util
from pathlib import Path
from typing import cast

from clew.core.errors import ConfigError, MissingExtra
from clew.stores.protocol import Store

_POSTGRES = ("postgresql://", "postgres://")


def open_store(place: str | Path, *, silent_after: float | None = None) -> Store:
    """Return the store at `place`: the path of an SQLite file, or the URL of a PostgreSQL database.

    For another URL, the entry point `clew.stores` of an installed package is called that is named
    like its scheme. Nothing is opened yet. The caller closes the store.

    Args:
        place: The path or the URL.
        silent_after: What this process promises for all its leases, unless it says otherwise; see
            `Store.lease`. Stores of other packages do not get it.

    Raises:
        ConfigError: The URL is of another kind of database, or its package cannot be imported.
        MissingExtra: The package for PostgreSQL is not installed.
    """
    if isinstance(place, Path):
        return _open_sqlite(place, silent_after)
    if place.startswith(_POSTGRES):
        return _open_postgres(place, silent_after)
    if "://" in place:
        kind = place.partition("://")[0]
        from clew.files.entry_points import load_installed  # noqa: PLC0415 - seldom needed

        if (make := load_installed("clew.stores", kind)) is not None:
            return cast("Store", make(place))
        raise ConfigError(
            f"{kind}:// is not a session store; use the path of a file, a URL that begins with "
            "postgresql://, or install a package with the entry point clew.stores for it"
        )
    return _open_sqlite(Path(place).expanduser(), silent_after)


def _open_sqlite(path: Path, silent_after: float | None) -> Store:
    # Imported when needed: a user of one store does not pay for the other.
    from clew.stores.sqlite import SqliteStore  # noqa: PLC0415

    return SqliteStore(path, silent_after=silent_after)


def _open_postgres(url: str, silent_after: float | None) -> Store:
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtra("PostgreSQL needs a package that is not installed.", extra="postgres")
    from clew.stores.postgres import PostgresStore  # noqa: PLC0415

    return PostgresStore(url, silent_after=silent_after)
