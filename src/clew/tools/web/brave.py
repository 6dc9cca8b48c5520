"""Searching with the Brave Search API (https://api-dashboard.search.brave.com)."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.tools.web.asking import SECONDS, Service, ask
from clew.tools.web.search import Found, Query, SearchFailed, plain

BASE_URL: Final = "https://api.search.brave.com"
MAX_COUNT: Final = 20
MAX_QUERY: Final = 400


class _Result(Struct, frozen=True):
    url: str = ""
    title: str = ""
    description: str = ""


class _Web(Struct, frozen=True):
    results: list[_Result] = []


class _Answer(Struct, frozen=True):
    web: _Web = _Web()


class Brave:
    """Asks with a subscription token, which goes into one header and nowhere else.

    Raises:
        ConfigError: The token cannot be one.
    """

    def __init__(
        self, token: str, *, base_url: str = BASE_URL, proxy: str = "", seconds: float = SECONDS
    ) -> None:
        key = token.strip()
        if not (key and key.isascii() and key.isprintable()):
            raise ConfigError("The Brave Search token is empty, or has characters that none has.")
        self._service = Service(
            url=f"{base_url.rstrip('/')}/res/v1/web/search",
            headers={"X-Subscription-Token": key},
            proxy=proxy,
            seconds=seconds,
        )

    def __repr__(self) -> str:
        return f"Brave({self._service.url!r})"

    async def search(self, query: Query) -> Sequence[Found]:
        """Return up to twenty results."""
        parameters = {
            "q": query.with_domains[:MAX_QUERY],
            "count": str(min(query.limit, MAX_COUNT)),
            "text_decorations": "false",
        }
        try:
            answer = await ask(self._service, parameters, shape=_Answer)
        except SearchFailed as error:
            raise SearchFailed(
                f"Brave Search failed: {error}. Status 401 or 422 means a wrong token, 429 too many"
                " searches."
            ) from error
        return [
            Found(title=plain(each.title), url=each.url, snippet=plain(each.description))
            for each in answer.web.results
        ]
