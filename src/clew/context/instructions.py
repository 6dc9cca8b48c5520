"""What a project wants to survive a compaction, as its own notes say it."""

import re

_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_WANTED = re.compile(r"compact\s+instructions", re.IGNORECASE)


def compact_instructions(notes: str) -> str:
    """Return the text under the first heading that speaks of compact instructions.

    It goes on to the next heading of the same or a higher level. Empty when there is none.
    """
    level = 0
    found: list[str] = []
    for line in notes.splitlines():
        heading = _HEADING.match(line)
        if level and heading and len(heading.group(1)) <= level:
            break
        if level:
            found.append(line)
        elif heading and _WANTED.search(heading.group(2)):
            level = len(heading.group(1))
    return "\n".join(found).strip()
