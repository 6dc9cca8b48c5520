"""`ProjectMemoryStore`: the index and the topics on disk."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from clew.core.errors import ClewError, ConfigError, StoreUnavailable
from clew.core.text import pluralize
from clew.extensions.memory.facts import Fact, count_facts, decode_file, parse_topic, read_fact_keys
from clew.extensions.private_files import (
    check_readable,
    read_bounded,
    resolve_inside,
    write_private,
)
from clew.extensions.text_lists import summarize_warnings

INDEX: Final = "MEMORY.md"
MAX_FILE: Final = 1024 * 1024
"""Bytes of one file."""


_MAX_CHECKED = 1_000
"""Topics that are checked when a session begins."""
_MAX_NAMED = 5
_BAD_NAME = "{} is not a valid name for a topic. Rename the file."


class MemoryTopic(Struct, frozen=True, kw_only=True):
    """A file of facts about one subject."""

    name: str
    path: str
    """Relative to the memory's folder."""
    facts: int = 0
    problem: str = ""
    """Why it cannot be used; empty if it can."""


class ProjectMemoryStore:
    """Stores facts in the files of one folder. All methods block.

    Every change reads the files again before it writes, so it keeps what people and other
    processes wrote; the caller locks the folder (`private_files.lock_folder`).

    Args:
        folder: The folder, `<project>/.clew/memory`; it need not exist. Links may not lead out
            of the project, two folders above it.
        clock: Returns the time for the date of a fact.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], float]) -> None:
        self.folder = folder
        self._clock = clock
        self._root = folder.parent.parent

    def startup(self) -> str:
        """Return the beginning of the index, at most 200 lines and 25 KB.

        Raises:
            ClewError: It cannot be read.
        """
        # A little more than is shown, so that a character cut at the end is never shown.
        limit = MAX_BYTES + 8
        data = self._read(INDEX, limit=limit, whole=False) or b""
        return truncate_index(decode_file(data), goes_on=len(data) == limit)

    def index(self) -> str:
        """Return the whole index.

        Raises:
            ClewError: It cannot be read.
        """
        return decode_file(self._read(INDEX) or b"")

    def topics(self) -> tuple[MemoryTopic, ...]:
        """Return the topics by name; those that cannot be used have a `problem`.

        Raises:
            ClewError: The folder leads out of the project.
        """
        return tuple(self._look(path)[0] for path in self._files())

    def problems(self) -> tuple[str, ...]:
        """Return why topics cannot be used, for a few of them; the files are not read.

        Only the first 1,000 topics are checked, so that no folder delays the start of a session.
        """
        found: list[str] = []
        try:
            home, paths = self._home(), self._files()[:_MAX_CHECKED]
        except ClewError as error:
            return (str(error),)
        for path in paths:
            shown = f"topics/{path.name}"
            try:
                check_readable(self.folder / shown, inside=home, limit=MAX_FILE)
            except ClewError as error:
                found.append(str(error))
            else:
                found += [] if _name_of(path) else [_BAD_NAME.format(shown)]
        return summarize_warnings(found, _MAX_NAMED, "topics cannot be used")

    def pages(self) -> Iterator[tuple[MemoryTopic, str]]:
        """Yield the topics that can be used, each with its text.

        Raises:
            ClewError: The folder leads out of the project.
        """
        for path in self._files():
            topic, text = self._look(path)
            if not topic.problem:
                yield topic, text

    def read(self, topic: str) -> str:
        """Return the text of a topic.

        Raises:
            ClewError: There is no such topic, or it cannot be read.
        """
        data = self._read(self.path_of(topic))
        if data is None:
            known = ", ".join(known.name for known in self.topics()) or "none yet"
            raise ConfigError(f"There is no topic `{parse_topic(topic)}`. Topics: {known}.")
        return decode_file(data)

    def path_of(self, topic: str) -> str:
        """Return the relative path of a topic's file, whether it exists or not.

        A file with another spelling of the name, such as `API Notes.md`, is found too.

        Raises:
            ConfigError: The topic is not valid.
        """
        name = parse_topic(topic)
        exact = self.folder / "topics" / f"{name}.md"
        if not exact.exists():
            for path in self._files():
                if _name_of(path) == name:
                    return f"topics/{path.name}"
        return f"topics/{name}.md"

    def has(self, fact: Fact) -> bool:
        """Return whether the topic has the fact, perhaps with other case or spacing.

        Raises:
            ClewError: The topic cannot be read.
        """
        return fact.key in read_fact_keys(decode_file(self._read(self.path_of(fact.topic)) or b""))

    def append(self, fact: Fact) -> bool:
        """Add a fact to its topic and to the index, unless they have it.

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
        if fact.key in read_fact_keys(decode_file(data), topic=topic):
            return False
        end = b"\r\n" if b"\r\n" in data else b"\n"
        # Bytes are appended: existing content stays unchanged, even if it is not valid text.
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
        return resolve_inside(self.folder, inside=self._root)

    def _files(self) -> list[Path]:
        folder = resolve_inside(self.folder / "topics", inside=self._home())
        try:
            return sorted(path for path in folder.iterdir() if path.suffix == ".md")
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreUnavailable(f"{folder} cannot be listed: {error.strerror}.") from error

    def _look(self, path: Path) -> tuple[MemoryTopic, str]:
        shown = f"topics/{path.name}"
        name = _name_of(path)
        problem = "" if name else _BAD_NAME.format(shown)
        try:
            text = decode_file(self._read(shown) or b"")
        except ClewError as error:
            text, problem = "", str(error)
        name = name or path.stem
        return MemoryTopic(name=name, path=shown, facts=count_facts(text), problem=problem), text


def _name_of(path: Path) -> str:
    try:
        return parse_topic(path.stem)
    except ConfigError:
        return ""


MAX_LINES: Final = 200
MAX_BYTES: Final = 25 * 1024
_NOTE_ROOM = 160
"""Bytes reserved for the line that says that something is missing."""


def truncate_index(text: str, *, goes_on: bool = False) -> str:
    """Return the beginning of an index: at most 200 lines and 25 KB.

    It is truncated after a line; a first line that is too long is truncated after a character.
    A last line says that something is missing.

    Args:
        text: The index, or its beginning.
        goes_on: The index has more than `text`.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
    whole = "\n".join(lines)
    if not goes_on and len(lines) <= MAX_LINES and len(whole.encode()) <= MAX_BYTES:
        return whole
    kept = _first(lines[:MAX_LINES], MAX_BYTES - _NOTE_ROOM)
    if not kept:
        kept = [_first_characters(lines[0], MAX_BYTES - _NOTE_ROOM)]
    return "\n".join([*kept, f"[{INDEX} is truncated: {pluralize(len(kept), 'line')} shown]"])


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
