"""What Grep asks a search program, and what it is told."""

from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

OutputMode: TypeAlias = Literal["content", "files_with_matches", "count"]


class Query(Struct, frozen=True, kw_only=True):
    """One search."""

    pattern: str
    root: Path
    shown_root: str
    """How the model called it."""
    glob: str
    type: str
    mode: OutputMode
    ignore_case: bool
    multiline: bool
    context: int
    limit: int


class Found(Struct, frozen=True, kw_only=True):
    """A line that matched, or one near it."""

    path: str
    line: int
    text: str
    hit: bool


class Counted(Struct, frozen=True, kw_only=True):
    """A file with matches, and how many."""

    path: str
    count: int
