"""WebFetch: what is at an address, as text a model can read.

What a page says is information and never an instruction, and it is marked as such.
"""

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import anyio.to_thread
import msgspec
from msgspec import Struct, field

from clew.core.access import Access, Risk, TargetKind
from clew.core.messages import Image
from clew.tools.builtin.files import failure
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput
from clew.tools.web.protocol import PUBLIC_INTERNET, FetchLimits, WebResponse, mark_untrusted
from clew.tools.web.urls import UrlRefused, parse_url

CACHE_SECONDS: Final = 15 * 60.0
MAX_CACHED_CHARS: Final = 20_000_000
MAX_IMAGE_BYTES: Final = 3_750_000
"""Providers take pictures of up to 5 MB, written in Base64."""
_MAX_ERROR_CHARS = 2_000
_IMAGES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS = frozenset(
    (
        *("application/javascript", "application/json", "application/toml", "application/xml"),
        *("application/x-ndjson", "application/x-sh", "application/x-yaml", "application/yaml"),
        *("application/sql", "application/graphql", "image/svg+xml"),
    )
)
_UNSAID = frozenset({"application/octet-stream", "binary/octet-stream"})


class ResponseCache(Struct, kw_only=True):
    """Keeps outputs by their address, for a quarter of an hour and within a bound."""

    seconds: float = CACHE_SECONDS
    max_chars: int = MAX_CACHED_CHARS
    clock: Callable[[], float] = monotonic
    _kept: OrderedDict[str, tuple[float, ToolOutput]] = field(default_factory=OrderedDict)
    _chars: int = 0

    def get(self, url: str) -> tuple[float, ToolOutput] | None:
        """Return how old the copy of an address is, in seconds, and the copy; None without one."""
        since, output = self._kept.get(url, (0.0, None))
        if output is None:
            return None
        age = self.clock() - since
        return (age, output) if age < self.seconds else None

    def put(self, url: str, output: ToolOutput) -> None:
        """Keep an output; the oldest ones go when there are too many."""
        self._drop(url)
        self._kept[url] = (self.clock(), output)
        self._chars += _size(output)
        while self._chars > self.max_chars and self._kept:
            self._drop(next(iter(self._kept)))

    def _drop(self, url: str) -> None:
        since_and_output = self._kept.pop(url, None)
        if since_and_output is not None:
            self._chars -= _size(since_and_output[1])


def _size(output: ToolOutput) -> int:
    return len(output.text) + sum(len(image.data) for image in output.images)


def webfetch_tool(
    limits: FetchLimits = PUBLIC_INTERNET, *, copies: ResponseCache | None = None
) -> Tool:
    """Make the WebFetch tool.

    Args:
        limits: How far a fetch may go; by default to the public internet only.
        copies: Where answers are kept for a quarter of an hour.
    """
    return _WebFetch(limits, copies or ResponseCache())


class _WebFetch:
    """The tool. A class of its own, because rules must see the address in its one form."""

    max_output_chars: int | None = None

    def __init__(self, limits: FetchLimits, copies: ResponseCache) -> None:
        async def web_fetch(url: str) -> ToolOutput:
            """Fetch a web address and return what is there: pages as Markdown, JSON and other
            texts as they are, pictures as pictures. Redirects to another host are reported,
            not followed. Answers are kept for 15 minutes.

            Args:
                url: The whole address, with http:// or https://.
            """  # noqa: D205
            return await _fetch(url, limits, copies)

        self._tool = tool(
            name="WebFetch", risk=Risk.INSPECT, target="url", kind=TargetKind.ADDRESS
        )(web_fetch)
        self.spec = self._tool.spec

    def access(self, arguments: dict[str, Any], place: ToolContext) -> Access:
        """Name the address that a call would fetch, in the form that is fetched."""
        access = self._tool.access(arguments, place)
        try:
            return msgspec.structs.replace(access, target=str(parse_url(access.target)))
        except UrlRefused:
            return access

    async def run(self, arguments: dict[str, Any], place: ToolContext) -> ToolOutput:
        """Fetch the address."""
        return await self._tool.run(arguments, place)


