"""Choosing who searches, from the environment."""

from collections.abc import Mapping
from typing import Final

from clew.tools.web.search import SearchBackend

SEARXNG_VARIABLE: Final = "SEARXNG_URL"
BRAVE_VARIABLE: Final = "BRAVE_API_KEY"


def search_backend(environ: Mapping[str, str], *, proxy: str = "") -> SearchBackend | None:
    """Return the search backend that the environment names, SearXNG first; None without one.

    Raises:
        ConfigError: A variable is set to something that cannot be right.
    """
    if url := environ.get(SEARXNG_VARIABLE):
        from clew.tools.web.searxng import SearXNG  # noqa: PLC0415

        return SearXNG(url, proxy=proxy)
    if token := environ.get(BRAVE_VARIABLE):
        from clew.tools.web.brave import Brave  # noqa: PLC0415

        return Brave(token, proxy=proxy)
    return None
