"""The WebSearch tool: searches the web with the search engine that the user configured."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from msgspec import Meta

from clew.core.permissions import Risk
from clew.core.text import pluralize
from clew.tools.builtin.files import failure
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolOutput
from clew.tools.web.protocol import (
    SearchBackend,
    SearchFailed,
    SearchQuery,
    WebSearchResult,
    mark_untrusted,
)

SEARXNG_VARIABLE: Final = "SEARXNG_URL"
BRAVE_VARIABLE: Final = "BRAVE_API_KEY"
DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 20
_MAX_SNIPPET = 500
_MAX_TITLE = 200
_DOMAIN = re.compile(r"(?:https?://)?(?:\*\.)?([a-z0-9-]+(?:\.[a-z0-9-]+)*)\.?/?")
_NO_BACKEND = (
    "No search engine is configured. The user can set the environment variable"
    f" {SEARXNG_VARIABLE} to the URL of a SearXNG instance, or {BRAVE_VARIABLE} to a key of"
    " the Brave Search API."
)


def search_backend(environ: Mapping[str, str], *, proxy: str = "") -> SearchBackend | None:
    """Return the search backend configured in the environment, SearXNG first; None without one.

    Raises:
        ConfigError: The value of a variable is invalid.
    """
    if url := environ.get(SEARXNG_VARIABLE):
        from clew.tools.web.search import SearXNG  # noqa: PLC0415

        return SearXNG(url, proxy=proxy)
    if token := environ.get(BRAVE_VARIABLE):
        from clew.tools.web.search import Brave  # noqa: PLC0415

        return Brave(token, proxy=proxy)
    return None


def websearch_tool(backend: SearchBackend | None) -> Tool:
    """Make the WebSearch tool.

    Args:
        backend: The search engine. Without one, each call says what the user has to set.
    """

    @tool(name="WebSearch", risk=Risk.INSPECT, target="query")
    async def web_search(
        query: Annotated[str, Meta(min_length=1, max_length=1_000)],
        allowed_domains: list[str] = [],  # noqa: B006 - the default is never written to
        blocked_domains: list[str] = [],  # noqa: B006
        limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
    ) -> ToolOutput:
        """Search the web. Returns titles, URLs and snippets; read a page with WebFetch.

        Args:
            query: What to search for.
            allowed_domains: Only results from these domains and below, such as python.org.
            blocked_domains: No results from these domains.
            limit: The most results to return.
        """
        if backend is None:
            return failure(_NO_BACKEND)
        try:
            wanted = SearchQuery(
                text=query,
                limit=limit,
                allowed=[_domain(each) for each in allowed_domains],
                blocked=[_domain(each) for each in blocked_domains],
            )
            return _format_results(wanted, await backend.search(wanted))
        except SearchFailed as error:
            return failure(str(error))

    return web_search


def _domain(text: str) -> str:
    found = _DOMAIN.fullmatch(text.strip().lower())
    if not found:
        raise SearchFailed(f"{text!r} is not a domain. Write it like python.org.")
    return found[1]


def _format_results(query: SearchQuery, found: Sequence[WebSearchResult]) -> ToolOutput:
    unique: dict[str, WebSearchResult] = {}
    for each in found:
        if each.url and query.admits(each.url):
            unique.setdefault(each.url, each)
    results = list(unique.values())[: query.limit]
    data: dict[str, object] = {"query": query.text, "results": [each.url for each in results]}
    if not results:
        return ToolOutput(text=f"[no results for {query.text}]", data=data)
    lines = []
    for number, each in enumerate(results, 1):
        lines += [f"{number}. {each.title[:_MAX_TITLE] or each.url}", f"   {each.url}"]
        if each.snippet:
            lines.append(f"   {each.snippet[:_MAX_SNIPPET]}")
    return ToolOutput(
        text=mark_untrusted("\n".join(lines), "the pages that were found"),
        display=f"{query.text}: {pluralize(len(results), 'result')}",
        data=data,
    )
