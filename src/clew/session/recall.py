"""Search a session in its store, and read its entries: for the tool, the command and the shell."""

import time
from collections.abc import Callable, Collection

from msgspec import Struct

from clew.context.recall.answer import (
    Hints,
    format_entries,
    format_found,
    parse_references,
)
from clew.context.recall.file_version import find_latest_version, format_version
from clew.context.recall.query import Query, parse_query
from clew.context.recall.search import Found
from clew.context.recall.units import ReadEntry
from clew.core.errors import SessionError, SessionNotFound
from clew.core.ids import SessionId
from clew.core.text import one_line, truncate_middle
from clew.stores.protocol import Store

_VERSIONS = 200
"""How many calls that name a file are read for its latest version."""


class RecallRequest(Struct, frozen=True, kw_only=True):
    """What to look for, or what to read."""

    text: str
    """Words and filters, or entries such as `#12`, `#27 #65` or `382-390`."""
    offset: int = 0
    """The first character to read."""
    page: int = 12_000
    """The maximum number of characters of the answer, about."""
    limit: int = 8
    """The maximum number of hits."""
    all_sessions: bool = False
    """Search all sessions that began in the same folder."""
    skip: tuple[int, ...] = ()
    """Entries that are not wanted."""


class RecallAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a `RecallRequest`."""

    text: str
    is_found: bool = True
    found: Found = Found()
    """What a search found; empty when entries were read."""


class SessionRecall:
    """Searches one session, or all sessions of its folder, and reads its entries."""

    def __init__(
        self,
        store: Store,
        session_id: SessionId,
        *,
        cwd: str | None,
        read: ReadEntry,
        hints: Hints,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._session_id, self._cwd = store, session_id, cwd
        self._read, self._hints, self._clock = read, hints, clock

    async def answer(self, request: RecallRequest) -> RecallAnswer:
        """Search, or read entries.

        Raises:
            SessionError: The request cannot be understood, or there is nothing to read.
            StoreError: The store cannot be read.
        """
        references = parse_references(request.text)
        if references is not None:
            text = format_entries(references, self._read, offset=request.offset, page=request.page)
            return RecallAnswer(text=text)
        query = parse_query(request.text, now=self._clock())
        if query.latest:
            return RecallAnswer(text=await self._latest(query, request.page))
        if query.is_empty:
            raise SessionError("there are no words to look for; letters or digits are needed")
        found = await self._search(query, request)
        if not found.hits:
            scope = "this project" if request.all_sessions else "this session"
            asked = one_line(request.text, 80)
            return RecallAnswer(
                text=f"Nothing in {scope} matches {asked!r}.", is_found=False, found=found
            )
        return RecallAnswer(text=self._format(found, request), found=found)

    def _format(self, found: Found, request: RecallRequest) -> str:
        read = None if request.all_sessions else self._read
        return format_found(found, hints=self._hints, read=read, room=request.page)

    async def _search(self, query: Query, request: RecallRequest) -> Found:
        if request.all_sessions:
            return await self._store.recall(query, cwd=self._cwd, limit=request.limit)
        return await self._recall(query, request.limit, request.skip)

    async def _recall(self, query: Query, limit: int, skip: Collection[int] = ()) -> Found:
        try:
            return await self._store.recall(
                query, session_id=self._session_id, limit=limit, skip=skip
            )
        except SessionNotFound:
            # A session without messages leaves no trace in the store.
            return Found()

    async def _latest(self, query: Query, page: int) -> str:
        named = Query(file=query.file, role="tool", latest=True)
        found = await self._recall(named, _VERSIONS)
        version = find_latest_version([hit.unit for hit in found.hits], query.file)
        if version is None:
            raise SessionError(f"no call of this session names a file {query.file}")
        return truncate_middle(format_version(version), page)
