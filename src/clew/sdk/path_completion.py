"""Completes what follows an `@` in a prompt: paths of the project, and other sessions."""

import os
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec import Struct

from clew.core.permissions import Access, Risk, TargetKind, Verdict
from clew.core.text import one_line
from clew.sdk.client import PathMatch
from clew.session.gate import Gate
from clew.stores.protocol import Store
from clew.tools.builtin.files import ToolFailure
from clew.tools.builtin.ripgrep import find_ripgrep, parse_names, run_ripgrep

SESSION_PREFIX = "session:"
_MOST_NAMES = 300_000
_MOST_CANDIDATES = 4_000
"""Names that are compared with each other; more than these match only very short fragments."""
_MOST_LISTED = 2_000
_MOST_SESSIONS = 200
_LEAST_SECONDS, _PER_SECOND = 2.0, 20.0
"""A list of files is used for two seconds, or twenty times as long as it took to make."""
_TITLE = 60


class PathIndex(Struct, frozen=True):
    """The files and folders of a project, searchable as one text."""

    names: Sequence[str]
    """Relative paths; folders end with a slash."""
    text: str
    """The names in lower case, each after a line break and a slash."""
    starts: Sequence[int]
    """Where each name begins in the text."""
    top: Sequence[str]
    """The names of the project's own folder."""

    @classmethod
    def of(cls, files: Iterable[str]) -> "PathIndex":
        """Index files and the folders that they are in."""
        found = [name for name in islice(files, _MOST_NAMES) if name.isprintable()]
        names = sorted({*found, *_find_folders(found)})
        lines = [f"\n/{name.lower()}" for name in names]
        starts = [0, *accumulate(map(len, lines))][:-1]
        top = [name for name in names if "/" not in name.rstrip("/")]
        return cls(names, "".join(lines), starts, top)

    def search(self, fragment: str, limit: int) -> list[str]:
        """Return the names that match best: by the beginning of a name, a part, or its letters."""
        wanted = fragment.lower().lstrip("/")
        if not wanted:
            return sorted(self.top, key=lambda name: (not name.endswith("/"), name))[:limit]
        found = set(islice(self._find(f"/{wanted}"), _MOST_CANDIDATES))
        if len(found) < limit:
            found |= set(islice(self._find(wanted), _MOST_CANDIDATES))
        if len(found) < limit:
            found |= set(islice(self._find_letters(wanted), _MOST_CANDIDATES))
        names = {self.names[at] for at in found}
        names.update(name for name in self.top if name.lower().startswith(wanted))
        return sorted(names, key=lambda name: _rank(name, wanted))[:limit]

    def _find(self, wanted: str) -> Iterator[int]:
        at = self.text.find(wanted)
        while at >= 0:
            index = bisect_right(self.starts, at) - 1
            yield index
            end = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.text)
            at = self.text.find(wanted, end)

    def _find_letters(self, wanted: str) -> Iterator[int]:
        # Each letter at its first place: linear in the text, unlike `.*?` between them.
        letters = "".join(f"[^\n{re.escape(sign)}]*{re.escape(sign)}" for sign in wanted)
        for match in re.finditer(f"\n/{letters}", self.text):
            yield bisect_right(self.starts, match.start()) - 1


