"""Name resolution that refuses private addresses at the moment of connecting.

A name that was looked up before and found harmless may point elsewhere a moment later. Here the
addresses that are checked are the very ones that the connection is made to.
"""

import ipaddress
import socket
from collections.abc import Sequence

import anyio
from aiohttp.abc import AbstractResolver, ResolveResult

from clew.tools.web.addresses import Refused, is_public
from clew.tools.web.limits import Lookup


async def look_up(host: str, port: int) -> Sequence[str]:
    """Ask the system for the addresses of a name."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[4][0]) for address in found]


class GuardedResolver(AbstractResolver):
    """Resolves names to public addresses only, unless private ones are allowed."""

    def __init__(self, *, allow_private: bool = False, lookup: Lookup | None = None) -> None:
        self._allow_private = allow_private
        self._lookup = lookup or look_up

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - all are wanted
    ) -> list[ResolveResult]:
        """Return the addresses of a name.

        Raises:
            Refused: One of them is not on the public internet.
            OSError: There are none.
        """
        found = [ipaddress.ip_address(text) for text in await self._lookup(host, port)]
        for ip in found:
            if not self._allow_private and not is_public(ip):
                raise Refused(f"{host} leads to {ip}, which is not on the public internet.")
        if not found:
            raise OSError(None, f"{host} has no address")
        return [
            ResolveResult(
                hostname=host,
                host=str(ip),
                port=port,
                family=socket.AF_INET if ip.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for ip in found
        ]

    async def close(self) -> None:
        """Nothing is held open."""
