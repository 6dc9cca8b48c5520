"""The index for word search in an SQL database: kept up to date in batches, and searched.

The index follows the entries in batches, because updating it at every commit would write three
times as much. A search first indexes what is still missing, so it never misses an entry.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from clew.context.recall.documents import LOOK_BACK, make_documents
from clew.context.recall.query import RecallQuery
from clew.context.recall.search import Found, IndexQuery, Place, search_index
from clew.core.entries import Entry
from clew.core.ids import SessionId
from clew.stores.sql import Scope, SqlConnection, SqlDialect, SqlStatements
from clew.stores.stored_entries import StoredEntries, session_not_found

INDEX_BATCH = 64
"""How many entries of a session may be missing in the index between searches."""
_MOST = 512
"""How many entries one transaction indexes at most."""
_BEHIND = """
SELECT number, indexed FROM {sessions}
WHERE indexed < last AND (CAST(:id AS text) IS NULL OR id = :id) LIMIT 1
"""
_LOCK_NUMBER = "SELECT indexed, last FROM {sessions} WHERE number = :number{for_update}"
_INDEXED = "UPDATE {sessions} SET indexed = :reached WHERE number = :number"
_RANGE = """
SELECT {entry_id}, line FROM {entries} WHERE {entry_range} ORDER BY {entry_key} LIMIT :most
"""
_SIZE = """
SELECT coalesce(sum(entries), 0) FROM {sessions}
WHERE (CAST(:number AS bigint) IS NULL OR number = :number)
    AND (CAST(:cwd AS text) IS NULL OR cwd = :cwd)
"""
_NUMBER = "SELECT number FROM {sessions} WHERE id = :id"
_ID = "SELECT id FROM {sessions} WHERE number = :number"


class SqlIndexRows:
    """Fills and searches the index. Each method runs inside one transaction of its caller."""

    def __init__(self, dialect: SqlDialect, sql: SqlStatements) -> None:
        self._dialect, self._sql = dialect, sql

    def is_behind(self, connection: SqlConnection, session_id: SessionId | None) -> bool:
        """Return whether the index misses entries of a session; of any session for None."""
        return self._sql.run(connection, _BEHIND, id=session_id).fetchone() is not None

    def index_next(self, connection: SqlConnection, session_id: SessionId | None) -> None:
        """Index the next entries that the index misses."""
        behind = self._sql.run(connection, _BEHIND, id=session_id).fetchone()
        if behind is None:
            return
        number = int(behind[0])
        # Another process may have indexed them while this one waited for the lock.
        indexed, last = self._sql.run(connection, _LOCK_NUMBER, number=number).fetchone()
        fresh = self._rows(connection, number, first=indexed + 1, last=last)
        reached = fresh[-1][0] if len(fresh) == _MOST else last
        if fresh:
            before = self._rows(
                connection, number, first=max(1, indexed + 1 - LOOK_BACK), last=indexed
            )
            entries = StoredEntries(SessionId("?"), [*before, *fresh])
            documents = make_documents(entries, after=indexed)
            self._dialect.add_documents(connection, number, documents)
        self._sql.run(connection, _INDEXED, reached=reached, number=number)

    def rebuild(self, connection: SqlConnection) -> None:
        """Make an empty index; `index_next` fills it."""
        self._dialect.rebuild_index(connection)

    def is_sound(self, connection: SqlConnection) -> bool:
        """Does the index contain what it should, as far as a quick look can tell?"""
        return self._dialect.is_index_sound(connection)

    def recall(
        self,
        connection: SqlConnection,
        query: RecallQuery,
        *,
        session_id: SessionId | None,
        cwd: str | None,
        limit: int,
        skip: Iterable[int],
    ) -> Found:
        """Search entries; see `Store.recall`."""
        number = None
        if session_id is not None:
            row = self._sql.run(connection, _NUMBER, id=session_id).fetchone()
            if row is None:
                raise session_not_found(session_id)
            number = int(row[0])
        index = _SqlIndex(self, connection, Scope(number=number, cwd=cwd))
        found = search_index(index, query, limit=limit, skip=skip)
        named = tuple(
            replace(hit, session_id=self._session_id(connection, hit.session)) for hit in found.hits
        )
        return replace(found, hits=named)

    def _session_id(self, connection: SqlConnection, number: int) -> SessionId:
        return SessionId(self._sql.run(connection, _ID, number=number).fetchone()[0])

    def _rows(
        self, connection: SqlConnection, number: int, *, first: int, last: int
    ) -> list[tuple[int, bytes]]:
        return self._sql.run(
            connection, _RANGE, number=number, first=first, last=last, most=_MOST
        ).fetchall()

    def read_entry(self, connection: SqlConnection, session: int, entry_id: int) -> Entry | None:
        """Return one entry of a session."""
        rows = self._rows(connection, session, first=entry_id, last=entry_id)
        return StoredEntries(SessionId("?"), rows)[0] if rows else None

    def size(self, connection: SqlConnection, scope: Scope) -> int:
        """Count the entries of sessions."""
        row = self._sql.run(connection, _SIZE, number=scope.number, cwd=scope.cwd).fetchone()
        return int(row[0])

    def count(self, connection: SqlConnection, scope: Scope, words: Sequence[str]) -> int:
        """Count indexed entries."""
        return self._dialect.count_entries(connection, scope, words)

    def find(
        self, connection: SqlConnection, scope: Scope, query: IndexQuery, limit: int
    ) -> list[Place]:
        """Find indexed entries."""
        return self._dialect.find_entries(connection, scope, query, limit=limit)

    def frequencies(
        self, connection: SqlConnection, places: Sequence[Place], words: Sequence[str]
    ) -> list[list[int]]:
        """Count words in the index of entries."""
        texts = self._dialect.read_words(connection, places)
        counters = [self._dialect.make_counter(word) for word in words]
        return [[count(texts[place]) for count in counters] for place in places]


class _SqlIndex:
    """The index of one database during one search; see `EntryIndex`."""

    def __init__(self, rows: SqlIndexRows, connection: SqlConnection, scope: Scope) -> None:
        self._rows, self._connection, self._scope = rows, connection, scope
        self._read: dict[Place, Entry | None] = {}

    def size(self) -> int:
        """Return the number of entries."""
        return self._rows.size(self._connection, self._scope)

    def count(self, words: Sequence[str]) -> int:
        """Return how many entries contain all of these words."""
        return self._rows.count(self._connection, self._scope, words)

    def find(self, query: IndexQuery, limit: int) -> Sequence[Place]:
        """Return the entries that match best."""
        return self._rows.find(self._connection, self._scope, query, limit)

    def frequencies(self, places: Sequence[Place], words: Sequence[str]) -> Sequence[Sequence[int]]:
        """Return how often each entry contains each of these words."""
        return self._rows.frequencies(self._connection, places, words)

    def read(self, session: int, entry_id: int) -> Entry | None:
        """Return an entry."""
        place = (session, entry_id)
        if place not in self._read:
            self._read[place] = self._rows.read_entry(self._connection, session, entry_id)
        return self._read[place]
