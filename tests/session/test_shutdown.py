"""A session that was shut down stays shut down."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from clew.core.errors import SessionClosed
from clew.core.ids import SessionId
from clew.core.permissions import PermissionMode
from clew.providers.scripted import ScriptedProvider
from clew.session.session import Session
from clew.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

USES: dict[str, Callable[[Session], Awaitable[object]]] = {
    "open": lambda session: session.open(),
    "run": lambda session: session.run("more"),
    "continue_run": lambda session: session.continue_run(),
    "compact": lambda session: session.compact(),
    "set_model": lambda session: session.set_model("n"),
    "inject_message": lambda session: session.inject_message("user", "more"),
    "pin": lambda session: session.pin(2),
    "add_history_entry": lambda session: session.add_history_entry("topic", "text"),
    "set_permission_mode": lambda session: session.set_permission_mode(PermissionMode.PLAN),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("was_open", [True, False])
async def test_it_refuses_every_use_that_writes(
    use: Callable[[Session], Awaitable[object]], *, was_open: bool
) -> None:
    provider = ScriptedProvider(["hi", "never"])
    session = Session(provider, model="m")
    if was_open:
        await session.run("hello")
    await session.shutdown()
    entries = len(session.journal.entries)

    with pytest.raises(SessionClosed, match="was shut down; open another one"):
        await use(session)

    assert len(session.journal.entries) == entries
    assert len(provider.requests) == int(was_open)


async def test_it_can_still_be_read_and_another_one_continues_it() -> None:
    store = MemoryStore()
    session = Session(ScriptedProvider(["hi"]), model="m", store=store)
    await session.run("hello")
    await session.shutdown()
    await session.shutdown()

    async with Session(
        ScriptedProvider(["hi again"]), model="m", store=store, session_id=session.session_id
    ) as other:
        await other.run("more")
        told = [message.text for message in other.get_history()]

    assert [message.text for message in session.get_history()] == ["hello", "hi"]
    assert told == ["hello", "hi", "more", "hi again"]


class SlowStore(MemoryStore):
    """Waits when a session is reopened, and counts leases."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go_on = anyio.Event(), anyio.Event()
        self.leases = 0

    async def lease(self, session_id: SessionId, *, silent_after: float | None = None) -> None:
        self.leases += 1
        self.reached.set()
        await self.go_on.wait()

    async def release(self, session_id: SessionId) -> None:
        self.leases -= 1


async def test_a_shutdown_while_it_opens_releases_the_session() -> None:
    store = SlowStore()
    store.go_on.set()
    async with Session(ScriptedProvider(["hi"]), model="m", store=store) as first:
        await first.run("hello")
    store.reached, store.go_on = anyio.Event(), anyio.Event()
    session = Session(
        ScriptedProvider(["never"]), model="m", store=store, session_id=first.session_id
    )
    errors: list[Exception] = []

    async def open_session() -> None:
        try:
            await session.open()
        except SessionClosed as error:
            errors.append(error)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(open_session)
            await store.reached.wait()
            await session.shutdown()
            store.go_on.set()

    assert len(errors) == 1
    assert store.leases == 0
