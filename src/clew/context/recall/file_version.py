"""The latest version of a file that a session knows: last read or written, then edited."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from clew.context.recall.entry_text import decode_arguments, format_call
from clew.context.recall.search import names_file
from clew.context.recall.units import Unit
from clew.context.tool_arguments import PART_KEYS, READ_TOOLS, find_content, find_replacements
from clew.core.ids import EntryId
from clew.core.messages import ToolCall

_LINE_NUMBER = re.compile(r"^\s*\d+(?:→|\t|\s*\|)", re.MULTILINE)


class KnownFile(Struct, frozen=True, kw_only=True):
    """A file as a session last knew it."""

    path: str
    text: str | None = None
    """The content; None if the session never read or wrote the whole file."""
    source: EntryId | None = None
    """Where the whole content was read or written."""
    applied: tuple[EntryId, ...] = ()
    """Later edits that `text` includes."""
    others: tuple[Unit, ...] = ()
    """Later calls that `text` does not include, such as patches, oldest first; without a text,
    parts of the file that were read or changed."""


def find_latest_version(units: Sequence[Unit], path: str) -> KnownFile | None:
    """Return the latest version of the file; None if no unit names it.

    Args:
        units: Calls with their results, newest first.
        path: The path, or the end of it.
    """
    later: list[Unit] = []
    about = [unit for unit in units if any(names_file(one, path) for one in unit.files)]
    for unit in about:
        if unit.call is None or unit.status == "failed":
            continue
        text = _whole_text(unit.call, unit.output or "")
        if text is not None:
            return _apply(unit, text, reversed(later))
        later.append(unit)
    if not later:
        return None
    return KnownFile(path=later[0].files[0], others=tuple(reversed(later)))


def _whole_text(call: ToolCall, output: str) -> str | None:
    arguments = decode_arguments(call)
    content = find_content(arguments)
    if content is not None:
        return content
    if call.name.lower() in READ_TOOLS and not PART_KEYS & arguments.keys() and output:
        lines = output.splitlines()
        numbered = sum(bool(_LINE_NUMBER.match(line)) for line in lines)
        return _LINE_NUMBER.sub("", output) if numbered > len(lines) / 2 else output
    return None


def _apply(base: Unit, text: str, later: Iterable[Unit]) -> KnownFile:
    applied: list[EntryId] = []
    others: list[Unit] = []
    for unit in later:
        arguments = decode_arguments(unit.call) if unit.call else {}
        edits = find_replacements(arguments)
        if edits and all(old and old in text for old, _, _ in edits):
            for old, new, everywhere in edits:
                text = text.replace(old, new, -1 if everywhere else 1)
            applied.append(unit.entry_id)
        elif unit.tool.lower() not in READ_TOOLS:
            others.append(unit)
    return KnownFile(
        path=base.files[0],
        text=text,
        source=base.entry_id,
        applied=tuple(applied),
        others=tuple(others),
    )


def format_version(version: KnownFile) -> str:
    """Return the file with a line about its origin, and what came later as diffs."""
    lines: list[str] = []
    if version.text is not None:
        edits = ", ".join(f"#{one}" for one in version.applied)
        after = f", with the edits of {edits}" if edits else ""
        lines += [f"{version.path} as of #{version.source}{after}:", version.text]
    else:
        lines.append(f"{version.path} was never read or written as a whole; what is known of it:")
    for unit in version.others:
        called = format_call(unit.call) if unit.call else ""
        shown = called if version.text is not None else unit.text
        lines.append(f"#{unit.entry_id} {unit.tool}:\n{shown}")
    return "\n".join(lines)
