"""References in a prompt: `@path`, `@session:ID`, and paths of images as terminals paste them."""

import re
from collections.abc import Iterator
from typing import Literal
from urllib.parse import unquote

from msgspec import Struct

from clew.core.entries import ContextReference
from clew.core.messages import Part, ToolCall

SESSION = "session:"
_IMAGE = r"\.(?:png|jpe?g|gif|webp)"
_AT = re.compile(
    r"""(?<![\w@/.\\`])@(?:"(?P<double>[^"\n]+)"|'(?P<single>[^'\n]+)'|(?P<plain>(?:\\.|[^\s"'`<>|\\])+))"""
)
_DROPPED = re.compile(
    rf"""(?<![^\s])(?:"(?P<double>[/~][^"\n]*{_IMAGE})"|'(?P<single>[/~][^'\n]*{_IMAGE})'"""
    rf"""|(?P<plain>(?:file://)?[/~](?:\\.|[^\s"'`<>|\\])*{_IMAGE}))(?![^\s])""",
    re.IGNORECASE,
)
"""An absolute path to an image, between blanks: what a terminal pastes for a dropped file."""
_LINES = re.compile(r"#L?(\d{1,7})(?:-L?(\d{1,7}))?$")
_ESCAPED = re.compile(r"\\(.)")
_PUNCTUATION = ".,;:!?)]}…"
_FILE_NAME = re.compile(
    r"(?:^(?:\./|\.\./|~/).*|[^/]\.(?:bash|bat|c|cc|cfg|conf|cpp|cs|css|csv|dart|env|gif|go|h|hpp|html?"
    r"|ini|ipynb|java|jpe?g|jsonl?|jsx?|kt|less|lock|log|lua|md|mjs|pdf|php|pl|png|pyi?|rb|rs|rst|scala"
    r"|scss|sh|sql|svelte|svg|swift|tex|toml|tsx?|txt|vue|webp|xml|ya?ml|zig))$",
    re.IGNORECASE,
)
"""With a suffix that is not the end of the name of a person, a package or a server."""
_IMAGE_NAME = re.compile(rf"{_IMAGE}$", re.IGNORECASE)


class PromptReference(Struct, frozen=True, kw_only=True):
    """Something that a prompt refers to."""

    kind: Literal["path", "session"]
    names: tuple[str, ...]
    """The paths or ids that it may mean, the most likely first: `a.py.`, then `a.py`."""
    first: int = 0
    """The first line to attach; 0 for the whole file."""
    last: int = 0
    marked: bool = True
    """False for a path without an `@`, which may be a part of the sentence."""


class Attachments(Struct, frozen=True, kw_only=True):
    """What a prompt brings along."""

    parts: tuple[Part, ...] = ()
    """Added to the prompt."""
    calls: tuple[ToolCall, ...] = ()
    """They read texts, and are run after the prompt."""
    references: tuple[ContextReference, ...] = ()
    """The names of all of them."""


def find_references(text: str) -> list[PromptReference]:
    """Return what `text` refers to, in its order, each once; paths need not exist."""
    found = [*_AT.finditer(text), *_DROPPED.finditer(text)]
    ordered = sorted(found, key=lambda match: match.start())
    return list(dict.fromkeys(map(_read, ordered)))


def is_image_name(path: str) -> bool:
    """Return whether a path has the name of an image that models accept."""
    return _IMAGE_NAME.search(path) is not None


def is_file_name(name: str) -> bool:
    """Return whether a name is surely meant as a path, unlike `types/node` or `john.doe`."""
    return _FILE_NAME.search(name) is not None


def _read(match: re.Match[str]) -> PromptReference:
    quoted = match["double"] or match["single"]
    text = quoted or _ESCAPED.sub(r"\1", match["plain"])
    if text.startswith("file://"):
        text = unquote(text.removeprefix("file://"))
    if text.startswith(SESSION):
        return PromptReference(kind="session", names=tuple(_trim(text.removeprefix(SESSION))))
    first = last = 0
    names = [text] if quoted else list(_trim(text))
    if (lines := _LINES.search(names[-1])) is not None:
        first, last = int(lines[1]), int(lines[2] or lines[1])
        names += list(_trim(names[-1][: lines.start()]))
    return PromptReference(
        kind="path", names=tuple(names), first=first, last=last, marked=match.re is _AT
    )


def _trim(text: str) -> Iterator[str]:
    """Yield a name, and the name without the punctuation of the sentence around it."""
    yield text
    bare = text.rstrip(_PUNCTUATION)
    if bare and bare != text:
        yield bare
