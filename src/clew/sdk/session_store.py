"""Finds the store of a folder, and a session in it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from clew.core.errors import ConfigError, SessionNotFound
from clew.core.ids import SessionId
from clew.core.text import one_line
from clew.sdk.folders import Homes
from clew.stores import open_store
from clew.stores.protocol import Store
from clew.stores.record import StoredSession

if TYPE_CHECKING:
    from clew.stores.task_protocol import TaskStore

VARIABLE = "CLEW_STORE"
"""A file or a PostgreSQL address to use instead of one file for each project."""
MODEL_FIELD = "model_choice"
"""The field in `StoredSession.extra` that says which model a session used; see `saved_model`."""
_SHOWN = 60
_LEAST_PREFIX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectStore:
    """The store of a folder."""

    store: Store
    folder: str | None
    """The folder to filter by, where the store holds the sessions of several folders."""
    is_empty: bool = False
    """True when nothing was ever stored."""
    address: str = ""
    """Where the store is: a file or an address."""

    @property
    def tasks(self) -> "TaskStore | None":
        """The tasks of the sessions; None if the store keeps none."""
        tasks: TaskStore | None = getattr(self.store, "tasks", None)
        return tasks


def project_store(
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    address: str = "",
    *,
    silent_after: float | None = None,
) -> ProjectStore:
    """Return the store for the sessions of `cwd`; the caller closes it.

    Args:
        cwd: The folder.
        environ: Environment variables; by default those of the process.
        address: A file or an address to use instead.
        silent_after: See `open_store`.

    Raises:
        ConfigError: The address, or the one in `CLEW_STORE`, cannot be used.
    """
    environ = os.environ if environ is None else environ
    open_here = partial(open_store, silent_after=silent_after)
    if place := address or environ.get(VARIABLE):
        return ProjectStore(store=open_here(place), folder=str(cwd), address=place)
    path = Path(project_address(cwd, environ))
    store = open_here(path)
    return ProjectStore(store=store, folder=None, is_empty=not path.exists(), address=str(path))


def project_address(cwd: Path, environ: Mapping[str, str]) -> str:
    """Return where the sessions of `cwd` are, unless an option says otherwise."""
    return environ.get(VARIABLE) or str(Homes.of(environ).project(cwd) / "sessions.db")


def separate_address(address: str, namespace: str, environ: Mapping[str, str]) -> str:
    """Return the address of a store for one user of a server: a file, or a schema of a database.

    Args:
        address: The store of the server; by default that of `CLEW_STORE`, or one file per project.
        namespace: Names the user; lower-case letters, digits and hyphens.
        environ: Environment variables.

    Raises:
        ConfigError: The store of the server cannot be separated.
    """
    place = address or environ.get(VARIABLE, "")
    if "://" not in place:
        return str(Homes.of(environ).clew / "users" / namespace / "sessions.db")
    parts = urlsplit(place)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ConfigError(
            f"{parts.scheme}:// cannot keep users apart; use a PostgreSQL database or files"
        )
    fields = dict(parse_qsl(parts.query, keep_blank_values=True))
    path = f"-csearch_path=clew_{namespace.replace('-', '_')}"
    fields["options"] = f"{fields.get('options', '')} {path}".strip()
    return urlunsplit(parts._replace(query=urlencode(fields, quote_via=quote)))


async def find_session(place: ProjectStore, wanted: str) -> StoredSession:
    """Return the session with that id or name, or the one whose id starts so.

    Raises:
        SessionNotFound: There is none, or more than one matches.
    """
    try:
        return await place.store.record(SessionId(wanted))
    except SessionNotFound:
        known = await place.store.sessions(cwd=place.folder)
    found = [record for record in known if record.name == wanted]
    if not found and len(wanted) >= _LEAST_PREFIX:
        found = [record for record in known if record.id.startswith(wanted)]
    if len(found) != 1:
        which = f"{len(found)} sessions match" if found else "no session matches"
        raise SessionNotFound(
            f"{which} {one_line(wanted, _SHOWN)}; `clew sessions` lists them with their ids"
        )
    return found[0]
