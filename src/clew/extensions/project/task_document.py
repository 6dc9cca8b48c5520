"""The Markdown of a task file: find its metadata and sections, and change them.

A change keeps all other lines byte for byte, with any line endings. Code blocks are never taken
for headings or metadata. All patterns run in linear time, because a file may be hostile.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

_HEADING = re.compile(r"(#{1,6})[ \t]")
_FENCE = re.compile(r" {0,3}(`{3,}+|~{3,}+)")
_OPEN_ITEM = re.compile(r"\s*+(?:[-*+]|\d++[.)])[ \t]++\[ \][ \t]++(\S.*)")
_METADATA = re.compile(r"[-*+][ \t]++\*\*[^*]++\*\*[ \t]*+:")
_PROGRESS = re.compile(r"progress\b", re.IGNORECASE)
_BOLD = r"(?:\*\*|__)?"
_COLON = rf"[ \t]*+:{_BOLD}[ \t]*+[\"'`]?"
"""What separates the name of a field from its value."""
_NOTHING = frozenset({"", "-", "--", "—", "none", "n/a", "tbd", "null", "~"})


class Heading(Struct, frozen=True):
    """A heading, and the section below it."""

    place: int
    level: int
    title: str
    stop: int
    """The index after the last line of its section."""


class Field(Struct, frozen=True):
    """The position of a field's value in its line."""

    place: int
    start: int
    stop: int


class TaskDocument:
    """The lines of a Markdown file, with its metadata and headings."""

    def __init__(self, text: str) -> None:
        self.lines: list[str] = re.findall(r"[^\n]*\n|[^\n]+", text)
        self.end = "\r\n" if "\r\n" in text else "\n"
        self.front = self._front()
        """The number of lines of the frontmatter, with its fences."""
        self.prose = tuple(self._prose())
        """The indexes of all lines after it that are not code."""
        self.headings = self._headings()

    def title(self) -> str:
        """Return the first heading of the first level."""
        return next((heading.title for heading in self.headings if heading.level == 1), "")

    def value(self, name: str) -> str:
        """Return the value of a metadata field; empty if there is none."""
        found = self.field(name)
        value = self.lines[found.place][found.start : found.stop].strip() if found else ""
        return "" if value.lower() in _NOTHING else value

    def field(self, name: str) -> Field | None:
        """Find a metadata field, in the frontmatter or before the first section."""
        plain = re.compile(name + _COLON, re.IGNORECASE)
        for place in range(1, self.front - 1):
            if found := plain.match(self.lines[place]):
                value = self.lines[place][found.end() :].split(" #")[0]
                return Field(place, found.end(), found.end() + len(_bare(value)))
        marked = re.compile(
            rf"\ufeff?\s*+(?:[-*+][ \t]++)?{_BOLD}{name}{_BOLD}{_COLON}", re.IGNORECASE
        )
        for place in self.header():
            if found := marked.match(self.lines[place]):
                value = self.lines[place][found.end() :]
                return Field(place, found.end(), found.end() + len(_bare(value)))
        return None

    def header(self) -> Iterator[int]:
        """Yield the line indexes before the first section, and those of a section `Metadata`."""
        sections = [heading for heading in self.headings if heading.level > 1]
        first = sections[0].place if sections else len(self.lines)
        own = (range(h.place, h.stop) for h in sections if h.title.lower() == "metadata")
        metadata = next(own, range(0))
        for place in self.prose:
            if place < first or place in metadata:
                yield place

    def find(
        self, wanted: re.Pattern[str], start: int = 0, stop: int | None = None
    ) -> Heading | None:
        """Return the first section between two lines whose title matches at its start."""
        last = len(self.lines) if stop is None else stop
        for heading in self.headings:
            if heading.level > 1 and start <= heading.place < last and wanted.match(heading.title):
                return heading
        return None

    def section(self, wanted: re.Pattern[str]) -> list[str]:
        """Return the lines of a section, without headings."""
        found = self.find(wanted)
        lines = self.lines[found.place + 1 : found.stop] if found else []
        return [line.strip() for line in lines if not _HEADING.match(line)]

    def open_items(self, wanted: re.Pattern[str]) -> list[str]:
        """Return the unchecked items of all sections with a matching title, or else of the file."""
        inside: set[int] = set()
        for heading in self.headings:
            if heading.level > 1 and heading.place not in inside and wanted.search(heading.title):
                inside.update(range(heading.place, heading.stop))
        places = (place for place in self.prose if place in inside or not inside)
        found = (_OPEN_ITEM.match(self.lines[place]) for place in places)
        return [item[1].strip() for item in found if item]

    def _front(self) -> int:
        if self.lines and self.lines[0].removeprefix("\ufeff").rstrip() == "---":
            for place, line in enumerate(self.lines[1:100], start=1):
                if line.rstrip() == "---":
                    return place + 1
        return 0

    def _prose(self) -> Iterator[int]:
        fence = ""
        for place in range(self.front, len(self.lines)):
            found = _FENCE.match(self.lines[place])
            if fence:
                if found and found[1].startswith(fence):
                    fence = ""
            elif found:
                fence = found[1]
            else:
                yield place

    def _headings(self) -> tuple[Heading, ...]:
        made: list[Heading] = []
        stops = [len(self.lines)] * 7
        for place in reversed(self.prose):
            line = self.lines[place].removeprefix("\ufeff")
            if found := _HEADING.match(line):
                level = len(found[1])
                title = line[found.end() :].strip().rstrip("#").rstrip()
                made.append(Heading(place, level, title, stops[level]))
                stops[level:] = [place] * (7 - level)
        return tuple(reversed(made))


