"""File changes: which lines the edits of a conversation removed and added, on balance.

A line that one edit added and a later one removed is not listed, so what is left tells how the
files differ from before. It is written as a diff of the telling lines, newest changes first.
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from clew.context.digest.edit_texts import EditText, read_edits
from clew.context.digest.passages import LEAST_LINE
from clew.context.digest.sections import cite_entry
from clew.context.digest.tool_steps import ToolStep, is_temporary
from clew.core.ids import EntryId
from clew.core.text import truncate


class FileChange(Struct, kw_only=True, gc=False):
    """What is left of one edit of one file."""

    path: str
    entry_id: EntryId
    place: int
    removed: list[str]
    """Lines that were there before the conversation; without indentation."""
    added: list[str]
    is_whole: bool = False
    """True if the whole file was written."""


def list_changes(
    steps: Iterable[ToolStep], *, undone: Mapping[str, int] | None = None
) -> list[FileChange]:
    """Return what the edits of a conversation left, in order.

    Args:
        steps: The tool steps of the conversation.
        undone: The places at which changes of a file were discarded with git.
    """
    files: dict[str, list[FileChange]] = {}
    for step in steps:
        for edit in step.edits:
            if edit.kind == "delete":
                files.pop(edit.path, None)
        for text in read_edits(step):
            _add_edit(files.setdefault(text.path, []), step, text)
    for path, place in (undone or {}).items():
        files[path] = [change for change in files.get(path, ()) if change.place > place]
    changes = [change for some in files.values() for change in some]
    changes = [one for one in changes if one.removed or one.added]
    return sorted(changes, key=lambda change: change.place)


def _add_edit(earlier: list[FileChange], step: ToolStep, text: EditText) -> None:
    """Add an edit to the changes of its file, which lose the lines that it takes back."""
    change = FileChange(
        path=text.path,
        entry_id=step.entry_id,
        place=step.place,
        removed=list(text.removed),
        added=list(text.added),
        is_whole=text.is_whole,
    )
    if text.is_whole:
        earlier.clear()
    for other in earlier:
        taken_back = set(change.removed).intersection(other.added)
        restored = set(change.added).intersection(other.removed)
        if taken_back:
            change.removed = [line for line in change.removed if line not in taken_back]
            other.added = [line for line in other.added if line not in taken_back]
        if restored:
            change.added = [line for line in change.added if line not in restored]
            other.removed = [line for line in other.removed if line not in restored]
        if taken_back and not other.added:
            change.removed, other.removed = other.removed + change.removed, []
    earlier.append(change)


_HEADING = "Edits, newest first (- removed, + added):"
_LIMITS = (1_600, 800, 500, 320, 240)
"""Characters of each change: the most with which all of them fit."""
_MOST_LINE = 160
_LEAST_LETTERS = 3
_REMOVED_SHARE = 3
"""Removed lines take at most this part of a change."""
_MOST_WHOLE = 400
"""Characters of a file that was written as a whole: of its definitions, if it has some."""
_ALIKE = 0.6
"""A removed line that shares this part of its words with an added one is not written."""
_RECENCY = 0.03
"""How much less an older change is worth, for each newer one."""
_WORD = re.compile(r"[^\W\d]\w{2,}")
_LETTER = re.compile(r"[^\W_]")
_ROUTINE = re.compile(
    r"(?:import|from|use|using|package|require|include|#include)\b|[\"'][\w./@-]+[\"'],?$"
    r"|(?:if err != nil|return (?:nil, )?err|return nil|return|break|else|try|end|pass)\b[ :{]*$"
)
_DEFINITION = re.compile(
    r"#+ |(?:(?:pub|export|default|async|static|public|private|abstract) )*"
    r"(?:def|func|fn|function|class|type|struct|interface|enum|const|trait|impl)\b"
)


def write_changes(
    changes: Sequence[FileChange],
    *,
    max_chars: int,
    root: str = "",
    known: Container[str] = frozenset(),
) -> str:
    """Write changes in at most `max_chars` characters.

    If not all of them fit, those are kept that tell the most new words, and the newest.

    Args:
        changes: In order.
        max_chars: The limit.
        root: Paths are written relative to this folder.
        known: Lines that can be seen elsewhere; a change of nothing else is left out.
    """
    told = [one for one in map(_condense, reversed(changes)) if _tells(one, known)]
    worths = _weigh_changes(told)
    for limit in _LIMITS:
        text = _write_files(told, limit, root)
        if len(text) <= max_chars:
            return text
    while told and len(text) > max_chars:
        excess = len(text) - max_chars
        for place in sorted(range(len(told)), key=worths.__getitem__):
            excess -= len(_write_change(told[place], _LIMITS[-1]))
            worths[place] = -1.0
            if excess <= 0:
                break
        told = [one for one, worth in zip(told, worths, strict=True) if worth >= 0]
        worths = [worth for worth in worths if worth >= 0]
        text = _write_files(told, _LIMITS[-1], root)
    return text


def _condense(change: FileChange) -> FileChange:
    """Return a change with its telling lines only.

    A removed line is left out if an added one is like it.
    """
    added = [line for line in change.added if _is_telling(line)]
    if change.is_whole:
        added = [line for line in added if _DEFINITION.match(line)] or added
    new = [set(_WORD.findall(line)) for line in added]
    removed = [line for line in change.removed if _is_telling(line) and not _is_among(line, new)]
    return replace(change, removed=removed, added=added)


def _is_telling(line: str) -> bool:
    return len(_LETTER.findall(line)) >= _LEAST_LETTERS and not _ROUTINE.match(line)


def _is_among(line: str, others: Iterable[set[str]]) -> bool:
    words = set(_WORD.findall(line))
    return any(len(words & other) >= _ALIKE * len(words) for other in others)


def _tells(change: FileChange, known: Container[str]) -> bool:
    if is_temporary(change.path) or not (change.removed or change.added):
        return False
    long = [line for line in change.added if len(line) >= LEAST_LINE]
    return not (long and all(line in known for line in long))


def _weigh_changes(newest_first: Sequence[FileChange]) -> list[float]:
    """Return the worth of each: how many words it has that newer ones do not have."""
    seen: set[str] = set()
    worths = []
    for age, change in enumerate(newest_first):
        words = {word for line in _list_lines(change, _LIMITS[-1]) for word in _WORD.findall(line)}
        worths.append(len(words - seen) / (1 + _RECENCY * age))
        seen |= words
    return worths


def _write_files(newest_first: Sequence[FileChange], limit: int, root: str) -> str:
    """Write the changes under their files; empty if there are none."""
    files: dict[str, list[str]] = {}
    for change in newest_first:
        path = change.path.removeprefix(f"{root}/") if root else change.path
        files.setdefault(path, []).append(_write_change(change, limit))
    parts = ["\n".join([f"{path}:", *texts]) for path, texts in files.items()]
    return "\n".join([_HEADING, *parts]) if parts else ""


def _write_change(change: FileChange, limit: int) -> str:
    return cite_entry(change.entry_id) + "\n".join(_list_lines(change, limit))


def _list_lines(change: FileChange, limit: int) -> list[str]:
    """Return the lines of a change that fit into `limit`, at least one of each kind."""
    most = min(limit, _MOST_WHOLE) if change.is_whole else limit
    removed = _fit_lines("-", change.removed, most // _REMOVED_SHARE)
    return removed + _fit_lines("+", change.added, most - sum(map(len, removed)))


def _fit_lines(sign: str, lines: Sequence[str], room: int) -> list[str]:
    chosen: list[str] = []
    for line in lines:
        cut = f"{sign} {truncate(line, _MOST_LINE)}"
        room -= len(cut) + 1
        if chosen and room < 0:
            return [*chosen, "…"]
        chosen.append(cut)
    return chosen
