"""The existing files that deny rules forbid, for a sandbox that keeps processes away from them.

A sandbox protects paths, not patterns, so the folders of a pattern are searched before each
command. A file that a command creates itself is protected from the next command on. Other names of
a forbidden file (hard links) are looked for in the working directory.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct, field

from clew.core.permissions import DeniedPaths
from clew.permissions.paths import (
    compile_glob,
    expand_denied,
    find_fixed_part,
    is_folder,
    resolve,
    resolve_prefix,
)
from clew.permissions.rules import EDITING, Rule

MAX_ENTRIES = 50_000
"""The most entries of folders to look at for one rule before each command."""
MAX_GUESSED = 5_000
"""The most entries of a folder to look at for a program that may use any of its files."""
_WILD = frozenset("*?[")
_EVERYTHING_INSIDE = "/**"


class _Search(Struct):
    """Searches folders for the patterns of rules, within a limit."""

    left: int
    linked: set[tuple[int, int]] = field(default_factory=set)
    """Device and number of the files that have more than one name."""

    def find(self, pattern: str, *, start: str = "") -> Iterator[str]:
        """Yield the real paths of what matches; a folder stands for everything in it.

        With `start`, only that folder of a pattern with wildcards is searched.
        """
        pattern = pattern.removesuffix(_EVERYTHING_INSIDE)
        if not _WILD & set(pattern):
            yield from self._existing(pattern)
            return
        glob, is_candidate = compile_glob(pattern), _name_filter(pattern)
        for entry in self.walk(start or find_fixed_part(pattern)):
            if is_candidate(entry.name) and glob.matches(entry.path):
                yield from self._existing(entry.path)

    def walk(self, folder: str) -> Iterator["os.DirEntry[str]"]:
        """Yield everything below a folder until the limit is reached; links are not followed."""
        waiting = [folder]
        while waiting and self.left > 0:
            try:
                with os.scandir(waiting.pop()) as entries:
                    found = list(entries)
            except OSError:
                continue
            self.left -= len(found)
            for entry in found:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)

    def _existing(self, path: str) -> Iterator[str]:
        try:
            facts = os.stat(path)  # noqa: PTH116
        except (OSError, ValueError):
            return
        if facts.st_nlink > 1 and not os.path.isdir(path):  # noqa: PTH112
            self.linked.add((facts.st_dev, facts.st_ino))
        yield os.path.realpath(path)


def find_denied_paths(rules: Iterable[Rule], cwd: Path, *, limit: int = MAX_ENTRIES) -> DeniedPaths:
    """Return the existing paths that deny rules forbid.

    A rule against reading hides a path, one against writing makes it read-only. Rules without a
    pattern are not listed: there is no path to protect.

    Args:
        rules: The deny rules.
        cwd: Where relative paths start.
        limit: The most entries of folders to look at for each rule.
    """
    hidden: dict[str, None] = {}
    read_only: dict[str, None] = {}
    uncovered: list[str] = []
    for rule in rules:
        if rule.covers_all or not (rule.tool == "Read" or rule.tool in EDITING):
            continue
        search = _Search(limit)
        found = hidden if rule.tool == "Read" else read_only
        patterns = expand_denied(rule, cwd)
        for pattern in patterns | {resolve_prefix(each) for each in patterns}:
            found.update(dict.fromkeys(search.find(pattern)))
        found.update(dict.fromkeys(_other_names(search, cwd)))
        if search.left <= 0:
            uncovered.append(str(rule))
    return DeniedPaths(
        hidden=_without_nested(hidden),
        read_only=_without_nested(read_only.keys() - hidden.keys()),
        uncovered=tuple(uncovered),
    )


def holds_denied(rule: Rule, path: str, cwd: Path, *, limit: int = MAX_GUESSED) -> bool:
    """Is there a file below the folder at `path` that the rule denies?

    Args:
        rule: The rule.
        path: The folder; anything else holds nothing.
        cwd: Where relative paths start.
        limit: The most entries to look at; a larger folder counts as one that holds such a file.
    """
    folder = resolve(path, cwd)
    if folder is None or not is_folder(folder):
        return False
    search = _Search(limit)
    for pattern in expand_denied(rule, cwd):
        fixed = Path(find_fixed_part(resolve_prefix(pattern.removesuffix(_EVERYTHING_INSIDE))))
        if not (fixed.is_relative_to(folder) or folder.is_relative_to(fixed)):
            continue
        start = max(fixed, folder, key=lambda each: len(each.parts))
        if any(_is_below(each, folder) for each in search.find(pattern, start=str(start))):
            return True
    return search.left <= 0


def _is_below(path: str, folder: Path) -> bool:
    return Path(path).is_relative_to(folder)


def _other_names(search: _Search, cwd: Path) -> Iterator[str]:
    """Yield the other names of files that have several."""
    if not search.linked:
        return
    numbers = {number for _, number in search.linked}
    for entry in search.walk(str(cwd.resolve())):
        if entry.inode() in numbers and not entry.is_symlink():
            facts = entry.stat(follow_symlinks=False)
            if (facts.st_dev, facts.st_ino) in search.linked:
                yield entry.path


def _without_nested(paths: Iterable[str]) -> tuple[str, ...]:
    """Leave out paths inside others."""
    kept: list[str] = []
    for path in sorted(paths):
        if not kept or not path.startswith(kept[-1].rstrip("/") + "/"):
            kept.append(path)
    return tuple(kept)


def _name_filter(pattern: str) -> "_NameFilter":
    last = pattern.rpartition("/")[2]
    return _NameFilter(re.split(r"[*?\]]", last)[-1], _WILD.isdisjoint(last))


class _NameFilter(Struct, frozen=True):
    """A quick test that excludes most names before a pattern is matched."""

    ending: str
    whole: bool

    def __call__(self, name: str) -> bool:
        return name == self.ending if self.whole else name.endswith(self.ending)
