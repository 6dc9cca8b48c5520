r"""The `@path` imports of an instruction file, as in Claude Code.

An import is an `@` at the start of a line or after a space, followed by a path; `\ ` is a space in
the path, and a part after `#` is ignored. In code (backticks, fences, indented blocks) and in
comments, an `@` has no meaning.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

_IMPORT = re.compile(r"(?<![^\s*_])@((?:\\ |[^\s\\])+)")
_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})(.*)")
_CLOSING = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")
_TICKS = re.compile(r"`+")
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_TRAILING = ".,;:!?)]}>*_'\""


def find_imports(text: str) -> tuple[str, ...]:
    """Return the paths that `text` imports as written, each once and in order."""
    if "@" not in text:
        return ()
    prose = "\n".join(_Blocks().prose(text))
    found = (
        _path(match.group(1))
        for paragraph in _PARAGRAPHS.split(prose)
        for match in _IMPORT.finditer(_without_comments(_without_spans(paragraph)))
    )
    return tuple(dict.fromkeys(path for path in found if path))


def import_spellings(path: str) -> tuple[str, ...]:
    """Return the possible paths of an import: as written, or without trailing punctuation."""
    plain = path.rstrip(_TRAILING)
    return (path,) if plain in ("", path) else (path, plain)


def is_surely_path(path: str) -> bool:
    """Return whether this is surely a path, not a name such as `@alice` or `@scope/package`."""
    if path.startswith(("./", "../", "~/", "/")):
        return True
    return re.search(r"[^./]\.[A-Za-z][A-Za-z0-9]{0,9}$", import_spellings(path)[-1]) is not None


def _path(written: str) -> str:
    path = written.partition("#")[0].replace("\\ ", " ")
    fit = path[:1].isalnum() or path.startswith((".", "_", "-", "~/", "/"))
    return path if fit and path.strip("./") else ""


class _Blocks(Struct):
    """Tracks which lines of a Markdown file are code or comments."""

    fence: str = ""
    comment: bool = False
    listed: bool = False
    """Inside a list, where indented text is not code."""
    after_gap: bool = True

    def prose(self, text: str) -> Iterator[str]:
        """Yield the lines of `text`, empty for code and comments."""
        for line in text.splitlines():
            hidden = self._hides(line)
            self.after_gap = hidden or not line.strip()
            yield "" if hidden else line

    def _hides(self, line: str) -> bool:
        if self.fence:
            end = _CLOSING.fullmatch(line)
            if end and end.group(1).startswith(self.fence):
                self.fence = ""
            return True
        if self.comment or line.lstrip().startswith("<!--"):
            self.comment = "-->" not in line
            return True
        fence = _FENCE.match(line)
        if fence and not (fence.group(1)[0] == "`" and "`" in fence.group(2)):
            self.fence = fence.group(1)
            return True
        return self._is_indented_code(line)

    def _is_indented_code(self, line: str) -> bool:
        if not line.strip():
            return False
        if _ITEM.match(line) and (self.listed or not line.startswith(("    ", "\t"))):
            self.listed = True
        elif not line[0].isspace() and self.after_gap:
            self.listed = False
        return self.after_gap and not self.listed and line.startswith(("    ", "\t"))


def _without_spans(paragraph: str) -> str:
    """Return `paragraph` without the spans between equal runs of backticks."""
    runs = list(_TICKS.finditer(paragraph))
    kept: list[str] = []
    done = at = 0
    last = {len(run.group()): index for index, run in enumerate(runs)}
    while at < len(runs):
        size = len(runs[at].group())
        if last[size] == at:
            at += 1
            continue
        end = next(i for i in range(at + 1, len(runs)) if len(runs[i].group()) == size)
        kept.append(paragraph[done : runs[at].start()])
        done = runs[end].end()
        at = end + 1
    return "` `".join([*kept, paragraph[done:]])


def _without_comments(paragraph: str) -> str:
    kept: list[str] = []
    done = 0
    while (start := paragraph.find("<!--", done)) >= 0:
        end = paragraph.find("-->", start)
        if end < 0:
            break
        kept.append(paragraph[done:start])
        done = end + 3
    return " ".join([*kept, paragraph[done:]])
