"""The summary that another program left at the beginning of a conversation, quoted by sections.

A session that continues one of another agent begins with what that agent wrote about it. The
messages before are gone, so this is all that is known about them: the first request, what the
user demanded, what failed.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from clew.context.digest.sections import TextSection, fill_sections
from clew.context.summary_text import clean_summary, drop_code
from clew.core.ids import EntryId


class EarlierSummary(Struct, frozen=True, kw_only=True):
    """A summary and the entry that has it."""

    entry_id: EntryId
    text: str


_HEADING = re.compile(r"^(?:#{1,4} |\d{1,2}\. |\*\*)\S.{0,80}$", re.MULTILINE)
_SHARES = (
    (4.0, re.compile(r"user message|user['’]s (?:words|message)", re.IGNORECASE)),
    (3.0, re.compile(r"request|intent|goal|objective|task description", re.IGNORECASE)),
    (2.0, re.compile(r"error|fix|problem|fail|decision|rule|constraint|prefer", re.IGNORECASE)),
    (0.5, re.compile(r"current|pending|next|remaining|to-?do|progress", re.IGNORECASE)),
)
"""Parts of the room by heading; what was current or next then has been done since."""


def quote_summary(summary: str, *, max_chars: int, told: str = "") -> str:
    """Quote the sections of a summary in at most `max_chars` characters.

    Lines that the text `told` has are left out, and so is code if there is not enough room.
    """
    summary = clean_summary(summary)
    if len(summary) > max_chars:
        summary = drop_code(summary)
    sections = list(_split_sections(summary, told))
    return fill_sections(sections, max_chars=max_chars)


def _split_sections(summary: str, told: str) -> Iterator[TextSection]:
    heading, lines = "", list[str]()
    for line in filter(str.strip, summary.split("\n")):
        if _HEADING.match(line):
            yield _make_section(heading, lines)
            heading, lines = line.strip(), []
        elif line.strip() not in told:
            lines.append(line)
    yield _make_section(heading, lines)


def _make_section(heading: str, lines: list[str]) -> TextSection:
    """Return a section with its share; what precedes all headings begins with its first line."""
    if not heading and lines:
        heading, *lines = lines
    shares = (share for share, words in _SHARES if words.search(heading))
    return TextSection(heading, lines, next(shares, 1.0))
