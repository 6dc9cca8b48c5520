"""Search a session in its store, and read its entries: for the tool, the command and the shell.

Imported by the first search, because the parts of recall take time to load.
"""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from clew.context.recall.answer import (
    Hints,
    format_entries,
    format_found,
    parse_references,
)
from clew.context.recall.file_version import find_latest_version, format_version
from clew.context.recall.query import RecallQuery, parse_query
from clew.context.recall.search import Found
from clew.context.recall.units import ReadEntry
from clew.context.recall.word_index import search_entries
from clew.context.view import fold
from clew.core.entries import Entry, MessageAdded
from clew.core.errors import SessionError, SessionNotFound, StoreError
from clew.core.ids import EntryId, SessionId
from clew.core.messages import Role
from clew.core.text import end_sentence, one_line, truncate_middle
from clew.session.journal import Journal
from clew.stores.protocol import Store
from clew.tools.protocol import ToolOutput

_TITLE = 80
_MOST_ADDED = 3
"""How many hits are added to entries that were read by numbers without `#`."""
_VERSIONS = 200
"""How many calls that name a file are read for its latest version."""
RECALL_HINTS = Hints(
    read="read an entry in full with entry={id} (offset={offset} for the passage)",
    around="range={first}-{last} shows what came before and after",
)
_COMMAND_HINTS = Hints(
    read="read an entry in full with /recall #{id}",
    around="/recall {first}-{last} shows what came before and after",
)
"""For people who type `/recall`."""


class RecallRequest(Struct, frozen=True, kw_only=True):
    """What to look for, or what to read."""

    text: str
    """Words and filters, or entries such as `#12`, `#27 #65` or `#382-390`. Numbers without `#` are
    entries and words: `8080` also finds the entries that contain it."""
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
        is_marked = "#" in request.text or request.offset > 0
        try:
            text = self._read_entries(request)
        except SessionError:
            # A number without `#` may be meant as a word, and `2026-11` is no range.
            if is_marked or not (answer := await self._find(request)).is_found:
                raise
            return answer
        if text is None:
            return await self._find(request)
        return RecallAnswer(text=text) if is_marked else await self._add_hits(request, text)

    def _read_entries(self, request: RecallRequest) -> str | None:
        """Return the entries that the request names; None if it names none."""
        references = parse_references(request.text)
        if references is None:
            return None
        return format_entries(references, self._read, offset=request.offset, page=request.page)

    async def _add_hits(self, request: RecallRequest, text: str) -> RecallAnswer:
        """Add other entries that contain a number which was written without `#`."""
        shown = [n for one in parse_references(request.text) or () for n in one.numbers]
        words = replace(
            request,
            text=f'"{request.text.strip()}"',
            limit=_MOST_ADDED,
            page=request.page // 4,
            skip=(*request.skip, *shown),
        )
        answer = await self._find(words)
        if not answer.is_found:
            return RecallAnswer(text=text)
        heading = f"Entries that contain {words.text}:"
        return replace(answer, text=f"{text}\n\n{heading}\n\n{answer.text}")

    async def _find(self, request: RecallRequest) -> RecallAnswer:
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

    async def _search(self, query: RecallQuery, request: RecallRequest) -> Found:
        if request.all_sessions:
            return await self._store.recall(query, cwd=self._cwd, limit=request.limit)
        return await self._recall(query, request.limit, request.skip)

    async def _recall(self, query: RecallQuery, limit: int, skip: Collection[int] = ()) -> Found:
        try:
            return await self._store.recall(
                query, session_id=self._session_id, limit=limit, skip=skip
            )
        except SessionNotFound:
            # A session without messages leaves no trace in the store.
            return Found()

    async def _latest(self, query: RecallQuery, page: int) -> str:
        named = RecallQuery(file=query.file, role="tool", latest=True)
        found = await self._recall(named, _VERSIONS)
        version = find_latest_version([hit.unit for hit in found.hits], query.file)
        if version is None:
            raise SessionError(f"no call of this session names a file {query.file}")
        return truncate_middle(format_version(version), page)


