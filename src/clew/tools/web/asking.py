"""Asking a search service that answers in JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import aiohttp
import anyio
import msgspec

from clew._version import __version__
from clew.tools.web.search import SearchFailed

SECONDS: Final = 20.0
MAX_BYTES: Final = 5_000_000
_HEADERS = {"User-Agent": f"clew/{__version__}", "Accept": "application/json"}

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How a service is reached."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    proxy: str = field(default="", repr=False)
    """An HTTP proxy to go through; those of the environment are not used."""
    seconds: float = SECONDS
    """How long an answer may take."""


async def ask(service: Service, parameters: Mapping[str, str], *, shape: type[_T]) -> _T:
    """Get JSON of a known shape.

    Raises:
        SearchFailed: There was no answer, or not this one. It tells the status, never the key.
    """
    try:
        with anyio.fail_after(service.seconds):
            async with (
                aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client,
                client.get(
                    service.url,
                    params=parameters,
                    headers={**_HEADERS, **service.headers},
                    proxy=service.proxy or None,
                    allow_redirects=False,
                ) as response,
            ):
                if response.status != 200:
                    raise SearchFailed(f"it answered with status {response.status}")
                return msgspec.json.decode(await _read(response), type=shape)
    except TimeoutError as error:
        raise SearchFailed(f"it did not answer within {service.seconds:g} s") from error
    except msgspec.DecodeError as error:
        raise SearchFailed("it did not answer with search results") from error
    except (aiohttp.ClientError, OSError) as error:
        raise SearchFailed("it cannot be reached") from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if len(body) > MAX_BYTES:
            raise SearchFailed("its answer is too long")
    return bytes(body)
