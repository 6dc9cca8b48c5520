"""Converts web pages to Markdown for a model: only the content that a visitor would read."""

import re
from urllib.parse import urljoin

import turbohtml
from msgspec import Struct
from turbohtml import Document, Markdown, Node

_CLUTTER = (
    "script, style, noscript, template, svg, iframe, object, canvas, dialog, button, select,"
    " nav, aside, footer, body > header, [hidden], [aria-hidden=true], [role=navigation],"
    ' [role=banner], [role=contentinfo], [style*="display:none"], [style*="display: none"],'
    ' [style*="visibility:hidden"], [style*="visibility: hidden"]'
)
"""Elements around the content of a page, and elements that a visitor does not see."""
_OPTIONS = Markdown(
    images=Markdown.Images(mode="alt"),
    links=Markdown.Links(skip_internal=True),
    tables=Markdown.Tables(cell_blocks="text"),
)
_ENOUGH = 0.4
"""If the main content has a smaller share of the page's text, the whole page is used."""
_BLANK_LINES = re.compile(r"\n{3,}")
_MAX_TITLE = 300
_SHOWN_SCHEMES = ("http://", "https://", "mailto:")


class WebPage(Struct, frozen=True):
    """The title and the text of a page."""

    title: str
    text: str


def read_page(body: bytes, *, charset: str, url: str) -> WebPage:
    """Convert HTML to Markdown with absolute links.

    Args:
        body: The page. Its encoding comes from a byte-order mark, from `charset`, from the page
            itself, or is guessed.
        charset: The charset from the server's headers; may be empty.
        url: The URL of the page; relative links start there.
    """
    page = _parse(body, charset)
    title = _title(page)
    base = urljoin(url, page.base_url())
    page.remove(_CLUTTER)
    page.rewrite_links(lambda link: _absolute(base, link))
    text = _main(page).to_markdown(_OPTIONS)
    return WebPage(title, _BLANK_LINES.sub("\n\n", text).strip())


def _parse(body: bytes, charset: str) -> Document:
    try:
        return turbohtml.parse(body, encoding=charset or None, detect_encoding=True)
    except LookupError:
        return turbohtml.parse(body, detect_encoding=True)


def _title(page: Document) -> str:
    found = page.find("title") or page.find("h1")
    return " ".join(found.text.split())[:_MAX_TITLE] if found else ""


def _main(page: Document) -> Node:
    """Return the main content of the page."""
    marked = page.select("main, [role=main]")
    if len(marked) == 1 and marked[0].text.strip():
        return marked[0]
    best = page.main_content()
    if best is not None and len(best.text) >= _ENOUGH * len(page.text):
        return best
    return page


def _absolute(base: str, link: str) -> str | None:
    """Return the absolute URL of a link; `#` for an unusable one, so that it is not shown."""
    if link.startswith("#"):
        return None
    try:
        whole = urljoin(base, link)
    except ValueError:
        return "#"
    return whole if whole.startswith(_SHOWN_SCHEMES) else "#"
