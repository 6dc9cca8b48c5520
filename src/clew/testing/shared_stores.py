"""What stores that share a place must do, so that a session has one writer."""

from collections.abc import Awaitable, Callable

from clew.core.errors import SessionBusy, SessionNotFound
from clew.stores.protocol import Store
from clew.testing.store_samples import A, a_record, an_entry, entries_in, fails_with

SharedCheck = Callable[[Store, Store], Awaitable[None]]
"""Takes two stores that keep their sessions in the same place."""


async def leases_to_itself(store: Store) -> None:
    """A store that holds a lease may take it again, write, and give it back more than once."""
    await store.create(a_record("a"))
    await store.lease(A)
    await store.lease(A)
    await store.append(A, [an_entry(1)])
    await store.release(A)
    await store.release(A)

    await store.append(A, [an_entry(2)])
    await store.lease(A)
    await store.delete(A)

    await fails_with(SessionNotFound, store.lease(A))


async def shares_what_is_written(one: Store, other: Store) -> None:
    """What one store has written is there for the other at once."""
    await one.create(a_record("a"))
    await one.append(A, [an_entry(1, "a thread")])

    assert await other.load(A) == await one.load(A)
    assert [hit.session.id for hit in await other.search("thread")] == [A]

    await other.append(A, [an_entry(2)])

    await fails_with(SessionBusy, one.append(A, [an_entry(2, "mine")]))
    assert await entries_in(one) == [an_entry(1, "a thread"), an_entry(2)]


async def tells_who_holds_a_lease(one: Store, other: Store) -> None:
    """While one store holds the lease, the other may read and fork, but not write or delete."""
    await one.create(a_record("a"))
    await one.append(A, [an_entry(1)])
    await one.lease(A)

    busy = await fails_with(SessionBusy, other.lease(A))
    await fails_with(SessionBusy, other.append(A, [an_entry(2)]))
    await fails_with(SessionBusy, other.delete(A))

    assert "process" in str(busy)
    assert await entries_in(other) == [an_entry(1)]
    fork = await other.fork(A)
    await other.append(fork.id, [an_entry(2)])
    await other.rename(A, "named by the other")
    await one.append(A, [an_entry(2)])


async def passes_a_lease_on(one: Store, other: Store) -> None:
    """A lease that was given back, or whose store was closed, is free for the other."""
    await one.create(a_record("a"))
    await one.lease(A)
    await one.release(A)
    await other.lease(A)
    await fails_with(SessionBusy, one.append(A, [an_entry(1)]))
    await other.append(A, [an_entry(1)])
    await other.aclose()

    await one.lease(A)
    await one.append(A, [an_entry(2)])

    assert await entries_in(one) == [an_entry(1), an_entry(2)]


SHARED_STORE_CHECKS: tuple[SharedCheck, ...] = (
    shares_what_is_written,
    tells_who_holds_a_lease,
    passes_a_lease_on,
)
