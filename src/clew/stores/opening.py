"""From the one setting of a store, its place, to the store."""

import importlib.util
from pathlib import Path

from clew.core.errors import ConfigError, MissingExtra
from clew.stores.protocol import Store

_POSTGRES = ("postgresql://", "postgres://")


def open_store(place: str | Path) -> Store:
    """Return the store at `place`: the path of an SQLite file, or the URL of a PostgreSQL database.

    Nothing is opened yet; the caller closes the store.

    Raises:
        ConfigError: There is no such kind of store.
        MissingExtra: The part of Clew that speaks to PostgreSQL is not installed.
    """
    if isinstance(place, Path):
        return _sqlite(place)
    if place.startswith(_POSTGRES):
        return _postgres(place)
    if "://" in place:
        kind = place.partition("://")[0]
        raise ConfigError(
            f"there is no session store of the kind {kind}; give the path of a file, or a URL "
            "that begins with postgresql://"
        )
    return _sqlite(Path(place).expanduser())


def _sqlite(path: Path) -> Store:
    # Imported when needed: whoever uses the one store does not pay for the other.
    from clew.stores.sqlite import SqliteStore  # noqa: PLC0415

    return SqliteStore(path)


def _postgres(url: str) -> Store:
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtra("PostgreSQL needs a package that is not installed.", extra="postgres")
    from clew.stores.postgres import PostgresStore  # noqa: PLC0415

    return PostgresStore(url)
