"""Where the sessions of a folder are kept, and how one of them is named."""

import os
from dataclasses import dataclass
from pathlib import Path

from clew.cli.harmless import one_line
from clew.cli.places import store_path
from clew.core.errors import SessionNotFound
from clew.core.ids import SessionId
from clew.stores import open_store
from clew.stores.protocol import Store
from clew.stores.record import StoredSession

VARIABLE = "CLEW_STORE"
"""Names another place than a file for each project: a file, or a PostgreSQL database."""
_SHOWN = 60
_LEAST_PREFIX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectStore:
    """The store of a folder."""

    store: Store
    folder: str | None
    """The folder whose sessions are meant, where the store keeps those of others too."""
    is_empty: bool = False
    """True when nothing was ever stored, and the place is not even made."""


def project_store(cwd: Path) -> ProjectStore:
    """Return the store for the sessions of `cwd`; the caller closes it.

    Raises:
        ConfigError: `CLEW_STORE` names no place that can be used.
    """
    place = os.environ.get(VARIABLE)
    if place:
        return ProjectStore(store=open_store(place), folder=str(cwd))
    path = store_path(cwd)
    return ProjectStore(store=open_store(path), folder=None, is_empty=not path.exists())


async def find_session(place: ProjectStore, wanted: str) -> StoredSession:
    """Return the session of that id, or else of that name, or of the id that begins so.

    Names and beginnings are those of the folder, where the store keeps sessions of others too.

    Raises:
        SessionNotFound: There is none, or several are called so.
    """
    try:
        return await place.store.record(SessionId(wanted))
    except SessionNotFound:
        known = await place.store.sessions(cwd=place.folder)
    found = [record for record in known if record.name == wanted]
    if not found and len(wanted) >= _LEAST_PREFIX:
        found = [record for record in known if record.id.startswith(wanted)]
    if len(found) != 1:
        which = f"{len(found)} sessions are" if found else "no session is"
        raise SessionNotFound(
            f"{which} called {one_line(wanted, _SHOWN)}; `clew sessions` lists them with their ids"
        )
    return found[0]