async def answer_call(
    store: Store, journal: Journal, arguments: dict[str, Any], *, page: int
) -> ToolOutput:
    """Search the session of a journal, or read entries, for the model."""
    if isinstance(other := arguments.get("session"), str) and other.strip():
        return await _answer_digest(store, journal, SessionId(other.strip()), page)
    request = parse_arguments(arguments)
    if request is None:
        return ToolOutput(
            text="Error: give `query` (words), `entry` (a number), `range` or `latest_file`.",
            failed=True,
        )
    recall = _make_recall(store, journal, hints=RECALL_HINTS)
    try:
        answer = await recall.answer(replace(request, skip=_find_own_question(journal), page=page))
    except (SessionError, StoreError) as error:
        return ToolOutput(text=end_sentence(f"Error: {error}"), failed=True)
    return ToolOutput(text=answer.text)


async def _answer_digest(
    store: Store, journal: Journal, session_id: SessionId, page: int
) -> ToolOutput:
    try:
        if (await store.record(session_id)).cwd != journal.record.cwd:
            raise SessionNotFound(f"this project has no session {session_id}")
        text = await write_session_digest(store, session_id, max_chars=page)
    except StoreError as error:
        return ToolOutput(text=end_sentence(f"Error: {error}"), failed=True)
    return ToolOutput(text=text, display=text.partition("\n")[0], data={"session": session_id})


async def write_session_digest(store: Store, session_id: SessionId, *, max_chars: int) -> str:
    """Return a digest of a stored session of at most that many characters.

    Raises:
        StoreError: There is no such session, or it cannot be read.
    """
    record = await store.record(session_id)
    _, entries = await store.load(session_id)
    heading = f"Digest of session {record.id} ({one_line(record.heading, _TITLE)}):"
    body = await to_thread.run_sync(_write_digest, entries, max_chars - len(heading) - 1)
    return f"{heading}\n{body}"


def _write_digest(entries: Sequence[Entry], max_chars: int) -> str:
    # The patterns of a digest take long to compile, and few sessions ask for one of another.
    from clew.context.digest.rule_summary import prepare_digest  # noqa: PLC0415

    view = fold(entries)
    if not view.items:
        return "nothing was said in this session"
    parts = [view.notes] if view.notes else []
    room = max(0, max_chars - sum(map(len, parts)))
    digest = prepare_digest(view.list_conversation()).write_chars(room)
    return "\n\n".join([*parts, digest])[:max_chars]


async def answer_person(
    store: Store, journal: Journal, request: RecallRequest | str
) -> RecallAnswer:
    """Search the session of a journal, or read entries, for a person."""
    asked = RecallRequest(text=request) if isinstance(request, str) else request
    return await _make_recall(store, journal, hints=_COMMAND_HINTS).answer(asked)


def search_journal(journal: Journal, query: str) -> list[Entry]:
    """Return the entries of a journal that match best, without the index of its store."""
    found = search_entries(journal.entries, parse_query(query))
    entries = (journal.entry(hit.unit.entry_id) for hit in found.hits)
    return [entry for entry in entries if entry is not None]


def _make_recall(store: Store, journal: Journal, *, hints: Hints) -> SessionRecall:
    """Return what searches the session of a journal."""
    record = journal.record
    return SessionRecall(
        store,
        record.id,
        cwd=record.cwd,
        read=lambda number: journal.entry(EntryId(number)),
        hints=hints,
    )


def _find_own_question(journal: Journal) -> tuple[int, ...]:
    """Return the current request and the message with this call: both contain the query."""
    found: dict[Role, int] = {}
    for entry in reversed(journal.entries):
        if isinstance(entry.body, MessageAdded):
            found.setdefault(entry.body.message.role, entry.id)
            if entry.body.message.role is Role.USER:
                break
    found.pop(Role.TOOL, None)
    return tuple(found.values())


def parse_arguments(arguments: dict[str, Any]) -> RecallRequest | None:
    """Return what a call of `Recall` asks for; None when that is unclear."""
    match arguments:
        case {"entry": int(number)}:
            text = f"#{number}"
        case {"range": str(text)} if text.strip():
            text = f"#{text.strip()}" if text.strip()[0].isdecimal() else text
        case {"latest_file": str(path)} if path.strip():
            text = f"latest:{path}"
        case {"query": str(text)} if text.strip():
            pass
        case _:
            return None
    return RecallRequest(
        text=text,
        offset=_positive(arguments.get("offset")),
        all_sessions=arguments.get("all_sessions") is True,
    )


def _positive(value: object) -> int:
    return max(0, value) if isinstance(value, int) else 0
