"""What every test shares: one event-loop backend, and no network but loopback."""

import ipaddress
import sys
from typing import Any

import pytest


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


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
