"""What every test shares: one event-loop backend, and no network but loopback."""

import ipaddress
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings


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