async def _fetch(url: str, limits: FetchLimits, copies: ResponseCache) -> ToolOutput:
    # aiohttp takes its time to load, and most sessions never get here.
    from clew.tools.web.fetch import SiteUnreachable, fetch  # noqa: PLC0415

    try:
        address = str(parse_url(url))
        if copy := copies.get(address):
            age, output = copy
            note = f"[copy from {age / 60:.0f} min ago]\n"
            return msgspec.structs.replace(
                output, text=note + output.text, data={**output.data, "cached": True}
            )
        reply = await fetch(address, limits)
    except (UrlRefused, SiteUnreachable) as error:
        return failure(str(error))
    output = await _format_response(reply)
    if not output.failed:
        copies.put(address, output)
    return output


class _Content(Struct, frozen=True, kw_only=True):
    """What a reply holds for a model."""

    text: str = ""
    title: str = ""
    images: tuple[Image, ...] = field(default_factory=tuple)
    problem: str = ""
    """Why there is nothing to show, if so."""


async def _format_response(reply: WebResponse) -> ToolOutput:
    if reply.location:
        return ToolOutput(
            text=f"{reply.url} redirects to {reply.location}, which is elsewhere, so it was not"
            " followed. Fetch that address if it is what you want.",
            data={"url": reply.url, "status": reply.status, "location": reply.location},
        )
    content = await _content(reply)
    about = [f"{reply.url} ({reply.outcome}, {reply.media_type})"]
    if content.title:
        about.append(f"Title: {content.title}")
    if reply.is_cut:
        about.append(f"Only the first {len(reply.body)} bytes were read.")
    if content.problem:
        about.append(content.problem)
    elif content.text:
        text = content.text if reply.is_ok else content.text[:_MAX_ERROR_CHARS]
        about.append(mark_untrusted(text, "this page"))
    return ToolOutput(
        text="\n".join(about),
        failed=not reply.is_ok or bool(content.problem),
        display=f"{reply.url}: {reply.outcome}, {len(reply.body)} bytes",
        images=content.images,
        data={"url": reply.url, "status": reply.status, "bytes": len(reply.body)},
    )


async def _content(reply: WebResponse) -> _Content:
    kind = _kind(reply)
    if kind in _IMAGES:
        return _picture(reply, kind)
    if kind in _PAGES:
        from clew.tools.web.pages import read_page  # noqa: PLC0415

        def read() -> _Content:
            page = read_page(reply.body, charset=reply.charset, url=reply.url)
            return _Content(title=page.title, text=page.text)

        content = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
        if content.text or not reply.is_ok:
            return content
        return _Content(title=content.title, problem="The page has no text without JavaScript.")
    if kind == "text":
        return _Content(text=reply.text())
    return _Content(
        problem=f"This is {kind or 'binary data'} ({len(reply.body)} bytes), which cannot be shown"
        " as text. Download it with Bash if it is needed."
    )


def _kind(reply: WebResponse) -> str:
    """Return `text`, or the type of a page, a picture, or something else."""
    kind, start = reply.media_type, reply.body[:1024]
    if kind in _UNSAID:
        kind = _guessed(start)
    if kind in _PAGES or kind in _IMAGES:
        return kind
    is_text = kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml"))
    if is_text and (b"\0" not in start or start.startswith((b"\xff\xfe", b"\xfe\xff"))):
        return "text"
    return "" if is_text else kind


def _guessed(start: bytes) -> str:
    for kind, signs in _IMAGES.items():
        if start.startswith(signs):
            return kind
    if start.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "text/html"
    return "application/pdf" if start.startswith(b"%PDF-") else "text/plain"


def _picture(reply: WebResponse, kind: str) -> _Content:
    if not reply.body.startswith(_IMAGES[kind]):
        return _Content(problem=f"The server calls this {kind}, but it is something else.")
    if reply.is_cut or len(reply.body) > MAX_IMAGE_BYTES:
        return _Content(problem=f"The picture is larger than {MAX_IMAGE_BYTES} bytes.")
    return _Content(images=(Image(media_type=kind, data=reply.body),))
