"""`FileChange`: what a tool call changed in one file, as a structured diff.

Tools that write files put it into the `data` of their result; clients read it back with
`read_file_change` and never look at the keys themselves.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

NO_NEWLINE = "\n\\ No newline at end of file"
"""Suffix of the last line of a file that does not end with a line break, as in `diff -u`."""

Mark: TypeAlias = Literal[" ", "-", "+"]
"""How a line of a diff begins: unchanged, removed or added."""


class ChangedLine(Struct, frozen=True):
    """One line of a diff with its number."""

    mark: Mark
    number: int
    """In the new file; for a removed line, in the old one."""
    text: str
    no_newline: bool = False
    """True for the last line of a file that does not end with a line break."""


class Hunk(Struct, frozen=True, kw_only=True):
    """One stretch of a unified diff; line numbers start at 1."""

    old_start: int
    old_lines: int = 0
    new_start: int
    new_lines: int = 0
    lines: tuple[str, ...]
    """Each begins with a space, `-` or `+`."""

    @classmethod
    def of(cls, old_start: int, new_start: int, lines: Iterable[str]) -> "Hunk":
        """Make a hunk and count its lines."""
        lines = tuple(lines)
        return cls(
            old_start=old_start,
            old_lines=_count(lines, " -"),
            new_start=new_start,
            new_lines=_count(lines, " +"),
            lines=lines,
        )

    @property
    def header(self) -> str:
        """The `@@` line."""
        return f"@@ -{self.old_start},{self.old_lines} +{self.new_start},{self.new_lines} @@"

    def number_lines(self) -> Iterator[ChangedLine]:
        """Yield the lines with their numbers and without their marks."""
        old, new = self.old_start, self.new_start
        for line in self.lines:
            text, missing, _ = line[1:].partition(NO_NEWLINE)
            match line[:1]:
                case "-":
                    yield ChangedLine("-", old, text, bool(missing))
                    old += 1
                case "+":
                    yield ChangedLine("+", new, text, bool(missing))
                    new += 1
                case _:
                    yield ChangedLine(" ", new, text, bool(missing))
                    old, new = old + 1, new + 1


class FileChange(Struct, frozen=True, kw_only=True):
    """A unified diff of one file. Its JSON is the `data` of the tools Write and Edit."""

    path: str
    added: int
    """Lines that are new."""
    removed: int
    """Lines that are gone."""
    hunks: tuple[Hunk, ...]
    diff: str = ""
    """The whole diff as text, as `patch` reads it."""
    created: bool = False
    """True if the file did not exist before."""

    @classmethod
    def of(cls, path: str, hunks: Iterable[Hunk], *, created: bool = False) -> "FileChange":
        """Make a change of the file at `path`; counts its lines and writes the text."""
        hunks = tuple(hunks)
        name = path.lstrip("/")
        head = [f"--- a/{name}", f"+++ b/{name}"]
        body = [line for hunk in hunks for line in (hunk.header, *hunk.lines)]
        return cls(
            path=path,
            added=sum(_count(hunk.lines, "+") for hunk in hunks),
            removed=sum(_count(hunk.lines, "-") for hunk in hunks),
            hunks=hunks,
            diff="\n".join([*head, *body]) if hunks else "",
            created=created,
        )

    def data(self) -> dict[str, Any]:
        """Return the change as plain values, for the `data` of a tool result."""
        return dict(msgspec.to_builtins(self))


def read_file_change(data: Mapping[str, object]) -> FileChange | None:
    """Return the change that the `data` of a tool result reports.

    None if it reports no change, whatever else it contains: tools of others may put anything
    there.
    """
    if not data:
        return None
    try:
        change = msgspec.convert(dict(data), FileChange)
    except msgspec.ValidationError:
        return None
    return change if change.hunks else None


def _count(lines: Iterable[str], marks: str) -> int:
    return sum(line[:1] in marks for line in lines)
