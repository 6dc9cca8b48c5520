"""The Edit tool: replaces an exact text in a file.

A line feed in the old text also matches CRLF, and the new text takes the line endings of the
text it replaces. All bytes outside the replaced text stay the same. A redaction mark in the old
text matches the secret behind it, and one in the new text is replaced by that secret.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from clew.core.permissions import Risk, TargetKind
from clew.core.redaction.marks import MARK_PATTERN, RedactedText
from clew.core.text import pluralize
from clew.tools.builtin.diff import compare, format_short
from clew.tools.builtin.file_states import FileStates
from clew.tools.builtin.files import (
    ToolFailure,
    decode,
    failure,
    find_bad_path,
    load,
    resolve,
    split_lines,
    truncate_line,
)
from clew.tools.builtin.redaction_marks import (
    Secret,
    has_mark,
    hide_file,
    list_secrets,
    restore_secrets,
    to_original,
)
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput

_LISTED = 10
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
"""The most lines to compare character by character: difflib is slow."""
_SHOWN = 30


class EditRequest(Struct, frozen=True, kw_only=True):
    """The arguments of one call."""

    path: str
    old: str
    new: str
    everywhere: bool
    marks: bool = True
    """Whether redaction marks stand for secrets."""

    @property
    def old_has_mark(self) -> bool:
        """Whether the old text must be searched in the redacted file."""
        return self.marks and has_mark(self.old)

    @property
    def new_has_mark(self) -> bool:
        """Whether secrets must be put back into the new text."""
        return self.marks and has_mark(self.new)


def edit_tool(states: FileStates) -> Tool:
    """Make the Edit tool; it refuses files that changed since `states` saw them."""

    @tool(name="Edit", risk=Risk.MODIFY, target="file_path", kind=TargetKind.PATH)
    async def edit(
        file_path: str,
        old_string: str,
        new_string: str,
        context: ToolContext,
        *,
        replace_all: bool = False,
    ) -> ToolOutput:
        """Replace a text in a file. old_string must be in the file exactly as given, without
        line numbers, and only once: add surrounding lines if necessary.

        Args:
            file_path: The file.
            old_string: The text to replace.
            new_string: The text to put in its place.
            context: Where the call runs.
            replace_all: Replace every occurrence.
        """  # noqa: D205
        change = EditRequest(
            path=file_path,
            old=old_string,
            new=new_string,
            everywhere=replace_all,
            marks=context.redact_values is not None,
        )
        return await anyio.to_thread.run_sync(_edit, states, change, context)

    edit.restores_secrets = True
    edit.find_failure = partial(_find_failure, states)
    edit.find_problem = _find_problem
    return edit


def _find_problem(file_path: str, old_string: str, new_string: str, **_: object) -> str:
    """Say why an edit cannot succeed, whatever the file has."""
    old = old_string.replace("\r\n", "\n")
    if not old:
        return "old_string is empty. To create a file, use Write."
    if old == new_string.replace("\r\n", "\n"):
        return "old_string and new_string are the same."
    return find_bad_path(file_path)


def _find_failure(
    states: FileStates,
    *,
    file_path: str,
    old_string: str,
    new_string: str,
    context: ToolContext,
    replace_all: bool = False,
) -> ToolOutput | None:
    change = EditRequest(
        path=file_path,
        old=old_string,
        new=new_string,
        everywhere=replace_all,
        marks=context.redact_values is not None,
    )
    try:
        _plan_edit(states, resolve(file_path, context), change, context)
    except ToolFailure as error:
        return failure(str(error))
    return None


class _PlannedEdit(Struct, frozen=True, kw_only=True):
    """The content of a file before and after an edit."""

    data: bytes
    old_text: str
    new_text: str
    new_data: bytes
    lines: list[int]
    """The numbers of the changed lines."""


def _plan_edit(
    states: FileStates, path: Path, change: EditRequest, context: ToolContext
) -> _PlannedEdit:
    data = load(path, change.path, context.documents)
    states.check(path, data, change.path)
    file = decode(data, change.path)
    shown = RedactedText(file.text)
    if change.old_has_mark or change.new_has_mark:
        shown = hide_file(file.text, context)
    text, lines = apply(shown, file.text, change)
    return _PlannedEdit(
        data=data, old_text=file.text, new_text=text, new_data=file.encode(text), lines=lines
    )


def _edit(states: FileStates, change: EditRequest, context: ToolContext) -> ToolOutput:
    try:
        path = resolve(change.path, context)
        with states.lock(path):
            plan = _plan_edit(states, path, change, context)
            states.replace(path, plan.new_data, change.path, expected=plan.data, context=context)
    except ToolFailure as error:
        return failure(str(error))
    diff = compare(plan.old_text, plan.new_text, change.path)
    times = pluralize(len(plan.lines), "replacement")
    return ToolOutput(
        text=f"Edited {change.path}: {times} at {_format_lines(plan.lines)}.",
        display=format_short(diff),
        data=diff.data() | {"replacements": len(plan.lines)},
    )


def apply(file: RedactedText, text: str, change: EditRequest) -> tuple[str, list[int]]:
    """Return the changed text and the numbers of the changed lines.

    Args:
        file: The file as the model sees it: marks in the old text match the secrets behind them.
        text: Its original text.
        change: The replacement.

    Raises:
        ToolFailure: The old text is empty, missing, or occurs more than once, or it is not
            certain which secret a mark in the new text stands for.
    """
    if problem := _find_problem(change.path, change.old, change.new):
        raise ToolFailure(problem)
    old = change.old.replace("\r\n", "\n")
    found = _find_old(file, old) if change.old_has_mark else _find_exactly(text, old)
    if not found:
        raise ToolFailure(f"old_string is not in {change.path}. {describe_near_misses(text, old)}")
    lines = _line_numbers(text, [place.start for place in found])
    if len(found) > 1 and not change.everywhere:
        raise ToolFailure(
            f"old_string is in {change.path} {len(found)} times, at {_format_lines(lines)}. "
            "Add lines around it to make it unique, or set replace_all."
        )
    return _replace(file, text, change, found), lines


class _Place(Struct, frozen=True):
    """Where the old text is in the original text, and the marks that it has there."""

    start: int
    end: int
    secrets: tuple[Secret, ...] = ()


def _find_exactly(text: str, old: str) -> list[_Place]:
    pattern = re.compile(_match_line_feeds(old))
    return [_Place(*match.span()) for match in pattern.finditer(text)]


def _find_old(file: RedactedText, old: str) -> list[_Place]:
    """Find a text with marks; the kind of a mark may differ between two outputs."""
    pieces = MARK_PATTERN.split(old)[::2]
    pattern = re.compile(MARK_PATTERN.pattern.join(map(_match_line_feeds, pieces)))
    places = list[_Place]()
    for match in pattern.finditer(file.text):
        start, end = to_original(file, match.start()), to_original(file, match.end())
        if start is not None and end is not None:
            places.append(_Place(start, end, tuple(list_secrets(file, *match.span()))))
    return places


def _match_line_feeds(text: str) -> str:
    return r"\r?\n".join(map(re.escape, text.split("\n")))


def _replace(file: RedactedText, text: str, change: EditRequest, found: list[_Place]) -> str:
    ending = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    secrets = list_secrets(file) if change.new_has_mark else []
    pieces, done = list[str](), 0
    for place in found:
        new = _convert_endings(change.new, text[place.start : place.end], ending)
        if change.new_has_mark:
            new = restore_secrets(new, secrets, change.path, region=place.secrets)
        pieces += (text[done : place.start], new)
        done = place.end
    return "".join((*pieces, text[done:]))


def _convert_endings(new: str, replaced: str, ending: str) -> str:
    if "\n" in replaced:
        ending = "\r\n" if "\r\n" in replaced else "\n"
    return new.replace("\r\n", "\n").replace("\n", ending)


def _line_numbers(text: str, places: list[int]) -> list[int]:
    numbers, number, last = list[int](), 1, 0
    for place in places:
        number += text.count("\n", last, place)
        numbers.append(number)
        last = place
    return numbers


def _format_lines(lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:_LISTED])) + (", …" if len(lines) > _LISTED else "")
    return f"line {shown}" if len(lines) == 1 else f"lines {shown}"


def describe_near_misses(text: str, wanted: str) -> str:
    """Describe the part of `text` that is most similar to `wanted`, which is not in it."""
    lines, asked = split_lines(text), wanted.strip("\n").split("\n")
    said = [line for line in asked if line.strip()]
    if said and all(_NUMBERED.match(line) for line in said):
        return "It has line numbers, which are not part of the file: remove them and the tab."
    if places := list(_same_words(lines, asked)):
        return _quote_lines(lines, places, len(asked), "With other whitespace it is")
    plain = [line.translate(_LOOKALIKES) for line in lines]
    if places := list(_same_words(plain, [line.translate(_LOOKALIKES) for line in asked])):
        return _quote_lines(lines, places, len(asked), "With characters that look alike it is")
    return _nearest(lines, asked)


def _same_words(lines: Sequence[str], asked: Sequence[str]) -> Iterator[int]:
    """Yield the lines at which `asked` occurs, whitespace aside; it may start or end in a line."""
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


def _quote_lines(lines: Sequence[str], places: Sequence[int], size: int, how: str) -> str:
    first, others = places[0], len(places) - 1
    where = f"line {first + 1}" if size == 1 else f"lines {first + 1}-{first + size}"
    more = f" and in {pluralize(others, 'other place')}" if others else ""
    shown = "\n".join(truncate_line(line) for line in lines[first : first + min(size, _SHOWN)])
    return f"{how} at {where}{more}. The file has there:\n{shown}"


def _nearest(lines: Sequence[str], asked: Sequence[str]) -> str:
    wanted = next((line.strip() for line in asked if line.strip()), "")
    stripped = [line.strip() for line in lines[:_COMPARED]]
    close = difflib.get_close_matches(wanted, stripped, n=1, cutoff=0.5) if wanted else []
    if not close:
        return "Read the file again to see its current content."
    number = stripped.index(close[0]) + 1
    if close[0] == wanted:
        return f"Its first line is line {number}; the lines after it differ."
    return f"The nearest line is line {number}: {truncate_line(close[0])}"
