"""What tests of sessions share: a PostgreSQL server, and somebody who talks to a session."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.session.person import Person
from tests.session.postgres import Server, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with server() as running:
        yield running


@pytest.fixture
async def person(tmp_path: Path) -> AsyncIterator[Person]:
    made = Person(tmp_path / "store" / "s.db")
    yield made
    await made.store.aclose()
