"""A search through files for machines without ripgrep, run as a program of its own.

A regular expression can run for hours and holds the interpreter while it does, so it
must live in a process that can be ended. Only the standard library is used, so that
starting it costs little. It reads one JSON object from its argument and writes one JSON
object a line: `{"path", "line", "text", "hit"}`.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

_SAMPLE = 8_192
_LONGEST = 4_000


class Job(TypedDict):
    """What to look for, and where."""

    root: str
    pattern: str
    name: str
    """A regular expression that the relative path must match; empty for all."""
    ignore_case: bool
    context: int
    first_only: bool
    """One hit a file is enough."""


def main() -> int:
    """Search; the exit code is 2 when the pattern is wrong, as with ripgrep."""
    job: Job = json.loads(sys.argv[1])
    try:
        wanted = re.compile(job["pattern"], re.IGNORECASE if job["ignore_case"] else 0)
    except re.error as error:
        sys.stderr.write(f"regex parse error: {error}")
        return 2
    for path in _files(job):
        for line in _search(path, wanted, job):
            sys.stdout.write(line + "\n")
    return 0


def _files(job: Job) -> Iterator[str]:
    root = job["root"]
    if Path(root).is_file():
        yield root
        return
    name = re.compile(job["name"], re.DOTALL) if job["name"] else None
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(each for each in folders if each != ".git")
        for each in sorted(names):
            path = Path(folder, each)
            if name is None or name.fullmatch(str(path.relative_to(root))):
                yield str(path)


def _search(path: str, wanted: re.Pattern[str], job: Job) -> Iterator[str]:
    try:
        if not Path(path).is_file() or (path != job["root"] and Path(path).is_symlink()):
            return
        data = Path(path).read_bytes()
    except OSError:
        return
    if b"\0" in data[:_SAMPLE]:
        return
    lines = data.decode(errors="replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    hits = [at for at, line in enumerate(lines) if wanted.search(line.removesuffix("\r"))]
    if job["first_only"]:
        hits = hits[:1]
    around = job["context"]
    shown = {n for at in hits for n in range(max(0, at - around), at + around + 1)}
    marked = set(hits)
    for at in sorted(shown):
        if at < len(lines):
            text = lines[at].removesuffix("\r")[:_LONGEST]
            record = {"path": path, "line": at + 1, "text": text, "hit": at in marked}
            yield json.dumps(record)


if __name__ == "__main__":
    sys.exit(main())
