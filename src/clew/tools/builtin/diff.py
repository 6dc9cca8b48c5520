"""The difference between two texts, for a screen and for clients."""

import difflib
from itertools import takewhile

from msgspec import Struct

_CONTEXT = 3
_TOO_LONG = 2_000
"""Above this many changed lines the middle counts as replaced whole: difflib is quadratic."""
_SHORT = 40
_NO_NEWLINE = "\n\\ No newline at end of file"


class Hunk(Struct, frozen=True, kw_only=True):
    """One stretch of a unified diff; starts are counted from 1."""

    old_start: int
    new_start: int
    lines: tuple[str, ...]
    """Each begins with a space, `-` or `+`."""

    def count(self, marks: str) -> int:
        """How many lines begin with one of `marks`."""
        return sum(line[0] in marks for line in self.lines)

    @property
    def header(self) -> str:
        """The `@@` line."""
        old, new = self.count(" -"), self.count(" +")
        return f"@@ -{self.old_start},{old} +{self.new_start},{new} @@"


class Diff(Struct, frozen=True, kw_only=True):
    """A unified diff of one file."""

    path: str
    hunks: tuple[Hunk, ...]

    @property
    def added(self) -> int:
        """Lines that are new."""
        return sum(hunk.count("+") for hunk in self.hunks)

    @property
    def removed(self) -> int:
        """Lines that are gone."""
        return sum(hunk.count("-") for hunk in self.hunks)

    def unified(self) -> str:
        """The whole diff, as `patch` reads it."""
        head = [f"--- a/{self.path.lstrip('/')}", f"+++ b/{self.path.lstrip('/')}"]
        return "\n".join(head + self._body()) if self.hunks else ""

    def short(self) -> str:
        """What a screen shows: the hunks, cut after some lines."""
        body = self._body()
        rest = [f"[{len(body) - _SHORT} more lines]"] if len(body) > _SHORT else []
        return "\n".join([f"{self.path} +{self.added} -{self.removed}", *body[:_SHORT], *rest])

    def data(self) -> dict[str, object]:
        """The diff as plain values."""
        hunks = [
            {
                "old_start": hunk.old_start,
                "old_lines": hunk.count(" -"),
                "new_start": hunk.new_start,
                "new_lines": hunk.count(" +"),
                "lines": list(hunk.lines),
            }
            for hunk in self.hunks
        ]
        return {
            "path": self.path,
            "added": self.added,
            "removed": self.removed,
            "hunks": hunks,
            "diff": self.unified(),
        }

    def _body(self) -> list[str]:
        return [line for hunk in self.hunks for line in (hunk.header, *hunk.lines)]


def compare(old: str, new: str, path: str) -> Diff:
    """Return what turns `old` into `new`."""
    before, after = _lines(old), _lines(new)
    head = _shared(before, after)
    tail = _shared(before[head:][::-1], after[head:][::-1])
    start = max(0, head - _CONTEXT)
    stop = max(0, tail - _CONTEXT)
    hunks = _hunks(before[start : len(before) - stop], after[start : len(after) - stop], start)
    return Diff(path=path, hunks=hunks)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    else:
        lines[-1] += _NO_NEWLINE
    return lines


def _shared(before: list[str], after: list[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after)))  # noqa: B905


def _hunks(before: list[str], after: list[str], offset: int) -> tuple[Hunk, ...]:
    if max(len(before), len(after)) > _TOO_LONG:
        lines = [f"-{line}" for line in before] + [f"+{line}" for line in after]
        return (Hunk(old_start=offset + 1, new_start=offset + 1, lines=tuple(lines)),)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Hunk(
            old_start=offset + group[0][1] + 1,
            new_start=offset + group[0][3] + 1,
            lines=tuple(line for code in group for line in _marked(code, before, after)),
        )
        for group in matcher.get_grouped_opcodes(_CONTEXT)
    )


def _marked(code: tuple[str, int, int, int, int], before: list[str], after: list[str]) -> list[str]:
    kind, old_from, old_to, new_from, new_to = code
    if kind == "equal":
        return [f" {line}" for line in before[old_from:old_to]]
    gone = [f"-{line}" for line in before[old_from:old_to]]
    return gone + [f"+{line}" for line in after[new_from:new_to]]
