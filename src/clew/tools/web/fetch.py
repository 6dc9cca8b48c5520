"""Fetches a URL with limits on time, size and redirects, and without access to private networks.

The resolver refuses private addresses at the time of connecting: a name that resolved to a public
address before may resolve to another one a moment later.
"""

import ipaddress
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import anyio
from aiohttp.abc import AbstractResolver, ResolveResult

from clew._version import __version__
from clew.core.text import end_sentence
from clew.tools.web.protocol import FetchLimits, Lookup, WebResponse
from clew.tools.web.urls import (
    UrlRefused,
    WebUrl,
    check_url,
    is_public,
    is_same_site,
    parse_url,
    resolve_redirect,
)

MAX_REDIRECTS: Final = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "User-Agent": f"clew/{__version__}",
    "Accept": "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.5",
    "Accept-Language": "en, *;q=0.5",
}


class SiteUnreachable(Exception):
    """The server did not answer; the text tells the model why."""


async def fetch(url: str, limits: FetchLimits) -> WebResponse:
    """Fetch `url`, following redirects on the same host.

    Cookies are neither sent nor kept, and every redirect is checked like the first URL. A
    redirect that is not followed is returned with its `location`.

    Raises:
        UrlRefused: The URL, or one that it redirects to, may not be fetched.
        SiteUnreachable: The server did not answer, or took too long.
    """
    address = parse_url(url)
    try:
        with anyio.fail_after(limits.total_seconds):
            async with _client(limits) as client:
                return await _follow(client, address, limits)
    except (aiohttp.ClientError, OSError) as error:
        raise SiteUnreachable(
            end_sentence(f"{address.origin} cannot be reached: {_explain_error(error, limits)}")
        ) from error


@asynccontextmanager
async def _client(limits: FetchLimits) -> AsyncIterator[aiohttp.ClientSession]:
    # With a proxy, the only name that is resolved here is the proxy's own.
    resolver = GuardedResolver(
        allow_private=limits.allow_private or bool(limits.proxy), lookup=limits.lookup
    )
    connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True)
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=_HEADERS,
        timeout=aiohttp.ClientTimeout(
            total=None, connect=limits.connect_seconds, sock_connect=limits.connect_seconds
        ),
        trust_env=False,
    ) as client:
        yield client


async def _follow(
    client: aiohttp.ClientSession, address: WebUrl, limits: FetchLimits
) -> WebResponse:
    for _ in range(MAX_REDIRECTS + 1):
        reply = await _get(client, address, limits)
        if reply.status not in _REDIRECTS or not reply.location:
            return reply
        target = resolve_redirect(address, reply.location)
        check_url(target, allow_private=limits.allow_private)
        if not limits.any_host and not is_same_site(address, target):
            return WebResponse(
                url=reply.url,
                status=reply.status,
                media_type=reply.media_type,
                location=str(target),
            )
        address = target
    raise SiteUnreachable(f"{address.origin} redirects more than {MAX_REDIRECTS} times.")


async def _get(client: aiohttp.ClientSession, address: WebUrl, limits: FetchLimits) -> WebResponse:
    check_url(address, allow_private=limits.allow_private)
    async with client.get(
        str(address), allow_redirects=False, proxy=limits.proxy or None
    ) as response:
        location = response.headers.get("Location", "")
        is_redirect = response.status in _REDIRECTS and bool(location)
        body = b"" if is_redirect else await _read(response, limits.max_bytes)
        return WebResponse(
            url=str(address),
            status=response.status,
            media_type=response.content_type,
            charset=response.charset or "",
            body=body[: limits.max_bytes],
            is_cut=len(body) > limits.max_bytes,
            location=location if is_redirect else "",
        )


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    body = bytearray()
    while len(body) <= most and (chunk := await response.content.readany()):
        body += chunk
    return bytes(body)


def _explain_error(error: Exception, limits: FetchLimits) -> str:
    match error:
        case aiohttp.ServerTimeoutError():
            return f"it did not answer within {limits.connect_seconds:g} s"
        case TimeoutError():
            return f"the response was not complete after {limits.total_seconds:g} s"
        case aiohttp.ClientConnectorError():
            return error.os_error.strerror or str(error.os_error) or str(error)
        case _:
            return str(error) or type(error).__name__


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Resolve a name with the system's resolver."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[4][0]) for address in found]


class GuardedResolver(AbstractResolver):
    """Resolves names to public addresses only, unless private ones are allowed."""

    def __init__(self, *, allow_private: bool = False, lookup: Lookup | None = None) -> None:
        self._allow_private = allow_private
        self._lookup = lookup or resolve_host

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - all are wanted
    ) -> list[ResolveResult]:
        """Return the addresses of a name.

        Raises:
            UrlRefused: One of the addresses is not on the public internet.
            OSError: The name has no addresses.
        """
        found = [ipaddress.ip_address(text) for text in await self._lookup(host, port)]
        for ip in found:
            if not self._allow_private and not is_public(ip):
                raise UrlRefused(f"{host} resolves to {ip}, which is not on the public internet.")
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
        """Close nothing: the resolver holds no resources."""
