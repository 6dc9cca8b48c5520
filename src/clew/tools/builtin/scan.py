"""Walking through a project, and a search for machines without ripgrep.

A regular expression can run for hours and holds the interpreter while it does, so the search
runs as a program of its own that can be ended. It must live in one file and use the standard
library only: it is started without the rest. It reads one JSON object from its argument and
writes one JSON object a line, `{"path", "line", "text", "hit"}` or `{"path", "count"}`.

What `.gitignore` names is left out as git would, in every repository on the way.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypedDict

_SAMPLE = 8_192
_LONGEST = 4_000
_TOKEN = re.compile(r"\\.|\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]/]*\]|\{[^{}]*\}|.", re.DOTALL)


class Job(TypedDict):
    """What to look for, and where."""

    root: str
    pattern: str
    name: str
    """A regular expression that the relative path must match; empty for all."""
    not_name: str
    """A regular expression that the relative path must not match; empty for none."""
    ignore_case: bool
    multiline: bool
    context: int
    mode: str


class Group(NamedTuple):
    """Neighbouring lines of a `.gitignore` that say the same: leave out, or keep."""

    base: str
    """The folder they hold in, below the root; empty or ending in a slash."""
    pattern: re.Pattern[str]
    ignored: bool


def translate(pattern: str) -> str:
    """Return the regular expression of a glob, to be matched against a whole path.

    `*` and `?` stay within a folder, `**` crosses folders, `[…]` and `{a,b}` choose.
    """
    return "".join(_piece(token) for token in _TOKEN.findall(pattern.removeprefix("./")))


def _piece(token: str) -> str:
    simple = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in simple:
        return simple[token]
    if len(token) == 1 or token[0] == "\\":
        return re.escape(token[-1])
    if token[0] == "[":
        inside = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"[^/{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]"
    return "(?:" + "|".join(translate(part) for part in token[1:-1].split(",")) + ")"


def parse_ignore(text: str, base: str) -> list[Group]:
    """Read a `.gitignore` that lies in the folder `base`."""
    groups: list[Group] = []
    pieces: list[str] = []
    state = True
    for line in text.splitlines():
        rule = re.sub(r"(?<!\\) +$", "", line)
        if not rule.strip("/!") or rule.startswith("#"):
            continue
        if rule.startswith("!") is state:
            groups += _group(base, pieces, ignored=state)
            pieces, state = [], not state
        pieces.append(_rule(rule.removeprefix("!")))
    return [*groups, *_group(base, pieces, ignored=state)]


def _rule(rule: str) -> str:
    ending = "/" if rule.endswith("/") else "/?"
    rule = rule.removesuffix("/")
    anchored = "/" in rule
    # Only where it stands alone between slashes does ** cross folders.
    parts = [part if part == "**" else re.sub(r"\*+", "*", part) for part in rule.split("/")]
    rule = "/".join(parts).removeprefix("/") if anchored else f"**/{parts[0]}"
    if rule.endswith("/**"):
        return translate(rule.removesuffix("**")) + "[^/].*" + ending
    return translate(rule) + ending


def _group(base: str, pieces: list[str], *, ignored: bool) -> Iterator[Group]:
    if pieces:
        try:
            yield Group(base, re.compile("|".join(pieces), re.DOTALL), ignored)
        except re.error:
            return


def _is_ignored(path: str, groups: tuple[Group, ...]) -> bool:
    for group in reversed(groups):
        if path.startswith(group.base) and group.pattern.fullmatch(path, len(group.base)):
            return group.ignored
    return False


def walk(root: str) -> Iterator[tuple[str, bool]]:
    """Yield every file below `root` by its relative path, and whether it is ignored.

    The order is that of the names. Links to folders, ignored folders and `.git` are not
    entered. The root itself is never ignored: somebody named it.
    """
    top, start, groups = _above(root)
    todo = [(start, groups, top != root)]
    while todo:
        base, groups, inside = todo.pop()
        try:
            with os.scandir(top + base) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        names = {entry.name for entry in found}
        if ".git" in names:
            groups, inside = _read_rules(top + base, base, ".git/info/exclude"), True
        if inside and ".gitignore" in names:
            groups += _read_rules(top + base, base, ".gitignore")
        deeper = []
        for entry in found:
            path = base + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name != ".git" and not _is_ignored(f"{path}/", groups):
                    deeper.append((f"{path}/", groups, inside))
            elif entry.is_file():
                yield path.removeprefix(start), _is_ignored(path, groups)
        todo += reversed(deeper)


def _above(root: str) -> tuple[str, str, tuple[Group, ...]]:
    """Return the repository around `root`, the way from there to it, and what holds there."""
    own = root.rstrip("/") + "/"
    parents = [f"{parent}/".replace("//", "/") for parent in Path(own).parents]
    repository = next((up for up in parents if Path(up, ".git").exists()), None)
    if repository is None or Path(own, ".git").exists():
        return own, "", ()
    groups = _read_rules(repository, "", ".git/info/exclude")
    for parent in reversed(parents[: parents.index(repository) + 1]):
        groups += _read_rules(parent, parent.removeprefix(repository), ".gitignore")
    return repository, own.removeprefix(repository), groups


def _read_rules(folder: str, base: str, name: str) -> tuple[Group, ...]:
    try:
        text = Path(folder, name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(parse_ignore(text, base))


def main() -> int:
    """Search; the exit code is 2 when the pattern is wrong, as with ripgrep."""
    job: Job = json.loads(sys.argv[1])
    flags = (re.IGNORECASE if job["ignore_case"] else 0) | re.MULTILINE
    try:
        wanted = re.compile(job["pattern"], flags | (re.DOTALL if job["multiline"] else 0))
    except re.error as error:
        sys.stderr.write(f"regex parse error: {error}")
        return 2
    for path in _files(job):
        for record in _search(path, wanted, job):
            sys.stdout.write(json.dumps(record) + "\n")
    return 0


def _files(job: Job) -> Iterator[str]:
    root = job["root"]
    if Path(root).is_file():
        yield root
        return
    name = re.compile(job["name"], re.DOTALL)
    not_name = re.compile(job["not_name"], re.DOTALL)
    for path, ignored in walk(root):
        if job["not_name"] and not_name.fullmatch(path):
            continue
        # A pattern that names a file asks for it, as with ripgrep.
        if name.fullmatch(path) if job["name"] else not ignored:
            whole = Path(root, path)
            if not whole.is_symlink():
                yield str(whole)


def _search(path: str, wanted: re.Pattern[str], job: Job) -> Iterator[dict[str, object]]:
    try:
        data = Path(path).read_bytes()
    except OSError:
        return
    if b"\0" in data[:_SAMPLE]:
        return
    lines = data.decode(errors="replace").replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    spans = _spans_across(lines, wanted) if job["multiline"] else _spans(lines, wanted)
    if job["mode"] != "content":
        count = sum(1 for _ in (spans if job["mode"] == "count" else _first(spans)))
        if count:
            yield {"path": path, "count": count}
        return
    hits = {at for first, last in spans for at in range(first, last + 1)}
    around = job["context"]
    shown = {near for at in hits for near in range(at - around, at + around + 1)}
    for at in sorted(shown & set(range(len(lines)))):
        yield {"path": path, "line": at + 1, "text": lines[at][:_LONGEST], "hit": at in hits}


def _spans(lines: list[str], wanted: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    for at, line in enumerate(lines):
        if wanted.search(line):
            yield at, at


def _spans_across(lines: list[str], wanted: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    text, at, last = "\n".join(lines), 0, 0
    for match in wanted.finditer(text):
        at += text.count("\n", last, match.start())
        last = match.start()
        yield at, at + match[0].rstrip("\n").count("\n")


def _first(spans: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for span in spans:
        yield span
        return


if __name__ == "__main__":
    sys.exit(main())
