"""The stored sessions of several folders: what a server offers to its clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from clew.core.errors import AccessDenied, ConfigError, SessionNotFound
from clew.core.ids import SessionId
from clew.core.text import one_line
from clew.sdk.folders import Homes
from clew.sdk.session_store import VARIABLE, ProjectStore, project_address, project_store
from clew.stores import open_store
from clew.stores.record import SearchHit, StoredSession

_SHOWN = 80
_CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class LocatedSession:
    """A stored session, and where it is."""

    record: StoredSession
    place: ProjectStore


class ProjectStores:
    """The stores of all folders below some roots; each is opened once, and closed by `aclose`.

    Sessions of other folders do not exist for it, even if they are in the same store.

    Args:
        roots: The folders; those below them belong to them.
        environ: Environment variables.
        address: One store for all folders; by default each folder has its own, unless
            `CLEW_STORE` names one.
        silent_after: What this process promises for its leases; see `open_store`.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        environ: Mapping[str, str],
        address: str = "",
        silent_after: float | None = None,
    ) -> None:
        self._silent_after = silent_after
        self._roots = [root.resolve() for root in roots]
        self._environ = environ
        self._address = address or environ.get(VARIABLE, "")
        self._homes = Homes.of(environ)
        self._open: dict[str, ProjectStore] = {}
        self._foreign: set[str] = set()

    def check_folder(self, cwd: str) -> Path:
        """Return the folder of a new session.

        Raises:
            AccessDenied: It is not below one of the roots.
            ConfigError: It does not exist.
        """
        folder = self._roots[0] / cwd
        try:
            resolved = folder.resolve()
            is_folder = resolved.is_dir()
        except (OSError, ValueError, RuntimeError):
            resolved, is_folder = folder, False
        if not self._is_served(resolved):
            roots = ", ".join(map(str, self._roots))
            raise AccessDenied(
                f"{one_line(str(folder), _SHOWN)} is not below a folder that is served: {roots}"
            )
        if not is_folder:
            raise ConfigError(f"there is no folder {one_line(str(folder), _SHOWN)}")
        return resolved

    def open(self, cwd: Path) -> ProjectStore:
        """Return the store for the sessions of a folder."""
        address = self._address or project_address(cwd, self._environ)
        if (found := self._open.get(address)) is None:
            found = self._open[address] = project_store(
                cwd, self._environ, self._address, silent_after=self._silent_after
            )
        return found

    def open_shared(self) -> ProjectStore:
        """Return the store of all folders, or of the first root where each folder has its own."""
        return self.open(self._roots[0])

    def find_checkpoints(self, cwd: str) -> Path:
        """Return the folder with the checkpoints of a session's project."""
        return self._homes.project(Path(cwd)) / _CHECKPOINTS

    async def list_sessions(self, *, folder: Path | None = None) -> list[StoredSession]:
        """Return the sessions that people use, the last used first."""
        found = [
            record
            for place in await self._list_places()
            for record in await place.store.sessions(kind="")
            if self._is_shown(record, folder)
        ]
        return sorted(found, key=lambda record: record.updated_at, reverse=True)

    async def search(self, query: str, *, limit: int) -> list[SearchHit]:
        """Return the sessions whose name or messages have all words; the last used first."""
        found = [
            hit
            for place in await self._list_places()
            for hit in await place.store.search(query, kind="", limit=limit)
            if self._is_shown(hit.session)
        ]
        found.sort(key=lambda hit: hit.session.updated_at, reverse=True)
        return found[:limit]

    async def find(self, session_id: str) -> LocatedSession:
        """Return the session with that id, even if it is one of an agent.

        Raises:
            SessionNotFound: No folder that is served has it.
        """
        for place in await self._list_places():
            try:
                record = await place.store.record(SessionId(session_id))
            except SessionNotFound:
                continue
            if self._is_shown(record):
                return LocatedSession(record, place)
        raise SessionNotFound(f"there is no session {one_line(session_id, _SHOWN)} here")

    async def aclose(self) -> None:
        """Close every store."""
        while self._open:
            _, place = self._open.popitem()
            await place.store.aclose()

    async def _list_places(self) -> Sequence[ProjectStore]:
        """Return the stores that exist and have sessions of the roots: looking creates no file."""
        if self._address:
            return [self.open_shared()]
        files = await to_thread.run_sync(self._list_files)
        for file in files - self._open.keys() - self._foreign:
            await self._add(file)
        return [place for file, place in self._open.items() if file in files]

    def _list_files(self) -> set[str]:
        return {str(file) for file in (self._homes.clew / "projects").glob("*/sessions.db")}

    async def _add(self, file: str) -> None:
        """Open a store, unless its sessions are of a folder that is not served.

        A file has the sessions of one folder, so one record decides.
        """
        place = ProjectStore(store=open_store(Path(file)), folder=None, address=file)
        records = await place.store.sessions(kind="", limit=1)
        if records and self._is_shown(records[0]) and file not in self._open:
            self._open[file] = place
            return
        if records:
            self._foreign.add(file)
        await place.store.aclose()

    def _is_shown(self, record: StoredSession, folder: Path | None = None) -> bool:
        cwd = Path(record.cwd)
        return self._is_served(cwd) and (folder is None or cwd == folder)

    def _is_served(self, folder: Path) -> bool:
        return any(folder.is_relative_to(root) for root in self._roots)
