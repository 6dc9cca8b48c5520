"""Search results: where the text searches of a conversation found what.

They answer "who else calls this?" and "where is the same pattern?" long after the output is
gone. A search without a match is an answer as well.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clew.context.cleared_results import MARKER
from clew.context.digest.steps.shell_commands import split_words
from clew.context.digest.steps.tool_steps import ToolStep
from clew.core.ids import EntryId

_TOOLS = frozenset({"grep", "search", "search_file_content", "grep_search", "search_files"})
_PROGRAMS = (["rg"], ["grep"], ["git", "grep"], ["ag"], ["egrep"])
_BEGINNINGS = tuple(name[0] for name in _PROGRAMS)
_VALUE_OPTIONS = frozenset({"-e", "-g", "-t", "-T", "-A", "-B", "-C", "-m", "--glob", "--type"})
_MATCH = re.compile(r"^(?:\./)?([^\s:]*[\w)\]]\.\w{1,8})(?:[:](\d+))?(?=:|$)", re.MULTILINE)
_LINE = re.compile(r"^(\d+):", re.MULTILINE)
_READ_CHARS = 30_000
MOST_SEARCHES = 12
"""Searches with results in several files that are worth listing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """One search and the files in which it found something."""

    entry_id: EntryId
    pattern: str
    where: str
    """The file or folder that was searched; empty for the working folder."""
    files: Sequence[tuple[str, Sequence[str]]]
    """Files with the numbers of the lines that match, as far as they were printed."""

    @property
    def is_local(self) -> bool:
        """True if only one file was searched."""
        return len(self.files) == 1 and self.files[0][0] == self.where


def list_searches(steps: Sequence[ToolStep]) -> list[SearchResult]:
    """Return the last result of each search, newest first; searches in one file come last.

    Once enough searches found something in several files, older ones are left out.
    """
    found: dict[tuple[str, str], SearchResult] = {}
    room = MOST_SEARCHES
    for step in reversed(steps):
        pattern, where = _find_search(step)
        if not pattern or (pattern, where) in found or not step.ran:
            continue
        output = step.output[:_READ_CHARS]
        if output.startswith(MARKER):
            continue
        files = _parse_matches(output, where)
        if files or _is_empty(step, output):
            search = SearchResult(
                entry_id=step.result_id, pattern=pattern, where=where, files=files
            )
            found[pattern, where] = search
            room -= bool(files) and not search.is_local
            if not room:
                break
    return sorted(found.values(), key=lambda search: search.is_local)


def _find_search(step: ToolStep) -> tuple[str, str]:
    if step.name in _TOOLS:
        return step.get_text("pattern") or step.get_text("query"), step.path
    if not step.command:
        return "", ""
    commands = (simple for simple, _ in step.simple_commands if not simple.startswith("cd "))
    simple = next(commands, "")
    if not simple.startswith(_BEGINNINGS):
        return "", ""
    words = split_words(simple)
    program = next((name for name in _PROGRAMS if words[: len(name)] == name), None)
    return _find_pattern(words[len(program) :]) if program else ("", "")


def _find_pattern(words: Sequence[str]) -> tuple[str, str]:
    """Return the pattern and the places of a search command."""
    plain: list[str] = []
    takes_value = False
    for word in words:
        if takes_value or (word.startswith("-") and len(word) > 1):
            takes_value = not takes_value and word in _VALUE_OPTIONS
        else:
            plain.append(word)
    return (plain[0], " ".join(plain[1:])) if plain else ("", "")


def _parse_matches(output: str, where: str) -> list[tuple[str, list[str]]]:
    files: dict[str, list[str]] = {}
    for path, line in _MATCH.findall(output):
        files.setdefault(path, []).extend([line] if line else [])
    if not files and "." in where.rpartition("/")[2] and " " not in where:
        lines = _LINE.findall(output)
        files = {where: lines} if lines else {}
    return list(files.items())


def _is_empty(step: ToolStep, output: str) -> bool:
    if output.startswith(("No matches found", "No files found")):
        return True
    return bool(step.command) and step.exit_code in {0, 1, None} and not output.strip()
