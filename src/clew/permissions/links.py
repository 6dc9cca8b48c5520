"""Where the links of a folder lead, for commands that reach files without naming them.

A file name pattern may match a link, and a program that follows links reaches whatever they lead
to. Both are looked up on the disk, as far as a limit of entries allows. Nothing is opened.
"""

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from msgspec import Struct, field

MAX_ENTRIES = 20_000
_MAX_PARTS = 200
_SIMPLE = re.compile(r"[^\[\](){}\\!+@|]*")
"""A part of a pattern that `fnmatch` reads as the shell does."""
_WILD = re.compile(r"[*?\[(]")
_ODD_NAME = re.compile(r"-|.*[\s'\"\\]", re.DOTALL)


def is_odd(name: str) -> bool:
    """Does a name look like an option, or contain blanks or quotes?"""
    return bool(_ODD_NAME.match(name))


class _TooMany(Exception):
    """There are more entries than may be looked at."""


class TreeSurvey(Struct, frozen=True, kw_only=True):
    """What is known about everything below a folder."""

    links: tuple[str, ...]
    """The links, and those in folders that they lead to."""
    has_odd_names: bool
    """True if a name looks like an option, or contains blanks or quotes."""


class LinkFinder(Struct):
    """Looks for links, each place once."""

    _trees: dict[str, TreeSurvey | None] = field(default_factory=dict)
    _patterns: dict[str, tuple[str, ...] | None] = field(default_factory=dict)

    def survey(self, folder: str) -> TreeSurvey | None:
        """Return what is below a folder; None if it has too many entries.

        A file is a tree of its own: it has no links below it.
        """
        if folder not in self._trees:
            self._trees[folder] = _survey(folder)
        return self._trees[folder]

    def find_matches(self, pattern: str) -> tuple[str, ...] | None:
        """Return the matches of an absolute pattern that are links or behind links.

        Patterns that only the shell understands count as `*`. The result is None if there are too
        many entries to look at.
        """
        if pattern not in self._patterns:
            self._patterns[pattern] = _find_matches(pattern)
        return self._patterns[pattern]


class _Budget(Struct):
    entries: int = MAX_ENTRIES

    def scan(self, folder: str) -> Iterator["os.DirEntry[str]"]:
        """Yield the entries of a folder; none if it cannot be read.

        Raises:
            _TooMany: The limit is reached.
        """
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self.entries -= 1
                    if self.entries < 0:
                        raise _TooMany
                    yield entry
        except (OSError, ValueError):  # a name that no file can have
            return


def _find_matches(pattern: str) -> tuple[str, ...] | None:
    parts = pattern.lstrip("/").split("/")
    if len(parts) > _MAX_PARTS:
        return None
    try:
        return tuple(_match("/", parts, _Budget(), linked=False))
    except _TooMany:
        return None


def _survey(folder: str) -> TreeSurvey | None:
    budget, links, odd = _Budget(), list[str](), False
    waiting, seen = [folder], set[str]()
    try:
        while waiting:
            place = waiting.pop()
            if (real := _resolve(place)) in seen:
                continue
            seen.add(real)
            for entry in budget.scan(place):
                odd = odd or is_odd(entry.name)
                if entry.is_symlink():
                    links.append(entry.path)
                if _is_folder(entry):
                    waiting.append(entry.path)
    except _TooMany:
        return None
    return TreeSurvey(links=tuple(links), has_odd_names=odd)


def _resolve(place: str) -> str:
    try:
        return os.path.realpath(place)
    except (OSError, ValueError):
        return place


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circle of links
        return False


def _match(folder: str, parts: list[str], budget: _Budget, *, linked: bool) -> Iterator[str]:
    """Yield the matches below a folder; `linked` says whether a link leads there."""
    part, *rest = parts
    if not _WILD.search(part):
        place = os.path.join(folder, part)  # noqa: PTH118 - `..` and `//` stay as written
        if rest:
            yield from _match(place, rest, budget, linked=linked)
        elif linked and os.path.lexists(place):
            yield place
        return
    simple = _SIMPLE.fullmatch(part) is not None
    for entry in budget.scan(folder):
        if simple and "**" not in part and not fnmatchcase(entry.name, part):
            continue
        through = linked or entry.is_symlink()
        if rest and _is_folder(entry):
            # `**` stands for folders at any depth.
            again = [parts] if "**" in part else []
            for each in (rest, *again):
                yield from _match(entry.path, each, budget, linked=through)
        elif through:
            yield entry.path
    if "**" in part and rest:
        yield from _match(folder, rest, budget, linked=linked)
