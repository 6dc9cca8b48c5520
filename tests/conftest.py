"""Fixtures for all tests: one event-loop backend, only loopback, PostgreSQL, slow tests."""

import ipaddress
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
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

SLOW: Mapping[str, str] = MappingProxyType(
    {
        "cli/test_demo": "runs the embedded model",
        "cli/test_first_start": "starts clew in a terminal",
        "cli/test_leaving": "starts clew",
        "cli/test_log": "starts clew",
        "cli/test_print_commands": "starts clew",
        "cli/test_print_mode": "starts clew",
        "cli/test_sessions": "starts clew",
        "cli/test_streams": "starts clew",
        "cli/test_terminal_sessions": "starts clew in a terminal",
        "test_against_bash": "runs bash for every line",
        "checkpoints/test_crash": "kills processes",
        "test_crashes": "kills processes",
        "test_embedded": "runs the embedded model",
        "test_examples": "starts processes",
        "test_import_is_light": "starts processes",
        "test_on_llama_cpp": "runs the embedded model",
        "test_on_the_embedded_model": "runs the embedded model",
        "test_real_hooks": "starts processes",
        "test_real_sessions": "reads real sessions with clew",
        "test_sandbox": "starts processes",
    }
)
"""Test files that `make test-fast` leaves out, by name, and why. Single tests carry the marker
`slow` themselves; tests on PostgreSQL are recognised by their name or parameter."""

SHARED_SERVER = frozenset({"test_on_llama_cpp", "test_recordings"})
"""Test files whose tests share a fixture that takes seconds to set up."""


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker and xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests, and keep tests that share an expensive server on one worker."""
    for item in items:
        on_postgres = "postgres" in item.nodeid
        reason = "runs on PostgreSQL" if on_postgres else _why_slow(item.path)
        if reason is not None:
            item.add_marker(pytest.mark.slow(reason))
        if on_postgres:
            item.add_marker(pytest.mark.xdist_group("postgres"))
        elif item.path.stem in SHARED_SERVER:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def _why_slow(path: Path) -> str | None:
    return SLOW.get(path.stem) or SLOW.get(f"{path.parent.name}/{path.stem}")


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