def set_status(text: str, status: str) -> str:
    """Return the text with a new status; a status is added if there was none."""
    document = TaskDocument(text)
    lines, end = document.lines, document.end
    if found := document.field("status"):
        line = lines[found.place]
        gap = " " if line[found.start - 1] in ":*_" else ""
        lines[found.place] = line[: found.start] + gap + status + line[found.stop :]
    elif document.front:
        lines.insert(document.front - 1, f"status: {status}{end}")
    else:
        lines = _with_metadata(document, f"- **Status**: {status}")
    return "".join(lines)


def add_progress(text: str, message: str, date: str) -> str:
    """Return the text with an entry below a date in the section `Progress`."""
    document = TaskDocument(text)
    section = document.find(_PROGRESS)
    if section is None:
        new = ("## Progress", "", f"### {date}", "", f"- {message}")
        return _with_block(document, len(document.lines), *new)
    day = document.find(re.compile(re.escape(date)), section.place + 1, section.stop)
    if day is None:
        return _with_block(document, section.stop, f"### {date}", "", f"- {message}")
    last = max(p for p in range(day.place, day.stop) if document.lines[p].strip())
    if last == day.place:
        return _with_block(document, last + 1, f"- {message}")
    before = _end_last_line(document.lines[: last + 1], document.end)
    return "".join([*before, f"- {message}{document.end}", *document.lines[last + 1 :]])


def _with_metadata(document: TaskDocument, line: str) -> list[str]:
    lines, end = document.lines, document.end
    header = frozenset(document.header())
    for place in sorted(header):
        if _METADATA.match(lines[place]):
            return [*lines[:place], line + end, *lines[place:]]
    titles = [heading.place for heading in document.headings if heading.level == 1]
    if titles and titles[0] in header:
        before, after = _end_last_line(lines[: titles[0] + 1], end), lines[titles[0] + 1 :]
        return [*before, end, line + end, *_gap(after, end), *after]
    mark = "\ufeff" if lines and lines[0].startswith("\ufeff") else ""
    rest = [lines[0].removeprefix("\ufeff"), *lines[1:]] if lines else []
    return [f"{mark}{line}{end}", *_gap(rest, end), *rest]


def _with_block(document: TaskDocument, place: int, *new: str) -> str:
    """Return the text with `new` lines before `place`, and blank lines around them."""
    end = document.end
    while place and not document.lines[place - 1].strip():
        place -= 1
    before, after = _end_last_line(document.lines[:place], end), document.lines[place:]
    above = [end] if before else []
    return "".join([*before, *above, *(line + end for line in new), *_gap(after, end), *after])


def _gap(after: list[str], end: str) -> list[str]:
    """Return a blank line unless `after` begins with one."""
    return [end] if after and after[0].strip() else []


def _end_last_line(lines: list[str], end: str) -> list[str]:
    return [*lines[:-1], lines[-1] + end] if lines and not lines[-1].endswith("\n") else lines


def _bare(value: str) -> str:
    """Return a value without closing quotes and bold marks."""
    value = value.rstrip()
    for mark in ("**", "__"):
        value = value.removesuffix(mark).rstrip()
    return value[:-1] if value[-1:] in ("'", '"', "`") else value
