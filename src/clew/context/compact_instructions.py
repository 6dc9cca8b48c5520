"""The section "Compact Instructions" of a project's notes: what its summaries should keep."""

import re

_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*(.*)$")
_WANTED = re.compile(r"compact\s+instructions", re.IGNORECASE)


def find_compact_instructions(notes: str) -> str:
    """Return the section "Compact Instructions" of a project's notes, or an empty string.

    It ends at the next heading of the same or a higher level.
    """
    level = 0
    fence = ""
    found: list[str] = []
    for line in notes.splitlines():
        fence = _fence(line, fence)
        heading = None if fence else _HEADING.match(line)
        if level and heading and len(heading.group(1)) <= level:
            break
        if level:
            found.append(line)
        elif heading and _WANTED.search(heading.group(2)):
            level = len(heading.group(1))
    return "\n".join(found).strip()


def _fence(line: str, fence: str) -> str:
    """Return the code fence that is open after `line`; headings inside do not count."""
    found = _FENCE.match(line)
    if not fence:
        return found.group(1) if found else ""
    closes = found and found.group(1).startswith(fence) and not found.group(2)
    return "" if closes else fence
