"""Searching with a SearXNG instance (https://docs.searxng.org/dev/search_api.html)."""

from collections.abc import Sequence

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.tools.web.asking import SECONDS, Service, ask
from clew.tools.web.search import Found, Query, SearchFailed, plain


class _Result(Struct, frozen=True):
    url: str = ""
    title: str = ""
    content: str | None = None


class _Answer(Struct, frozen=True):
    results: list[_Result]


class SearXNG:
    """Asks one instance, which must have `json` among its `search.formats`.

    Raises:
        ConfigError: The address is not one.
    """

    def __init__(self, base_url: str, *, proxy: str = "", seconds: float = SECONDS) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ConfigError(f"The SearXNG address {base_url!r} must begin with http or https.")
        url = f"{base_url.rstrip('/')}/search"
        self._service = Service(url=url, proxy=proxy, seconds=seconds)

    async def search(self, query: Query) -> Sequence[Found]:
        """Return the first page of results."""
        try:
            parameters = {"q": query.with_domains, "format": "json"}
            answer = await ask(self._service, parameters, shape=_Answer)
        except SearchFailed as error:
            raise SearchFailed(
                f"SearXNG at {self._service.url} failed: {error}."
                " It must be running, and its settings must have `json` among `search.formats`."
            ) from error
        return [
            Found(title=plain(each.title), url=each.url, snippet=plain(each.content or ""))
            for each in answer.results
        ]
