"""Grep: a regular expression over the contents of files.

ripgrep does the work where it is installed, a program of our own elsewhere; both run as
child processes that end with the call, and both answers are put into words here. They
differ in one thing: only ripgrep leaves out what `.gitignore` names.
"""

import os
import shutil
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import Annotated, Literal, TypeAlias

import anyio
import msgspec
from anyio.abc import ByteReceiveStream
from msgspec import Meta, Struct

from clew.core.access import Risk
from clew.tools.builtin import scan
from clew.tools.builtin.files import Unusable, cut, failure, resolve
from clew.tools.builtin.patterns import refuse_escape, translate_filter
from clew.tools.function import tool
from clew.tools.protocol import Place, Tool, ToolOutput

MAX_BYTES = 16_000_000
"""Of the search program's answer; what comes after is not read."""
MAX_SECONDS = 60
DEFAULT_LIMIT = 200

OutputMode: TypeAlias = Literal["content", "files_with_matches", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One search."""

    pattern: str
    root: Path
    shown_root: str
    glob: str
    mode: OutputMode
    ignore_case: bool
    context: int
    limit: int


class Found(Struct, frozen=True, kw_only=True):
    """A line that matched, or one near it."""

    path: str
    line: int
    text: str
    hit: bool


class _Bytes(Struct, frozen=True):
    text: str = "(not UTF-8)"


class _RgData(Struct, frozen=True):
    path: _Bytes = _Bytes()
    lines: _Bytes = _Bytes()
    line_number: int | None = None


class _RgLine(Struct, frozen=True):
    type: str
    data: _RgData


def grep_tool(search_program: str | None = None) -> Tool:
    """Make the Grep tool.

    Args:
        search_program: Where ripgrep is; None looks it up, empty does without.
    """

    @tool(name="Grep", risk=Risk.INSPECT, target="path", target_is_path=True)
    async def grep(  # noqa: PLR0913
        pattern: str,
        place: Place,
        path: str = ".",
        glob: str = "",
        *,
        output_mode: OutputMode = "files_with_matches",
        ignore_case: bool = False,
        context: Annotated[int, Meta(ge=0, le=100)] = 0,
        head_limit: Annotated[int, Meta(ge=1)] = DEFAULT_LIMIT,
    ) -> ToolOutput:
        """Search file contents with a regular expression, line by line.

        Args:
            pattern: The regular expression.
            place: Where the call runs.
            path: The file or folder to search.
            glob: Only files whose path matches, such as *.py.
            output_mode: content shows the lines, files_with_matches only the paths, count
                the number of matching lines in each file.
            ignore_case: Take upper and lower case as equal.
            context: Lines to show before and after each match, with content.
            head_limit: Most lines or files to show.
        """
        query = Query(
            pattern=pattern,
            root=resolve(path, place),
            shown_root=path,
            glob=glob,
            mode=output_mode,
            ignore_case=ignore_case,
            context=context if output_mode == "content" else 0,
            limit=head_limit,
        )
        program = shutil.which("rg") if search_program is None else search_program
        return await _grep(query, program or "")

    return grep


async def _grep(query: Query, program: str) -> ToolOutput:
    try:
        refuse_escape(query.glob)
        if not await anyio.Path(query.root).exists():
            raise Unusable(f"{query.shown_root} does not exist.")  # noqa: TRY301
        answer, partial = await _answer(_command(query, program))
        found = _parse(answer, ripgrep=bool(program))
    except (Unusable, OSError, ValueError) as error:
        return failure(str(error))
    return _worded(query, found, partial=partial)


def _command(query: Query, program: str) -> list[str]:
    if not program:
        job = scan.Job(
            root=str(query.root),
            pattern=query.pattern,
            name=translate_filter(query.glob) if query.glob else "",
            ignore_case=query.ignore_case,
            context=query.context,
            first_only=query.mode == "files_with_matches",
        )
        return [sys.executable, "-I", "-S", str(scan.__file__), msgspec.json.encode(job).decode()]
    options = ["--no-config", "--json", "--hidden", "--glob=!.git", f"--context={query.context}"]
    if query.glob:
        options.append(f"--glob={query.glob}")
    if query.ignore_case:
        options.append("--ignore-case")
    if query.mode == "files_with_matches":
        options.append("--max-count=1")
    return [program, *options, "--", query.pattern, str(query.root)]


async def _answer(command: list[str]) -> tuple[bytes, str]:
    """Run the search; return what it wrote, and why that is not all, if so."""
    async with await anyio.open_process(command, stdin=DEVNULL) as process:
        if process.stdout is None or process.stderr is None:
            raise Unusable("The search program has no output.")
        with anyio.move_on_after(MAX_SECONDS) as limit:
            data = await _take(process.stdout, MAX_BYTES)
            if len(data) >= MAX_BYTES:
                process.kill()
            problem = (await _take(process.stderr, 10_000)).decode(errors="replace").strip()
            code = await process.wait()
        if limit.cancelled_caught:
            process.kill()
            raise Unusable(f"The search took more than {MAX_SECONDS} s. Narrow path or glob.")
    if code == 2 and not data.count(b'"match"'):
        raise Unusable(f"The search failed: {problem}")
    return data, "the search found too much and was cut short" if len(data) >= MAX_BYTES else ""


async def _take(stream: ByteReceiveStream, most: int) -> bytes:
    data = bytearray()
    while len(data) < most:
        try:
            data += await stream.receive()
        except anyio.EndOfStream:
            break
    return bytes(data)


def _parse(answer: bytes, *, ripgrep: bool) -> list[Found]:
    lines = answer[: answer.rfind(b"\n") + 1].splitlines()
    if ripgrep:
        return [each for each in (_from_ripgrep(line) for line in lines) if each]
    return [msgspec.json.decode(line, type=Found) for line in lines]


def _from_ripgrep(line: bytes) -> Found | None:
    record = msgspec.json.decode(line, type=_RgLine)
    if record.type not in ("match", "context"):
        return None
    return Found(
        path=record.data.path.text,
        line=record.data.line_number or 0,
        text=record.data.lines.text.removesuffix("\n").removesuffix("\r"),
        hit=record.type == "match",
    )


def _worded(query: Query, found: list[Found], *, partial: str) -> ToolOutput:
    named = {each.path: _shown(query, each.path) for each in found}
    found.sort(key=lambda each: (named[each.path], each.line))
    counts = Counter(named[each.path] for each in found if each.hit)
    match query.mode:
        case "content":
            lines = _content(found, named, gaps=query.context > 0)
        case "files_with_matches":
            lines = list(counts)
        case "count":
            lines = [f"{path}:{count}" for path, count in counts.items()]
    notes = [f"[{partial}]"] if partial else []
    if len(lines) > query.limit:
        notes.append(f"[the first {query.limit} of {len(lines)} lines; raise head_limit for more]")
    shown = [*lines[: query.limit], *notes] or [f"[nothing matches {query.pattern}]"]
    return ToolOutput(
        text="\n".join(shown),
        display=f"{query.pattern}: {len(counts)} files",
        data={"files": len(counts), "lines": counts.total()},
    )


def _content(found: list[Found], named: dict[str, str], *, gaps: bool) -> list[str]:
    lines: list[str] = []
    last: tuple[str, int] | None = None
    for each in found:
        if gaps and last and last != (each.path, each.line - 1):
            lines.append("--")
        mark = ":" if each.hit else "-"
        lines.append(f"{named[each.path]}{mark}{each.line}{mark}{cut(each.text)}")
        last = (each.path, each.line)
    return lines


def _shown(query: Query, path: str) -> str:
    relative = os.path.relpath(path, query.root)
    if relative == ".":
        return query.shown_root
    return relative if query.shown_root == "." else f"{query.shown_root.rstrip('/')}/{relative}"
