"""Grep: a regular expression over the contents of files.

ripgrep does the work where it is installed, a program of our own elsewhere; both run as child
processes that end with the call, and both answers are put into words here.
"""

import json
import os
import re
import sys
from pathlib import Path
from subprocess import DEVNULL
from typing import Annotated, TypeVar

import anyio
import msgspec
from anyio.abc import ByteReceiveStream
from msgspec import Meta

from clew.core.access import Risk, TargetKind
from clew.tools.builtin import ripgrep, scan
from clew.tools.builtin.files import Unusable, cut, failure, resolve
from clew.tools.builtin.patterns import refuse_escape, translate_filter, type_filter
from clew.tools.builtin.search import Counted, Found, OutputMode, Query
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput

MAX_BYTES = 16_000_000
"""Of the search program's answer; what comes after is not read."""
MAX_SECONDS = 60
DEFAULT_LIMIT = 200

_Record = TypeVar("_Record", Found, Counted)


def grep_tool(search_program: str | None = None) -> Tool:
    """Make the Grep tool, for the ripgrep that is found or given; empty does without one."""
    program = ripgrep.find_ripgrep() if search_program is None else search_program

    @tool(name="Grep", risk=Risk.INSPECT, target="path", kind=TargetKind.PATH)
    async def grep(  # noqa: PLR0913
        pattern: str,
        place: ToolContext,
        path: str = ".",
        glob: str = "",
        *,
        type: str = "",  # noqa: A002
        output_mode: OutputMode = "files_with_matches",
        ignore_case: bool = False,
        multiline: bool = False,
        context: Annotated[int, Meta(ge=0, le=100)] = 0,
        head_limit: Annotated[int, Meta(ge=1)] = DEFAULT_LIMIT,
    ) -> ToolOutput:
        """Search file contents with a regular expression. What .gitignore names is left out,
        unless path or glob name it.

        Args:
            pattern: The regular expression.
            place: Where the call runs.
            path: The file or folder to search.
            glob: Only files whose path matches, such as *.py; with ! before it, only others.
            type: Only files of this type, such as py, js, rust, go.
            output_mode: content shows the lines, files_with_matches only the paths, count
                the number of matching lines in each file.
            ignore_case: Take upper and lower case as equal.
            multiline: Let a match go over several lines; the dot then matches line ends too.
            context: Lines to show before and after each match, with content.
            head_limit: Most lines or files to show.
        """  # noqa: D205
        query = Query(
            pattern=pattern,
            root=resolve(path, place),
            shown_root=path,
            glob=glob,
            type=type,
            mode=output_mode,
            ignore_case=ignore_case,
            multiline=multiline,
            context=context if output_mode == "content" else 0,
            limit=head_limit,
        )
        return await _grep(query, program)

    return grep


async def _grep(query: Query, program: str) -> ToolOutput:
    try:
        refuse_escape(query.glob.removeprefix("!"))
        if not await anyio.Path(query.root).exists():
            raise Unusable(f"{query.shown_root} does not exist.")  # noqa: TRY301
        command = ripgrep.command(program, query) if program else _own_command(query)
        # Patterns for paths hold from the folder that a search program runs in.
        folder = query.root if await anyio.Path(query.root).is_dir() else query.root.parent
        answer, partial = await _answer(command, folder)
        if query.mode == "content":
            found = ripgrep.read_lines(answer) if program else _own(answer, Found)
            return _content(query, _filtered(query, found), partial)
        counted = ripgrep.read_counts(answer, query) if program else _own(answer, Counted)
        return _counts(query, _filtered(query, counted), partial)
    except (Unusable, OSError, ValueError) as error:
        return failure(str(error))


def _own_command(query: Query) -> list[str]:
    name = translate_filter("" if query.glob.startswith("!") else query.glob)
    if query.type:
        kind = type_filter(query.type)
        name = f"(?={kind}$){name}" if name else kind
    job = scan.Job(
        root=str(query.root),
        pattern=query.pattern,
        name=name,
        not_name=translate_filter(query.glob[1:] if query.glob.startswith("!") else ""),
        ignore_case=query.ignore_case,
        multiline=query.multiline,
        context=query.context,
        mode=query.mode,
    )
    return [sys.executable, "-I", "-S", str(scan.__file__), msgspec.json.encode(job).decode()]


def _own(answer: bytes, kind: type[_Record]) -> list[_Record]:
    whole = answer[: answer.rfind(b"\n") + 1]
    # Names need not be Unicode, which only the standard library's reader lets pass.
    return [msgspec.convert(json.loads(line), kind) for line in whole.splitlines()]


def _filtered(query: Query, records: list[_Record]) -> list[_Record]:
    if not ripgrep.filters_late(query):
        return records
    name = re.compile(translate_filter(query.glob), re.DOTALL)
    return [each for each in records if name.fullmatch(os.path.relpath(each.path, query.root))]


async def _answer(command: list[str], folder: Path) -> tuple[bytes, str]:
    """Run the search; return what it wrote, and why that is not all, if so."""
    async with await anyio.open_process(command, stdin=DEVNULL, cwd=folder) as process:
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
    if code == 2 and problem and not data:
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


def _content(query: Query, found: list[Found], partial: str) -> ToolOutput:
    named = {each.path: _shown(query, each.path) for each in found}
    lines: list[str] = []
    last: tuple[str, int] | None = None
    for each in sorted(found, key=lambda each: (named[each.path], each.line)):
        if query.context and last and last != (each.path, each.line - 1):
            lines.append("--")
        mark = ":" if each.hit else "-"
        lines.append(f"{named[each.path]}{mark}{each.line}{mark}{cut(each.text)}")
        last = (each.path, each.line)
    hits = [each.path for each in found if each.hit]
    return _worded(query, lines, partial, {"files": len(set(hits)), "lines": len(hits)})


def _counts(query: Query, counted: list[Counted], partial: str) -> ToolOutput:
    pairs = sorted((_shown(query, each.path), each.count) for each in counted)
    if query.mode == "count":
        lines = [f"{path}:{count}" for path, count in pairs]
        facts = {"files": len(pairs), "lines": sum(count for _, count in pairs)}
    else:
        lines, facts = [path for path, _ in pairs], {"files": len(pairs)}
    return _worded(query, lines, partial, facts)


def _worded(query: Query, lines: list[str], partial: str, facts: dict[str, int]) -> ToolOutput:
    notes = [f"[{partial}]"] if partial else []
    if len(lines) > query.limit:
        notes.append(f"[the first {query.limit} of {len(lines)} lines; raise head_limit for more]")
    shown = [*lines[: query.limit], *notes] or [f"[nothing matches {query.pattern}]"]
    return ToolOutput(
        text="\n".join(shown),
        display=f"{query.pattern}: {facts['files']} files",
        data={**facts},
    )


def _shown(query: Query, path: str) -> str:
    relative = os.path.relpath(path, query.root)
    if relative == ".":
        return query.shown_root
    return relative if query.shown_root == "." else str(Path(query.shown_root, relative))
