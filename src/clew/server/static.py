"""The files of the web page: read from the package once, served from memory.

The address of each file but the first has a digest of all files in it, so a browser keeps them
until the next release and never mixes two releases.
"""

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from aiohttp import web

PAGE_FOLDER = "/page/"
"""Where the files are, as the server addresses them."""
_INDEX = "index.html"
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_FOREVER = "public, max-age=31536000, immutable"
_CHECK = "no-cache"


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file as it is sent."""

    content_type: str
    body: bytes
    packed: bytes
    """The same, compressed."""
    etag: str

    @classmethod
    def of(cls, name: str, body: bytes) -> "PageFile":
        """Make it from the bytes of a file."""
        return cls(
            content_type=_TYPES[_suffix(name)],
            body=body,
            packed=gzip.compress(body, mtime=0),
            etag=hashlib.sha256(body).hexdigest()[:16],
        )


@dataclass(frozen=True, slots=True)
class Page:
    """All files of the page, by their path, and what their addresses begin with."""

    index: PageFile
    files: dict[str, PageFile]
    digest: str


@cache
def load_page() -> Page:
    """Read the files of the page."""
    found = dict(sorted(_read(files("clew.server") / "page", "")))
    digest = hashlib.sha256()
    for name, body in found.items():
        digest.update(name.encode() + b"\0" + body + b"\0")
    version = digest.hexdigest()[:12]
    index = _write_index(found.pop(_INDEX).decode(), version, found)
    return Page(
        index=PageFile.of(_INDEX, index.encode()),
        files={name: PageFile.of(name, body) for name, body in found.items()},
        digest=version,
    )


def add_page(app: web.Application) -> None:
    """Serve the page at `/`, and its files below `/page/`."""
    app.router.add_get("/", _serve_index)
    app.router.add_get(PAGE_FOLDER + "{digest}/{name:.+}", _serve_file)


async def _serve_index(request: web.Request) -> web.Response:
    return _answer(request, load_page().index, cache_control=_CHECK)


async def _serve_file(request: web.Request) -> web.Response:
    page = load_page()
    found = page.files.get(request.match_info["name"])
    if found is None or request.match_info["digest"] != page.digest:
        raise web.HTTPNotFound(text="there is no such file; reload the page")
    return _answer(request, found, cache_control=_FOREVER)


def _answer(request: web.Request, file: PageFile, *, cache_control: str) -> web.Response:
    headers = {
        "Cache-Control": cache_control,
        "ETag": f'"{file.etag}"',
        "Vary": "Accept-Encoding",
    }
    if any(tag.value == file.etag for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    body = file.body
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        body = file.packed
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers, content_type=file.content_type, charset="utf-8")


def _write_index(text: str, version: str, names: dict[str, bytes]) -> str:
    """Put the digest into the addresses, and have the browser load all modules at once."""
    modules = [name for name in names if name.endswith(".js") and name != "main.js"]
    links = "\n".join(
        f'    <link rel="modulepreload" href="{PAGE_FOLDER}{version}/{name}">' for name in modules
    )
    text = text.replace(f'"{PAGE_FOLDER}', f'"{PAGE_FOLDER}{version}/')
    return text.replace("  </head>", f"{links}\n  </head>")


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _read(item, f"{prefix}{item.name}/")
        elif _suffix(item.name) in _TYPES:
            yield prefix + item.name, item.read_bytes()


def _suffix(name: str) -> str:
    return name[name.rfind(".") :] if "." in name else ""
