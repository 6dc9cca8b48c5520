"""Web pages as a model reads them: Markdown, and only of what a visitor would read."""

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
"""What is around a page's text, and what a visitor would not see."""
_OPTIONS = Markdown(
    images=Markdown.Images(mode="alt"),
    links=Markdown.Links(skip_internal=True),
    tables=Markdown.Tables(cell_blocks="text"),
)
_ENOUGH = 0.4
"""The share of a page's text below which its best part is not the page."""
_BLANK_LINES = re.compile(r"\n{3,}")
_MAX_TITLE = 300
_SHOWN_SCHEMES = ("http://", "https://", "mailto:")


class Page(Struct, frozen=True):
    """A page's title and its text."""

    title: str
    text: str


def read_page(body: bytes, *, charset: str, url: str) -> Page:
    """Turn HTML into Markdown with whole addresses.

    Args:
        body: The page. Its encoding is taken from a byte-order mark, from `charset`, from the
            page itself, or guessed.
        charset: What the server said, if it did.
        url: Where the page is from; relative links start there.
    """
    page = _parse(body, charset)
    title = _title(page)
    base = urljoin(url, page.base_url())
    page.remove(_CLUTTER)
    page.rewrite_links(lambda link: _whole(base, link))
    text = _main(page).to_markdown(_OPTIONS)
    return Page(title, _BLANK_LINES.sub("\n\n", text).strip())


def _parse(body: bytes, charset: str) -> Document:
    try:
        return turbohtml.parse(body, encoding=charset or None, detect_encoding=True)
    except LookupError:
        return turbohtml.parse(body, detect_encoding=True)


def _title(page: Document) -> str:
    found = page.find("title") or page.find("h1")
    return " ".join(found.text.split())[:_MAX_TITLE] if found else ""


def _main(page: Document) -> Node:
    """Choose the part of the page that it is about."""
    marked = page.select("main, [role=main]")
    if len(marked) == 1 and marked[0].text.strip():
        return marked[0]
    best = page.main_content()
    if best is not None and len(best.text) >= _ENOUGH * len(page.text):
        return best
    return page


def _whole(base: str, link: str) -> str | None:
    """Return the whole address of a link; `#` for what leads nowhere, so that it is not shown."""
    if link.startswith("#"):
        return None
    try:
        whole = urljoin(base, link)
    except ValueError:
        return "#"
    return whole if whole.startswith(_SHOWN_SCHEMES) else "#"
