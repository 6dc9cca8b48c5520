"""The contract between the WebSearch tool and whoever searches."""

import re
from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct, field

_TAG = re.compile(r"</?[A-Za-z][^<>]{0,80}>")


class SearchFailed(Exception):
    """The search could not be made; the text tells the model why."""


class Query(Struct, frozen=True, kw_only=True):
    """What is searched for."""

    text: str
    limit: int = 10
    allowed: Sequence[str] = field(default_factory=tuple)
    """Domains that results must be from; empty for all."""
    blocked: Sequence[str] = field(default_factory=tuple)

    @property
    def with_domains(self) -> str:
        """The text with the domains as search operators, which most engines understand."""
        sites = " OR ".join(f"site:{domain}" for domain in self.allowed)
        wanted = [f"({sites})" if len(self.allowed) > 1 else sites] if sites else []
        return " ".join([self.text, *wanted, *(f"-site:{domain}" for domain in self.blocked)])

    def admits(self, url: str) -> bool:
        """Is a result from a domain that is wanted?"""
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            return False
        if any(_is_within(host, domain) for domain in self.blocked):
            return False
        return not self.allowed or any(_is_within(host, domain) for domain in self.allowed)


class Found(Struct, frozen=True, kw_only=True):
    """One result."""

    title: str
    url: str
    snippet: str = ""


class SearchBackend(Protocol):
    """One way of searching the web. May be used by many sessions at once."""

    async def search(self, query: Query) -> Sequence[Found]:
        """Return results, best first. There may be more or fewer than wanted, from any domain.

        Raises:
            SearchFailed: No answer was to be had.
        """
        ...


def plain(text: str) -> str:
    """Return a title or snippet without the markup that engines put into it."""
    import html  # noqa: PLC0415 - its table of entities is large

    return " ".join(html.unescape(_TAG.sub("", text)).split())


def _is_within(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")
