"""The WebFetch tool: fetches a URL and returns its content as text for a model.

The content of a page is marked as information that is not an instruction.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, Final

import anyio.to_thread
import msgspec
from msgspec import Struct, field

from clew.core.messages import Image
from clew.core.permissions import Access, Risk, TargetKind
from clew.tools.builtin.files import failure
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput
from clew.tools.web.protocol import PUBLIC_INTERNET, FetchLimits, WebResponse, mark_untrusted
from clew.tools.web.urls import UrlRefused, check_url, parse_url

CACHE_SECONDS: Final = 15 * 60.0
MAX_CACHED_CHARS: Final = 20_000_000
MAX_IMAGE_BYTES: Final = 3_750_000
"""Providers accept images of up to 5 MB in base64."""
_MAX_ERROR_CHARS = 2_000
_IMAGES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
_PAGE_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_TYPES = frozenset(
    (
        *("application/javascript", "application/json", "application/toml", "application/xml"),
        *("application/x-ndjson", "application/x-sh", "application/x-yaml", "application/yaml"),
        *("application/sql", "application/graphql", "image/svg+xml"),
    )
)
_UNSPECIFIED = frozenset({"application/octet-stream", "binary/octet-stream"})


class ResponseCache(Struct, kw_only=True):
    """Caches outputs by URL, for a quarter of an hour and up to a total size."""

    seconds: float = CACHE_SECONDS
    max_chars: int = MAX_CACHED_CHARS
    clock: Callable[[], float] = monotonic
    _outputs: OrderedDict[str, tuple[float, ToolOutput]] = field(default_factory=OrderedDict)
    _chars: int = 0

    def get(self, url: str) -> tuple[float, ToolOutput] | None:
        """Return the age of the cached output in seconds, and the output; None without one."""
        since, output = self._outputs.get(url, (0.0, None))
        if output is None:
            return None
        age = self.clock() - since
        return (age, output) if age < self.seconds else None

    def put(self, url: str, output: ToolOutput) -> None:
        """Cache an output; the oldest ones are evicted when the cache is full."""
        self._drop(url)
        self._outputs[url] = (self.clock(), output)
        self._chars += _size(output)
        while self._chars > self.max_chars and self._outputs:
            self._drop(next(iter(self._outputs)))

    def _drop(self, url: str) -> None:
        since_and_output = self._outputs.pop(url, None)
        if since_and_output is not None:
            self._chars -= _size(since_and_output[1])


def _size(output: ToolOutput) -> int:
    return len(output.text) + sum(len(image.data) for image in output.images)


def webfetch_tool(
    limits: FetchLimits = PUBLIC_INTERNET, *, cache: ResponseCache | None = None
) -> Tool:
    """Make the WebFetch tool.

    Args:
        limits: The limits of a fetch; by default it reaches the public internet only.
        cache: The cache for outputs; by default a new one.
    """
    return _WebFetch(limits, cache or ResponseCache())


class _WebFetch:
    """The tool. It is a class because permission rules must see the normalized URL."""

    max_output_chars: int | None = None

    def __init__(self, limits: FetchLimits, cache: ResponseCache) -> None:
        async def web_fetch(url: str) -> ToolOutput:
            """Fetch a URL and return its content: pages as Markdown, JSON and other text unchanged,
            images as images. Redirects to another host are reported, not followed. Results are
            cached for 15 minutes.

            Args:
                url: The full URL, with http:// or https://.
            """  # noqa: D205
            return await _fetch(url, limits, cache)

        self._tool = tool(
            name="WebFetch", risk=Risk.INSPECT, target="url", kind=TargetKind.ADDRESS
        )(web_fetch)
        self._tool.find_problem = partial(_find_problem, limits)
        self.spec = self._tool.spec

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:
        """Return the normalized URL that a call would fetch."""
        access = self._tool.access(arguments, context)
        try:
            return msgspec.structs.replace(access, target=str(parse_url(access.target)))
        except UrlRefused:
            return access

    def check(self, arguments: dict[str, Any]) -> ToolOutput | None:
        """Return the failure of a URL that is never fetched, or None."""
        return self._tool.check(arguments)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Fetch the URL."""
        return await self._tool.run(arguments, context)


def _find_problem(limits: FetchLimits, url: str) -> str:
    try:
        check_url(parse_url(url), allow_private=limits.allow_private)
    except UrlRefused as error:
        return str(error)
    return ""


async def _fetch(url: str, limits: FetchLimits, cache: ResponseCache) -> ToolOutput:
    # aiohttp is slow to import, and most sessions never fetch.
    from clew.tools.web.fetch import SiteUnreachable, fetch  # noqa: PLC0415

    try:
        address = str(parse_url(url))
        if cached := cache.get(address):
            age, output = cached
            note = f"[cached {age / 60:.0f} min ago]\n"
            return msgspec.structs.replace(
                output, text=note + output.text, data={**output.data, "cached": True}
            )
        reply = await fetch(address, limits)
    except (UrlRefused, SiteUnreachable) as error:
        return failure(str(error))
    output = await _format_response(reply)
    if not output.failed:
        cache.put(address, output)
    return output


class _Content(Struct, frozen=True, kw_only=True):
    """The content of a response for a model."""

    text: str = ""
    title: str = ""
    images: tuple[Image, ...] = field(default_factory=tuple)
    problem: str = ""
    """Why there is no content; empty if there is."""


async def _format_response(reply: WebResponse) -> ToolOutput:
    if reply.location:
        return ToolOutput(
            text=f"{reply.url} redirects to {reply.location}, which is another site, so it was not"
            " followed. Fetch that URL if you want it.",
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
        return _image(reply, kind)
    if kind in _PAGE_TYPES:
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
        " as text. Download it with Bash if you need it."
    )


def _kind(reply: WebResponse) -> str:
    """Return `text`, or the media type of a page, an image, or other data."""
    kind, start = reply.media_type, reply.body[:1024]
    if kind in _UNSPECIFIED:
        kind = _guess_type(start)
    if kind in _PAGE_TYPES or kind in _IMAGES:
        return kind
    is_text = kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml"))
    if is_text and (b"\0" not in start or start.startswith((b"\xff\xfe", b"\xfe\xff"))):
        return "text"
    return "" if is_text else kind


def _guess_type(start: bytes) -> str:
    for kind, signs in _IMAGES.items():
        if start.startswith(signs):
            return kind
    if start.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "text/html"
    return "application/pdf" if start.startswith(b"%PDF-") else "text/plain"


def _image(reply: WebResponse, kind: str) -> _Content:
    if not reply.body.startswith(_IMAGES[kind]):
        return _Content(problem=f"The server says this is {kind}, but it is not.")
    if reply.is_cut or len(reply.body) > MAX_IMAGE_BYTES:
        return _Content(problem=f"The image has more than {MAX_IMAGE_BYTES} bytes.")
    return _Content(images=(Image(media_type=kind, data=reply.body),))
