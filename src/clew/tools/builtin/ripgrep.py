"""ripgrep: where it is, what it is told, and what its answers mean."""

import base64
import os
import shutil
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.tools.builtin.search import Counted, Found, Query


class _Bytes(Struct, frozen=True):
    text: str | None = None
    bytes: str = ""

    @property
    def raw(self) -> str:
        """What it says; a name that is no UTF-8 comes in base64."""
        return os.fsdecode(base64.b64decode(self.bytes)) if self.text is None else self.text

    @property
    def readable(self) -> str:
        if self.text is None:
            return base64.b64decode(self.bytes).decode(errors="replace")
        return self.text


class _Data(Struct, frozen=True):
    path: _Bytes = _Bytes()
    lines: _Bytes = _Bytes()
    line_number: int | None = None


class _Line(Struct, frozen=True):
    type: str
    data: _Data


def find_ripgrep() -> str:
    """Return where ripgrep is: the one that was installed with Clew, or the system's, or none."""
    name = "rg.exe" if sys.platform == "win32" else "rg"
    import sysconfig  # noqa: PLC0415 - not needed before the first search

    own = sysconfig.get_path("scripts")
    users = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    installed = (str(Path(folder, name)) for folder in (own, users))
    return next(filter(shutil.which, installed), None) or shutil.which("rg") or ""


def command(program: str, query: Query) -> list[str]:
    """Return the command line for a search."""
    options = ["--no-config", "--no-messages", "--hidden", "--glob=!.git"]
    match query.mode:
        case "content":
            options += ["--json", f"--context={query.context}"]
        case "files_with_matches":
            options += ["--files-with-matches", "--null"]
        case "count":
            options += ["--count", "--with-filename", "--null"]
    if query.glob and not filters_late(query):
        options.append(f"--glob={query.glob}")
    if query.type:
        options.append(f"--type={query.type}")
    if query.ignore_case:
        options.append("--ignore-case")
    if query.multiline:
        options += ["--multiline", "--multiline-dotall"]
    return [program, *options, "--", query.pattern, str(query.root)]


def filters_late(query: Query) -> bool:
    """Must the answer be filtered by the glob? For ripgrep a glob puts a type out of force."""
    return bool(query.type and query.glob and not query.glob.startswith("!"))


def read_lines(answer: bytes) -> list[Found]:
    """Read an answer with content; what is cut off at its end is left out."""
    found: list[Found] = []
    for line in answer[: answer.rfind(b"\n") + 1].splitlines():
        record = msgspec.json.decode(line, type=_Line)
        if record.type not in ("match", "context"):
            continue
        first, path = record.data.line_number or 0, record.data.path.raw
        texts = record.data.lines.readable.removesuffix("\n").split("\n")
        found += (
            Found(
                path=path,
                line=first + at,
                text=text.removesuffix("\r"),
                hit=record.type == "match",
            )
            for at, text in enumerate(texts)
        )
    return found


def read_counts(answer: bytes, query: Query) -> list[Counted]:
    """Read an answer without content: names, and counts if they were asked for."""
    if query.mode == "files_with_matches":
        names = answer[: answer.rfind(b"\0") + 1].split(b"\0")[:-1]
        return [Counted(path=os.fsdecode(name), count=1) for name in names]
    counted: list[Counted] = []
    rest = answer[: answer.rfind(b"\n") + 1]
    while rest:
        name, _, rest = rest.partition(b"\0")
        count, _, rest = rest.partition(b"\n")
        counted.append(Counted(path=os.fsdecode(name), count=int(count)))
    return counted
