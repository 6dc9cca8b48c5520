"""Which session is meant by an id, a name, or words that were said in it."""

from clew.core.errors import SessionNotFound
from clew.core.ids import SessionId
from clew.stores.protocol import Store
from clew.stores.record import StoredSession

_LEAST_PREFIX = 4
_MOST = 20


async def matching(store: Store, wanted: str) -> list[StoredSession]:
    """Return the sessions that `wanted` may mean, the one used last first.

    An id comes before a name, a name before the beginning of an id, and that before words.
    """
    try:
        return [await store.record(SessionId(wanted))]
    except SessionNotFound:
        known = await store.sessions()
    named = [record for record in known if record.name == wanted]
    if named:
        return named
    if len(wanted) >= _LEAST_PREFIX:
        begun = [record for record in known if record.id.startswith(wanted)]
        if begun:
            return begun
    return [hit.session for hit in await store.search(wanted, limit=_MOST)]
