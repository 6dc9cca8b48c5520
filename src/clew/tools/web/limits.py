"""How far a fetch may go."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

MAX_BYTES: Final = 5_000_000
TOTAL_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 10.0

Lookup: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Takes a name and a port and returns IP addresses; raises `OSError` when there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """By default a fetch reaches the public internet, and no host but the one it was sent to."""

    allow_private: bool = False
    """Also fetch from this machine and from private networks."""
    any_host: bool = False
    """Follow redirects to other hosts too, although the user allowed only the first one."""
    proxy: str = field(default="", repr=False)
    """An HTTP proxy to go through. It looks up the names, so that only addresses written as
    numbers can be checked here. The proxies of the environment are not used."""
    max_bytes: int = MAX_BYTES
    total_seconds: float = TOTAL_SECONDS
    connect_seconds: float = CONNECT_SECONDS
    lookup: Lookup | None = field(default=None, repr=False)
    """How names become addresses; None asks the system."""


PUBLIC: Final = Limits()
