"""Edit texts: the lines that a tool call removed from a file and added to it."""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from msgspec import Struct

from clew.context.digest.steps.tool_steps import ToolStep
from clew.context.tool_arguments import find_replacements

_PATCHED_FILE = re.compile(
    r"^\*\*\* (Add|Update) File: (.+)$(?:\n\*\*\* Move to: (.+)$)?", re.MULTILINE
)
_HEREDOC = re.compile(r"<<-?[ \t]*[\"']?(\w+)")
_TARGET = re.compile(
    r"(?<![\d&>|])(>{1,2}|\btee(?: -a| --append)?)[ \t]*([^\s<>|;&()'\"-][^\s<>|;&()'\"]*)"
)
_APPENDS = frozenset({">>", "tee -a", "tee --append"})
_COMMAND_CHARS, _LINE_CHARS = 20_000, 1_000


class EditText(Struct, frozen=True, gc=False):
    """What one step changed in one file: lines without indentation, in the order of the file."""

    path: str
    removed: Sequence[str]
    added: Sequence[str]
    is_whole: bool = False
    """True if the step wrote the whole file."""


def read_edits(step: ToolStep) -> list[EditText]:
    """Return the texts that a step with edits changed.

    Of shell commands, patches and here-documents can be read.
    """
    if not step.changes:
        return list(_read_patch(step.patch) if step.patch else _read_heredocs(step.command))
    if step.creates:
        text = step.written
        return [] if text is None else [EditText(step.path, (), _split(text), is_whole=True)]
    pairs = find_replacements(step.arguments)
    before = [line for old, _, _ in pairs for line in _split(old)]
    after = [line for _, new, _ in pairs for line in _split(new)]
    return [EditText(step.path, *_subtract(before, after))] if pairs else []


def _read_patch(patch: str) -> Iterator[EditText]:
    patch = patch.partition("*** End Patch")[0]
    files = list(_PATCHED_FILE.finditer(patch))
    for found, following in zip_longest(files, files[1:]):
        lines = patch[found.end() : following.start() if following else None].split("\n")
        before = [line[1:].strip() for line in lines if line.startswith("-")]
        after = [line[1:].strip() for line in lines if line.startswith("+")]
        path = (found[3] or found[2]).strip()
        yield EditText(path, *_subtract(before, after), is_whole=found[1] == "Add")


def _read_heredocs(command: str) -> Iterator[EditText]:
    """Yield the files that `cat` and `tee` write, if nothing else takes part in it."""
    lines = command[:_COMMAND_CHARS].split("\n")
    stripped = [line.strip() for line in lines]
    start = 0
    for place, line in enumerate(lines):
        if place < start or len(line) > _LINE_CHARS or line.count("<<") != 1 or "|" in line:
            continue
        begun, written = _HEREDOC.search(line), _TARGET.findall(line)
        if begun is None or len(written) != 1 or begun[1] not in stripped[place:]:
            continue
        start = stripped.index(begun[1], place)
        operator, path = written[0]
        is_whole = operator not in _APPENDS
        yield EditText(path.removeprefix("./"), (), stripped[place + 1 : start], is_whole=is_whole)


def _split(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n")]


def _subtract(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the lines that are only in the first, and those only in the second."""
    old, new = frozenset(before), frozenset(after)
    return [line for line in before if line not in new], [line for line in after if line not in old]