def _find_folders(files: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in files:
        cut = name.rfind("/")
        while cut > 0 and (folder := name[: cut + 1]) not in found:
            found.add(folder)
            cut = name.rfind("/", 0, cut)
    return found


def _rank(name: str, wanted: str) -> tuple[int, int, int, str]:
    path = name.lower().rstrip("/")
    base = path[path.rfind("/") + 1 :]
    if base.startswith(wanted) or path.startswith(wanted):
        kind = 0
    elif wanted in base:
        kind = 1
    elif wanted in path:
        kind = 2
    else:
        kind = 3
    # Letters close together, and at the end of the path, are more likely meant.
    spread = _spread(path, wanted) if kind == 3 else 0
    return kind, spread, len(path), name


def _spread(path: str, wanted: str) -> int:
    """Return how far apart the letters are, taken from the end."""
    end = at = len(path)
    for sign in reversed(wanted):
        at = path.rfind(sign, 0, at)
        end = at if end == len(path) else end
    return end - at


class PathCompleter:
    """Completes paths below a folder and ids of sessions.

    Args:
        cwd: The project's folder.
        store: Has the other sessions.
        gate: Paths that its deny rules forbid to read are not offered.
        clock: Seconds that only grow.
    """

    def __init__(
        self, cwd: Path, store: Store, gate: Gate, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cwd, self._store, self._gate, self._clock = cwd, store, gate, clock
        self._index: PathIndex | None = None
        self._expires = 0.0
        self._listing = anyio.Lock()

    async def complete(self, fragment: str, *, limit: int) -> list[PathMatch]:
        """Return the best ways to complete what follows an `@`."""
        fragment = fragment.lstrip('"')
        if fragment.startswith(SESSION_PREFIX):
            return await self._complete_session(fragment.removeprefix(SESSION_PREFIX), limit)
        if fragment.startswith(("/", "~", "../")):
            names = await to_thread.run_sync(_list_folder, self._cwd, fragment)
        else:
            index = await self._load_index()
            wanted = fragment.removeprefix("./")
            names = await to_thread.run_sync(index.search, wanted, 2 * limit)
        names = await to_thread.run_sync(self._leave_out_denied, names)
        return [make_match(name) for name in names[:limit]]

    async def _complete_session(self, wanted: str, limit: int) -> list[PathMatch]:
        known = await self._store.sessions(cwd=str(self._cwd), kind="", limit=_MOST_SESSIONS)
        return [
            PathMatch(text=f"{SESSION_PREFIX}{record.id}", detail=one_line(record.heading, _TITLE))
            for record in known
            if record.id.startswith(wanted) or wanted.lower() in record.heading.lower()
        ][:limit]

    async def _load_index(self) -> PathIndex:
        async with self._listing:
            began = self._clock()
            if self._index is None or began >= self._expires:
                names = await _list_files(self._cwd)
                self._index = await to_thread.run_sync(PathIndex.of, names)
                now = self._clock()
                self._expires = now + max(_LEAST_SECONDS, (now - began) * _PER_SECOND)
            return self._index

    def _leave_out_denied(self, names: list[str]) -> list[str]:
        if not self._gate.deny:
            return names
        return [name for name in names if not self._is_denied(name)]

    def _is_denied(self, name: str) -> bool:
        access = Access(tool="Read", risk=Risk.INSPECT, target=name, kind=TargetKind.PATH)
        return self._gate.decide(access).verdict is Verdict.DENY


def make_match(name: str) -> PathMatch:
    """Return a path as a match: with quotation marks if it needs them."""
    quoted = f'"{name}"' if any(sign.isspace() for sign in name) else name
    return PathMatch(text=quoted, is_folder=name.endswith("/"))


async def _list_files(cwd: Path) -> Sequence[str]:
    """Return the files that Git does not ignore: by ripgrep, or by walking through the folders."""
    try:
        output = await run_ripgrep(find_ripgrep(), ["--files", "--null"], cwd)
    except (ToolFailure, OSError):
        return await to_thread.run_sync(_walk, cwd)
    return parse_names(output)


def _walk(cwd: Path) -> list[str]:
    """Return the files below a folder without ripgrep; hidden folders are left out."""
    names: list[str] = []
    for folder, inside, files in os.walk(cwd):
        inside[:] = [name for name in inside if not name.startswith(".")]
        here = os.path.relpath(folder, cwd)
        names += (name if here == "." else f"{here}/{name}" for name in files)
        if len(names) >= _MOST_NAMES:
            break
    return names


def _list_folder(cwd: Path, fragment: str) -> list[str]:
    """Return the entries of a folder outside the project whose names begin as typed."""
    folder, slash, begin = fragment.rpartition("/")
    if not slash:
        folder, begin = fragment, ""
    try:
        place = cwd / Path(f"{folder}/").expanduser()
        with os.scandir(place) as entries:
            found = [
                f"{folder}/{entry.name}{'/' if entry.is_dir() else ''}"
                for entry in islice(entries, _MOST_LISTED)
                if entry.name.lower().startswith(begin.lower()) and entry.name.isprintable()
            ]
    except (OSError, RuntimeError, ValueError):
        return []
    return sorted(found)
