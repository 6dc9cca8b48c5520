"""Stored sessions: list, search, rename, fork, delete, export and import them.

Every function takes the `ProjectStore` of a folder; see `clew.sdk.session_store`.
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from clew.checkpoints.file_checkpoints import delete_checkpoints
from clew.context.recall.answer import Hints
from clew.core.entries import Entry
from clew.core.errors import ConfigError, SessionNotFound
from clew.core.ids import EntryId, SessionId
from clew.core.text import one_line
from clew.extensions.commands.session import check_session_name
from clew.extensions.commands.transcript import write_markdown
from clew.importers.journal import import_session
from clew.importers.reader import KNOWN_FORMATS, read_session
from clew.sdk.session_store import MODEL_FIELD, ProjectStore, find_session, project_store
from clew.session.history import project_history
from clew.session.recall import RecallAnswer, RecallRequest, SessionRecall
from clew.stores.protocol import Store
from clew.stores.record import AGENT_KIND, SearchHit, StoredSession
from clew.stores.sqlite import SqliteStore
from clew.stores.stored_entries import find_damaged_ids
from clew.stores.transfer import Exported, export_lines, import_export, read_export

__all__ = [
    "AGENT_KIND",
    "ImportedSession",
    "ProjectStore",
    "SearchHit",
    "StoredSession",
    "StoredTranscript",
    "delete_sessions",
    "fork_session",
    "import_file",
    "list_sessions",
    "load_transcript",
    "project_store",
    "recall_entries",
    "rename_session",
    "salvage_transcript",
    "search_sessions",
]

_GZIP = b"\x1f\x8b"
_MAX_NAME = 60
_RECALL_PAGE = 1_000_000
_RECALL_HINTS = Hints(
    read="read an entry in full with: clew sessions recall ID #{id}",
    around="what came before and after: clew sessions recall ID {first}-{last}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTranscript:
    """A stored session with its entries."""

    record: StoredSession
    entries: Sequence[Entry]

    @property
    def damaged(self) -> Sequence[EntryId]:
        """The entries that cannot be read."""
        return find_damaged_ids(self.entries)

    @property
    def missing(self) -> int:
        """How many entries the store has lost; only a salvage loses any."""
        return max(0, self.record.entries - len(self.entries))

    def export(self) -> Iterator[bytes]:
        """Yield the session as lines of JSON; `import_file` reads them. Skips damaged entries."""
        return export_lines(self.record, self.entries)

    def write_markdown(self) -> str:
        """Return the conversation as a document for people, without secrets."""
        title = self.record.name or f"Session {self.record.id}"
        return write_markdown(title, project_history(self.entries), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSession:
    """A session that was imported."""

    record: StoredSession
    problems: tuple[str, ...]
    """What the file lacks, or what could not be read; one sentence each."""


async def list_sessions(
    place: ProjectStore, *, limit: int, all_folders: bool = False, agents: bool = False
) -> list[StoredSession]:
    """Return the sessions of the folder, most recently used first.

    Args:
        place: The store.
        limit: The maximum number of sessions.
        all_folders: Include other folders, where the store holds several.
        agents: Include the sessions of agents.
    """
    return await place.store.sessions(
        cwd=None if all_folders else place.folder, kind=None if agents else "", limit=limit
    )


async def search_sessions(
    place: ProjectStore, query: str, *, limit: int, agents: bool = False
) -> list[SearchHit]:
    """Return the sessions whose name or messages contain all words of `query`, or their starts."""
    return await place.store.search(query, kind=None if agents else "", limit=limit)


async def recall_entries(
    place: ProjectStore, wanted: str, text: str, *, limit: int = 8, offset: int = 0
) -> RecallAnswer:
    """Search the entries of a session, or read some; see `RecallRequest.text`.

    Args:
        place: The store.
        wanted: The session: its id, the start of it, or its name; empty for all of the folder.
        text: Words and filters, or entries such as `#12`, `#27 #65` or `382-390`.
        limit: The maximum number of hits.
        offset: The first character to show of an entry.

    Raises:
        SessionNotFound: No session matches, or more than one does.
        SessionError: The text cannot be understood, or there is nothing to read.
    """
    found = await load_transcript(place, wanted) if wanted else None
    entries = {int(one.id): one for one in found.entries} if found else {}
    recall = SessionRecall(
        place.store,
        found.record.id if found else SessionId(""),
        cwd=place.folder,
        read=entries.get,
        hints=_RECALL_HINTS,
    )
    return await recall.answer(
        RecallRequest(
            text=text, limit=limit, offset=offset, page=_RECALL_PAGE, all_sessions=found is None
        )
    )


async def load_transcript(place: ProjectStore, wanted: str) -> StoredTranscript:
    """Return the session with that id, start of an id, or name.

    Raises:
        SessionNotFound: No session matches, or more than one does.
    """
    record, entries = await place.store.load((await find_session(place, wanted)).id)
    return StoredTranscript(record=record, entries=entries)


async def salvage_transcript(place: ProjectStore, session_id: str) -> StoredTranscript:
    """Return what can still be read of a session in a damaged SQLite file.

    Raises:
        ConfigError: The store is not an SQLite file.
        SessionNotFound: There is no such session.
    """
    if not isinstance(place.store, SqliteStore):
        raise ConfigError("only sessions in SQLite files can be salvaged")
    record, entries = await place.store.salvage(SessionId(session_id))
    return StoredTranscript(record=record, entries=entries)


async def rename_session(place: ProjectStore, wanted: str, name: str) -> StoredSession:
    """Give a session a name.

    Raises:
        SessionError: The name is empty or too long, or no session matches.
    """
    checked = check_session_name(name)
    record = await find_session(place, wanted)
    await place.store.rename(record.id, checked)
    return await place.store.record(record.id)


async def fork_session(
    place: ProjectStore, wanted: str, *, upto: int | None = None, name: str = ""
) -> tuple[StoredSession, StoredSession]:
    """Start a session with the entries of another one; returns the original and the fork.

    Args:
        place: The store.
        wanted: The original: its id, the start of it, or its name.
        upto: The last entry to copy; all of them by default.
        name: The name of the new session.
    """
    record = await find_session(place, wanted)
    last = None if upto is None else EntryId(upto)
    return record, await place.store.fork(record.id, upto=last, name=name)


async def delete_sessions(
    place: ProjectStore, session_ids: Sequence[str], *, checkpoints: Path
) -> int:
    """Delete sessions with their agents and checkpoints. Deletes none if one is missing.

    Args:
        place: The store.
        session_ids: Complete ids. Names and starts of ids are refused.
        checkpoints: The folder with the checkpoints of the project.

    Returns:
        How many sessions were deleted, without their agents.

    Raises:
        SessionNotFound: An id does not exist.
    """
    wanted = [SessionId(session_id) for session_id in session_ids]
    for session_id in wanted:
        await _check_id(place, session_id)
    for session_id in wanted:
        agents = await place.store.sessions(parent=session_id, kind=AGENT_KIND)
        await place.store.delete(session_id)
        for deleted in (session_id, *(agent.id for agent in agents)):
            delete_checkpoints(checkpoints, deleted)
    return len(set(wanted))


async def _check_id(place: ProjectStore, session_id: str) -> None:
    try:
        await place.store.record(SessionId(session_id))
    except SessionNotFound as error:
        try:
            similar = await find_session(place, session_id)
        except SessionNotFound:
            raise error from None
        raise SessionNotFound(
            f"{one_line(session_id, _MAX_NAME)} is not a complete id, and delete takes only those;"
            f" did you mean {similar.id}?"
        ) from None


async def import_file(
    store: Store, name: str, *, cwd: str, data: bytes | None = None
) -> ImportedSession:
    """Import the session of a file: one that Clew exported, or one of another agent.

    Args:
        store: Where the session goes.
        name: The path of the file.
        cwd: The folder that the session belongs to, if the file does not say.
        data: The content, if it does not come from a file; only Clew's own format then.

    Raises:
        ConfigError: The file cannot be read, or has no session.
        StoreError: The store cannot be written.
    """
    content = _read(name) if data is None else data
    exported = read_export(content.split(b"\n"))
    if exported is not None:
        exported = _without_model_choice(exported)
        problems = (*exported.problems, *_check_complete(name, exported))
        return ImportedSession(
            record=await import_export(store, exported, cwd=cwd), problems=problems
        )
    if data is not None:
        raise ConfigError("standard input does not contain a session that `clew` exported")
    recorded = read_session(name)
    if not recorded.cwd:
        recorded = replace(recorded, cwd=cwd)
    record = await store.record(await import_session(store, recorded))
    return ImportedSession(record=record, problems=recorded.problems)


def _without_model_choice(exported: Exported) -> Exported:
    """Return a session without the server of its model: a file must not say who gets a key."""
    if exported.record is None:
        return exported
    extra = {key: value for key, value in exported.record.extra.items() if key != MODEL_FIELD}
    return replace(exported, record=replace(exported.record, extra=extra))


def _check_complete(name: str, exported: Exported) -> list[str]:
    expected, found = exported.record.entries if exported.record else 0, len(exported.entries)
    if expected and not found:
        raise ConfigError(f"{name} ends before its first entry; nothing was imported")
    if found < expected:
        return [f"the file has {found:,} of {expected:,} entries"]
    return []


def _read(name: str) -> bytes:
    try:
        data = Path(name).read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP) else data
    except (EOFError, gzip.BadGzipFile, zlib.error):
        # The importers read a broken archive as far as it goes.
        return b""
    except OSError as error:
        raise ConfigError(
            f"{name} cannot be read: {error.strerror}; Clew reads {KNOWN_FORMATS}"
        ) from error
