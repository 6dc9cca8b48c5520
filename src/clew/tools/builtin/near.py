"""Why a text is not in a file: what stands there instead, for a model to copy.

Most texts that are not found differ from the file in little: indentation, line numbers that
were copied along, or a character that looks like another.
"""

import difflib
import re
from collections.abc import Iterator, Sequence

from clew.tools.builtin.files import cut, lines_of

_NUMBERED = re.compile(r"\s*\d+\t")
_ALIKE = {
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u2010": "-",
    "\u2011": "-",
    "\u2012": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u2212": "-",
    "\u00a0": " ",
    "\u202f": " ",
}
_LOOKALIKES = str.maketrans(_ALIKE)
_COMPARED = 5_000
"""Lines that are compared letter by letter: difflib is slow."""
_SHOWN = 30


def hint(text: str, wanted: str) -> str:
    """Say what in `text` comes nearest to `wanted`, which is not in it."""
    lines, asked = lines_of(text), wanted.strip("\n").split("\n")
    said = [line for line in asked if line.strip()]
    if said and all(_NUMBERED.match(line) for line in said):
        return "It has line numbers, which are not part of the file: leave them and the tab out."
    if places := list(_same_words(lines, asked)):
        return _quoted(lines, places, len(asked), "With other whitespace it is")
    plain = [line.translate(_LOOKALIKES) for line in lines]
    if places := list(_same_words(plain, [line.translate(_LOOKALIKES) for line in asked])):
        return _quoted(lines, places, len(asked), "With characters that look alike it is")
    return _nearest(lines, asked)


def _same_words(lines: Sequence[str], asked: Sequence[str]) -> Iterator[int]:
    """Yield where `asked` stands, blanks aside. It may begin and end within a line."""
    wanted = ["".join(line.split()) for line in asked]
    if not any(wanted):
        return
    found = ["".join(line.split()) for line in lines]
    first, last, size = wanted[0], wanted[-1], len(wanted)
    for at in range(len(found) - size + 1):
        if size == 1:
            if first in found[at]:
                yield at
        elif (
            found[at].endswith(first)
            and found[at + size - 1].startswith(last)
            and found[at + 1 : at + size - 1] == wanted[1:-1]
        ):
            yield at


def _quoted(lines: Sequence[str], places: Sequence[int], size: int, how: str) -> str:
    first, others = places[0], len(places) - 1
    where = f"line {first + 1}" if size == 1 else f"lines {first + 1}-{first + size}"
    more = f" and in {others} other places" if others else ""
    shown = "\n".join(cut(line) for line in lines[first : first + min(size, _SHOWN)])
    return f"{how} at {where}{more}. The file says there:\n{shown}"


def _nearest(lines: Sequence[str], asked: Sequence[str]) -> str:
    wanted = next((line.strip() for line in asked if line.strip()), "")
    stripped = [line.strip() for line in lines[:_COMPARED]]
    close = difflib.get_close_matches(wanted, stripped, n=1, cutoff=0.5) if wanted else []
    if not close:
        return "Read the file again to see what it says now."
    number = stripped.index(close[0]) + 1
    if close[0] == wanted:
        return f"Its first line is line {number}; what follows there differs."
    return f"The nearest line is line {number}: {cut(close[0])}"
