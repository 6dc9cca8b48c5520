"""`ProjectMemoryStore`: the index and the topics on disk."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from clew.core.errors import ClewError, ConfigError, StoreUnavailable
from clew.extensions.listing import few
from clew.extensions.memory.facts import Fact, count_in, decoded, keys_in, topic_name
from clew.extensions.memory.files import check_readable, read_bounded, real_path, write_private

INDEX: Final = "MEMORY.md"
MAX_FILE: Final = 1024 * 1024
"""Bytes that a file of the memory may have."""


_MOST_LOOKED_AT = 1_000
"""Topics that are looked at when a session begins."""
_MOST_NAMED = 5
_NO_NAME = "{} cannot be the name of a topic. Rename it."


class Topic(Struct, frozen=True, kw_only=True):
    """A file of facts about one subject."""

    name: str
    path: str
    """From the memory's folder on."""
    facts: int = 0
    problem: str = ""
    """Why it cannot be used; empty when it can."""


class ProjectMemoryStore:
    """The files below one folder. All methods block.

    Changes read the files again before they write, so they keep what people and other
    processes wrote meanwhile; who changes them holds the folder (`files.held`).

    Args:
        folder: Where the files are, `<project>/.clew/memory`; it need not exist.
        clock: Dates the facts.
        root: The folder that `folder` must not lead out of; the project's, two above it,
            unless one is given.
    """

    def __init__(
        self, folder: Path, *, clock: Callable[[], float], root: Path | None = None
    ) -> None:
        self.folder = folder
        self._clock = clock
        self._root = root or folder.parent.parent

    def startup(self) -> str:
        """Return the beginning of the index, at most 200 lines and 25 KB of it.

        Raises:
            ClewError: It cannot be read.
        """
        # More than can be shown, so that a character which the end cuts is never shown.
        limit = MAX_BYTES + 8
        data = self._read(INDEX, limit=limit, whole=False) or b""
        return startup_text(decoded(data), goes_on=len(data) == limit)

    def index(self) -> str:
        """Return the whole index.

        Raises:
            ClewError: It cannot be read.
        """
        return decoded(self._read(INDEX) or b"")

    def topics(self) -> tuple[Topic, ...]:
        """Return the topics by name, those that cannot be used with the reason.

        Raises:
            ClewError: The folder leads somewhere else.
        """
        return tuple(self._look(path)[0] for path in self._files())

    def problems(self) -> tuple[str, ...]:
        """Return why topics cannot be used, a few of them; the files are not read.

        Only the first 1,000 are looked at, so that no folder keeps a session from opening.
        """
        found: list[str] = []
        try:
            home, paths = self._home(), self._files()[:_MOST_LOOKED_AT]
        except ClewError as error:
            return (str(error),)
        for path in paths:
            shown = f"topics/{path.name}"
            try:
                check_readable(self.folder / shown, inside=home, limit=MAX_FILE)
            except ClewError as error:
                found.append(str(error))
            else:
                found += [] if _name_of(path) else [_NO_NAME.format(shown)]
        return few(found, _MOST_NAMED, "topics cannot be used")

    def pages(self) -> Iterator[tuple[Topic, str]]:
        """Yield the topics that can be used, each with its text.

        Raises:
            ClewError: The folder leads somewhere else.
        """
        for path in self._files():
            topic, text = self._look(path)
            if not topic.problem:
                yield topic, text

    def read(self, topic: str) -> str:
        """Return what is known about a topic.

        Raises:
            ClewError: There is no such topic, or it cannot be read.
        """
        data = self._read(self.path_of(topic))
        if data is None:
            known = ", ".join(known.name for known in self.topics()) or "none yet"
            raise ConfigError(f"There is no topic `{topic_name(topic)}`. Topics: {known}.")
        return decoded(data)

    def path_of(self, topic: str) -> str:
        """Return the file of a topic, from the folder on, whether it is there or not.

        A file whose name is written in another way, such as `API Notes.md`, is found too.

        Raises:
            ConfigError: That is no name for a topic.
        """
        name = topic_name(topic)
        exact = self.folder / "topics" / f"{name}.md"
        if not exact.exists():
            for path in self._files():
                if _name_of(path) == name:
                    return f"topics/{path.name}"
        return f"topics/{name}.md"

    def has(self, fact: Fact) -> bool:
        """Is the fact in its topic already, perhaps with other case or spacing?

        Raises:
            ClewError: The topic cannot be read.
        """
        return fact.key in keys_in(decoded(self._read(self.path_of(fact.topic)) or b""))

    def append(self, fact: Fact) -> bool:
        """Write a fact into its topic and into the index, where it is not yet there.

        Returns:
            Whether the topic had it already.

        Raises:
            ClewError: A file cannot be read or written, or is full.
        """
        line = fact.line(self._clock())
        deduplicated = not self._add(self.path_of(fact.topic), line, fact, f"# {fact.topic}")
        self._add(INDEX, line, fact, "# Project memory")
        return deduplicated

    def _add(self, name: str, line: str, fact: Fact, title: str) -> bool:
        data = self._read(name) or b""
        topic = fact.topic if name == INDEX else None
        if fact.key in keys_in(decoded(data), topic=topic):
            return False
        end = b"\r\n" if b"\r\n" in data else b"\n"
        # Only bytes are added: what is there stays as it is, also where it is no text.
        before = data or title.encode() + end + end
        if not before.endswith(b"\n"):
            before += end
        after = before + line.encode() + end
        if len(after) > MAX_FILE:
            raise ConfigError(f"{self.folder / name} is full. Shorten it, or use another topic.")
        write_private(self.folder / name, after, inside=self._home())
        return True

    def _read(self, name: str, *, limit: int = MAX_FILE, whole: bool = True) -> bytes | None:
        return read_bounded(self.folder / name, inside=self._home(), limit=limit, whole=whole)

    def _home(self) -> Path:
        return real_path(self.folder, inside=self._root)

    def _files(self) -> list[Path]:
        folder = real_path(self.folder / "topics", inside=self._home())
        try:
            return sorted(path for path in folder.iterdir() if path.suffix == ".md")
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreUnavailable(f"{folder} cannot be listed: {error.strerror}.") from error

    def _look(self, path: Path) -> tuple[Topic, str]:
        shown = f"topics/{path.name}"
        name = _name_of(path)
        problem = "" if name else _NO_NAME.format(shown)
        try:
            text = decoded(self._read(shown) or b"")
        except ClewError as error:
            text, problem = "", str(error)
        name = name or path.stem
        return Topic(name=name, path=shown, facts=count_in(text), problem=problem), text


