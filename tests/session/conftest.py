"""What tests of sessions share: a PostgreSQL server, started when one is first needed."""

from collections.abc import Iterator

import pytest

from tests.session.postgres import Server, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with server() as running:
        yield running
