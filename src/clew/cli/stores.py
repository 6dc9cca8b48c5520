"""Where the sessions of a folder are kept."""

import os
from dataclasses import dataclass
from pathlib import Path

from clew.cli.places import store_path
from clew.session.stores.opening import open_store
from clew.session.stores.protocol import Store

VARIABLE = "CLEW_STORE"
"""Names another place than a file for each project: a file, or a PostgreSQL database."""


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
