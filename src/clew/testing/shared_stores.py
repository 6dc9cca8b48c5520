"""Conformance checks for two stores in the same place: a session has one writer.

@pytest.mark.anyio
@pytest.mark.parametrize("check", SHARED_STORE_CHECKS)
async def test_two_of_my_stores_in_one_place_keep_the_contract(check):
    await check(MyStore(place), MyStore(place))
"""

from collections.abc import Awaitable, Callable

from clew.core.errors import SessionBusy
from clew.stores.protocol import Store
from clew.testing.stores import (
    A,
    B,
    C,
    a_record,
    agent_record,
    an_entry,
    entries_in,
    expect_error,
)

SharedStoreCheck = Callable[[Store, Store], Awaitable[None]]
"""Takes two stores that keep their sessions in the same place."""


async def shares_entries(one: Store, other: Store) -> None:
    """What one store writes, the other sees at once."""
    await one.create(a_record("a"))
    await one.append(A, [an_entry(1, "a thread")])

    assert await other.load(A) == await one.load(A)
    assert [hit.session.id for hit in await other.search("thread")] == [A]

    await other.append(A, [an_entry(2)])

    await expect_error(SessionBusy, one.append(A, [an_entry(2, "mine")]))
    assert await entries_in(one) == [an_entry(1, "a thread"), an_entry(2)]


async def reports_the_lease_holder(one: Store, other: Store) -> None:
    """While one store holds the lease, the other may read and fork, but not write or delete."""
    await one.create(a_record("a"))
    await one.append(A, [an_entry(1)])
    await one.lease(A)

    busy = await expect_error(SessionBusy, other.lease(A))
    await expect_error(SessionBusy, other.append(A, [an_entry(2)]))
    await expect_error(SessionBusy, other.delete(A))

    assert "process" in str(busy)
    assert await entries_in(other) == [an_entry(1)]
    fork = await other.fork(A)
    await other.append(fork.id, [an_entry(2)])
    await other.rename(A, "named by the other")
    await one.append(A, [an_entry(2)])


async def hands_over_a_lease(one: Store, other: Store) -> None:
    """A lease that was released, or whose store was closed, is free for the other store."""
    await one.create(a_record("a"))
    await one.lease(A)
    await one.release(A)
    await other.lease(A)
    await expect_error(SessionBusy, one.append(A, [an_entry(1)]))
    await other.append(A, [an_entry(1)])
    await other.aclose()

    await one.lease(A)
    await one.append(A, [an_entry(2)])

    assert await entries_in(one) == [an_entry(1), an_entry(2)]


async def refuses_a_holder_that_was_taken_for_dead(one: Store, other: Store) -> None:
    """A holder that did not keep its promise is replaced, and cannot write any more."""
    await one.create(a_record("a"))
    await one.lease(A, silent_after=0.0)
    await one.append(A, [an_entry(1)])
    await other.lease(A)
    before = await other.load(A)

    for write in (
        one.append(A, [an_entry(2)]),
        one.save_snapshot(A, b"stale"),
        one.rename(A, "stale"),
        one.annotate(A, {"stale": True}),
        one.delete(A),
    ):
        await expect_error(SessionBusy, write)

    assert await other.load(A) == before
    assert await other.snapshot(A) is None
    await other.append(A, [an_entry(2)])


async def refuses_it_also_after_its_successor_has_finished(one: Store, other: Store) -> None:
    """The successor released the lease, or closed its store: the holder before stays refused."""
    await one.create(a_record("a"))
    await one.lease(A, silent_after=0.0)
    await other.lease(A)
    await other.release(A)
    lost = await expect_error(SessionBusy, one.append(A, [an_entry(1)]))
    assert "taken over" in str(lost)
    await other.aclose()
    await expect_error(SessionBusy, one.append(A, [an_entry(1)]))

    await one.lease(A)
    await one.append(A, [an_entry(1)])

    assert await entries_in(one) == [an_entry(1)]


async def refuses_it_after_a_write_without_a_lease(one: Store, other: Store) -> None:
    """A write of another store ends the lease of a dead holder."""
    await one.create(a_record("a"))
    await one.lease(A, silent_after=0.0)
    await other.append(A, [an_entry(1)])

    await expect_error(SessionBusy, one.append(A, [an_entry(2)]))

    assert await entries_in(one) == [an_entry(1)]


async def keeps_the_promise_of_a_lease(one: Store, other: Store) -> None:
    """Taking a lease again does not change when its holder counts as dead, unless it says so."""
    await one.create(a_record("a"))
    await one.lease(A, silent_after=600.0)
    await one.lease(A)
    await expect_error(SessionBusy, other.lease(A))
    await one.lease(A, silent_after=0.0)
    await one.append(A, [an_entry(1)])

    await other.lease(A)

    await expect_error(SessionBusy, one.append(A, [an_entry(2)]))


async def deletes_no_agent_that_another_store_writes(one: Store, other: Store) -> None:
    """A session whose agent is in use elsewhere stays, with all of its agents."""
    await one.create(a_record("a"))
    for agent in (B, C):
        await one.create(agent_record(agent, parent=A))
    await other.lease(C)

    await expect_error(SessionBusy, one.delete(A))

    assert {record.id for record in await one.sessions()} == {A, B, C}


SHARED_STORE_CHECKS: tuple[SharedStoreCheck, ...] = (
    shares_entries,
    reports_the_lease_holder,
    hands_over_a_lease,
    refuses_a_holder_that_was_taken_for_dead,
    refuses_it_also_after_its_successor_has_finished,
    refuses_it_after_a_write_without_a_lease,
    keeps_the_promise_of_a_lease,
    deletes_no_agent_that_another_store_writes,
)
