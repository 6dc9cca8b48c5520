"""Fixtures for all tests: one event-loop backend, no network but loopback, and PostgreSQL."""

import ipaddress
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.stores.postgres import Server, server


def _refuse_far_addresses(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "socket.connect":
        return
    address = arguments[1]
    if not isinstance(address, tuple):
        return
    try:
        near = ipaddress.ip_address(address[0]).is_loopback
    except ValueError:
        near = address[0] == "localhost"
    if not near:
        raise RuntimeError(f"a test tried to reach {address[0]}; only loopback is allowed")


sys.addaudithook(_refuse_far_addresses)


# The same examples on every machine, however slow it is: a failure here is a failure anywhere.
settings.register_profile(
    "clew", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("clew")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Run one PostgreSQL server for all tests that need it."""
    with server() as running:
        yield running
