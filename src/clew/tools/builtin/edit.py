"""Edit: one exact text in a file becomes another.

A line feed in the text that is looked for also finds CRLF, and what is put in takes the
line endings of what it replaces; every byte outside the replaced text stays.
"""

import re

import anyio.to_thread
from msgspec import Struct

from clew.core.access import Risk, TargetKind
from clew.tools.builtin.diff import compare, format_short
from clew.tools.builtin.files import Unusable, decode, failure, load, resolve
from clew.tools.builtin.ledger import FileLedger
from clew.tools.builtin.near import hint
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput

_LISTED = 10


class Change(Struct, frozen=True, kw_only=True):
    """What an edit asks for."""

    path: str
    old: str
    new: str
    everywhere: bool


def edit_tool(ledger: FileLedger) -> Tool:
    """Make the Edit tool; it refuses files that changed since `ledger` saw them."""

    @tool(name="Edit", risk=Risk.MODIFY, target="file_path", kind=TargetKind.PATH)
    async def edit(
        file_path: str,
        old_string: str,
        new_string: str,
        place: ToolContext,
        *,
        replace_all: bool = False,
    ) -> ToolOutput:
        """Replace a text in a file. old_string must be in the file exactly as given, without
        line numbers, and only once: add the lines around it if need be.

        Args:
            file_path: The file.
            old_string: The text to replace.
            new_string: What stands there afterwards.
            place: Where the call runs.
            replace_all: Replace every occurrence.
        """  # noqa: D205
        change = Change(path=file_path, old=old_string, new=new_string, everywhere=replace_all)
        return await anyio.to_thread.run_sync(_edit, ledger, change, place)

    return edit


def _edit(ledger: FileLedger, change: Change, place: ToolContext) -> ToolOutput:
    path = resolve(change.path, place)
    try:
        with ledger.lock(path):
            data = load(path, change.path)
            ledger.check(path, data, change.path)
            file = decode(data, change.path)
            text, lines = apply(file.text, change)
            fresh = file.encode(text)
            before = place.before_change
            ledger.replace(path, fresh, change.path, expected=data, before=before)
    except Unusable as error:
        return failure(str(error))
    diff = compare(file.text, text, change.path)
    times = "1 replacement" if len(lines) == 1 else f"{len(lines)} replacements"
    return ToolOutput(
        text=f"Edited {change.path}: {times} at {_listed(lines)}.",
        display=format_short(diff),
        data=diff.data() | {"replacements": len(lines)},
    )


def apply(text: str, change: Change) -> tuple[str, list[int]]:
    """Return the changed text and the lines where it was changed.

    Raises:
        Unusable: The old text is empty, absent, or there more than once.
    """
    old = change.old.replace("\r\n", "\n")
    if not old:
        raise Unusable("old_string is empty. To create a file, use Write.")
    if old == change.new.replace("\r\n", "\n"):
        raise Unusable("old_string and new_string are the same.")
    pattern = re.compile(r"\r?\n".join(map(re.escape, old.split("\n"))))
    found = list(pattern.finditer(text))
    if not found:
        raise Unusable(f"old_string is not in {change.path}. {hint(text, old)}")
    lines = _lines_at(text, [match.start() for match in found])
    if len(found) > 1 and not change.everywhere:
        raise Unusable(
            f"old_string is in {change.path} {len(found)} times, at {_listed(lines)}. "
            "Add lines around it to make it unique, or set replace_all."
        )
    ending = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    return pattern.sub(lambda match: _fitting(change.new, match[0], ending), text), lines


def _fitting(new: str, replaced: str, ending: str) -> str:
    if "\n" in replaced:
        ending = "\r\n" if "\r\n" in replaced else "\n"
    return new.replace("\r\n", "\n").replace("\n", ending)


def _lines_at(text: str, places: list[int]) -> list[int]:
    numbers, number, last = list[int](), 1, 0
    for place in places:
        number += text.count("\n", last, place)
        numbers.append(number)
        last = place
    return numbers


def _listed(lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:_LISTED])) + (", …" if len(lines) > _LISTED else "")
    return f"line {shown}" if len(lines) == 1 else f"lines {shown}"