def _name_of(path: Path) -> str:
    try:
        return topic_name(path.stem)
    except ConfigError:
        return ""


MAX_LINES: Final = 200
MAX_BYTES: Final = 25 * 1024
_NOTE_ROOM = 160
"""Bytes kept for the line that says that something is missing."""


def startup_text(text: str, *, goes_on: bool = False, name: str = "MEMORY.md") -> str:
    """Return the beginning of an index: at most 200 lines of it, and at most 25 KB in all.

    It is cut after a line; a first line that is too long by itself is cut after a character.
    When something is missing, a last line says so.

    Args:
        text: The index, or its beginning.
        goes_on: The index has more than `text`, which is then too long by itself.
        name: How the file is called in that last line.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
    whole = "\n".join(lines)
    if not goes_on and len(lines) <= MAX_LINES and len(whole.encode()) <= MAX_BYTES:
        return whole
    kept = _first(lines[:MAX_LINES], MAX_BYTES - _NOTE_ROOM)
    if not kept:
        kept = [_first_characters(lines[0], MAX_BYTES - _NOTE_ROOM)]
    return "\n".join([*kept, f"[{name} goes on: of its lines the first {len(kept)} are shown]"])


def _first(lines: list[str], room: int) -> list[str]:
    kept = []
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    return kept


def _first_characters(line: str, room: int) -> str:
    return line.encode()[:room].decode("utf-8", "ignore")
