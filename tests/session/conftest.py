"""Fixtures for tests of sessions."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.session.person import Person


@pytest.fixture
async def person(tmp_path: Path) -> AsyncIterator[Person]:
    made = Person(tmp_path / "store" / "s.db")
    yield made
    await made.store.aclose()
