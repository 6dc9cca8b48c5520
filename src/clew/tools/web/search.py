"""Search backends for WebSearch: SearXNG and Brave Search.

APIs: https://docs.searxng.org/dev/search_api.html, https://api-dashboard.search.brave.com
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import aiohttp
import anyio
import msgspec
from msgspec import Struct

from clew._version import __version__
from clew.core.errors import ConfigError
from clew.core.json_text import decode_json
from clew.core.text import end_sentence
from clew.tools.web.protocol import SearchFailed, SearchQuery, WebSearchResult, strip_html

SEARCH_TIMEOUT: Final = 20.0
MAX_ANSWER_BYTES: Final = 5_000_000
_SEARCH_HEADERS = {"User-Agent": f"clew/{__version__}", "Accept": "application/json"}

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchService:
    """The endpoint of a search service that answers in JSON."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    proxy: str = field(default="", repr=False)
    """The URL of an HTTP proxy; proxies from the environment are not used."""
    seconds: float = SEARCH_TIMEOUT
    """The timeout."""


async def request_json(
    service: SearchService, parameters: Mapping[str, str], *, shape: type[_T]
) -> _T:
    """Get JSON of the given type.

    Raises:
        SearchFailed: The request failed, or the answer has another shape. The message has the
            status, never the key.
    """
    try:
        with anyio.fail_after(service.seconds):
            async with (
                aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client,
                client.get(
                    service.url,
                    params=parameters,
                    headers={**_SEARCH_HEADERS, **service.headers},
                    proxy=service.proxy or None,
                    allow_redirects=False,
                ) as response,
            ):
                if response.status != 200:
                    raise SearchFailed(f"it answered with status {response.status}")
                return decode_json(await _read(response), type=shape)
    except TimeoutError as error:
        raise SearchFailed(f"it did not answer within {service.seconds:g} s") from error
    except msgspec.DecodeError as error:
        raise SearchFailed("its answer has no search results") from error
    except (aiohttp.ClientError, OSError) as error:
        raise SearchFailed("it cannot be reached") from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise SearchFailed("its answer is too long")
    return bytes(body)


class _SearXNGResult(Struct, frozen=True):
    url: str = ""
    title: str = ""
    content: str | None = None


class _SearXNGAnswer(Struct, frozen=True):
    results: list[_SearXNGResult]


class SearXNG:
    """A SearXNG instance, which must have `json` among its `search.formats`.

    Raises:
        ConfigError: The URL is not an http or https one.
    """

    def __init__(self, base_url: str, *, proxy: str = "", seconds: float = SEARCH_TIMEOUT) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ConfigError(f"The SearXNG URL {base_url!r} must start with http:// or https://.")
        url = f"{base_url.rstrip('/')}/search"
        self._service = SearchService(url=url, proxy=proxy, seconds=seconds)

    async def search(self, query: SearchQuery) -> Sequence[WebSearchResult]:
        """Return the first page of results."""
        try:
            parameters = {"q": query.with_domains, "format": "json"}
            answer = await request_json(self._service, parameters, shape=_SearXNGAnswer)
        except SearchFailed as error:
            raise SearchFailed(
                end_sentence(f"SearXNG at {self._service.url} failed: {error}")
                + " It must be running, and its settings must have `json` among `search.formats`."
            ) from error
        return [
            WebSearchResult(
                title=strip_html(each.title), url=each.url, snippet=strip_html(each.content or "")
            )
            for each in answer.results
        ]


BASE_URL: Final = "https://api.search.brave.com"
MAX_COUNT: Final = 20
MAX_QUERY: Final = 400


class _BraveResult(Struct, frozen=True):
    url: str = ""
    title: str = ""
    description: str = ""


class _BraveWeb(Struct, frozen=True):
    results: list[_BraveResult] = []


class _BraveAnswer(Struct, frozen=True):
    web: _BraveWeb = _BraveWeb()


class Brave:
    """The Brave Search API. The subscription token is sent in one header and nowhere else.

    Raises:
        ConfigError: The token is empty, or has characters that a token cannot have.
    """

    def __init__(
        self,
        token: str,
        *,
        base_url: str = BASE_URL,
        proxy: str = "",
        seconds: float = SEARCH_TIMEOUT,
    ) -> None:
        key = token.strip()
        if not (key and key.isascii() and key.isprintable()):
            raise ConfigError(
                "The Brave Search token is empty, or has characters that a token cannot have."
            )
        self._service = SearchService(
            url=f"{base_url.rstrip('/')}/res/v1/web/search",
            headers={"X-Subscription-Token": key},
            proxy=proxy,
            seconds=seconds,
        )

    def __repr__(self) -> str:
        return f"Brave({self._service.url!r})"

    async def search(self, query: SearchQuery) -> Sequence[WebSearchResult]:
        """Return up to twenty results."""
        parameters = {
            "q": query.with_domains[:MAX_QUERY],
            "count": str(min(query.limit, MAX_COUNT)),
            "text_decorations": "false",
        }
        try:
            answer = await request_json(self._service, parameters, shape=_BraveAnswer)
        except SearchFailed as error:
            raise SearchFailed(
                f"Brave Search failed: {error}. Status 401 or 422 means a wrong token, 429 too many"
                " searches."
            ) from error
        return [
            WebSearchResult(
                title=strip_html(each.title), url=each.url, snippet=strip_html(each.description)
            )
            for each in answer.web.results
        ]
