"""What every task store must do, shown on all of them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from clew.stores import open_store
from clew.stores.memory import MemoryStore
from clew.stores.protocol import Store
from clew.testing.shared_tasks import SHARED_TASK_CHECKS, SharedTaskCheck, task_store_of
from clew.testing.tasks import TASK_STORE_CHECKS, TaskStoreCheck

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store that processes share is kept."""
    if request.param == "sqlite":
        return str(tmp_path / "s.db")
    url: str = request.getfixturevalue("postgres").fresh()
    return url


@pytest.fixture
async def stores(place: str) -> AsyncIterator[tuple[Store, Store]]:
    """Two stores in one place."""
    async with AsyncExitStack() as stack:
        one, other = open_store(place), open_store(place)
        stack.push_async_callback(one.aclose)
        stack.push_async_callback(other.aclose)
        yield one, other


@pytest.mark.req("DST-2")
@pytest.mark.parametrize("check", TASK_STORE_CHECKS, ids=lambda check: check.__name__)
async def test_a_task_store_in_memory_keeps_the_contract(check: TaskStoreCheck) -> None:
    await check(MemoryStore().tasks)


@pytest.mark.req("DST-2")
@pytest.mark.parametrize("check", TASK_STORE_CHECKS, ids=lambda check: check.__name__)
async def test_the_task_store_keeps_the_contract(
    stores: tuple[Store, Store], check: TaskStoreCheck
) -> None:
    await check(task_store_of(stores[0]))


@pytest.mark.req("DST-2", "STO-1")
@pytest.mark.parametrize("check", SHARED_TASK_CHECKS, ids=lambda check: check.__name__)
async def test_two_task_stores_in_one_place_keep_the_contract(
    stores: tuple[Store, Store], check: SharedTaskCheck
) -> None:
    await check(*stores)
