"""The Grep tool: searches the content of files with a regular expression."""

import os
import re
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import anyio
import anyio.to_thread
from msgspec import Meta
from msgspec.structs import replace

from clew.core.permissions import Risk, TargetKind
from clew.core.text import pluralize
from clew.tools.builtin.files import (
    MAX_LINE,
    ToolFailure,
    examine,
    failure,
    resolve,
    truncate_line,
)
from clew.tools.builtin.ripgrep import (
    DEFAULT_LIMIT,
    MAX_BYTES,
    GrepQuery,
    MatchCount,
    MatchLine,
    OutputMode,
    check_pattern,
    find_query_problem,
    find_ripgrep,
    grep_options,
    parse_counts,
    parse_lines,
    run_ripgrep,
    translate_filter,
)
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput

_Match = TypeVar("_Match", MatchLine, MatchCount)


def grep_tool(program: str | None = None) -> Tool:
    """Make the Grep tool, with the given ripgrep program or the one that is installed."""

    @tool(name="Grep", risk=Risk.INSPECT, target="path", kind=TargetKind.PATH)
    async def grep(  # noqa: PLR0913
        pattern: str,
        tool_context: ToolContext,
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
        """Search file contents with a regular expression. Files that .gitignore excludes are
        left out, unless path or glob name them.

        Args:
            pattern: The regular expression.
            tool_context: Where the call runs.
            path: The file or folder to search.
            glob: Only files whose path matches, such as *.py; with ! before it, only others.
            type: Only files of this type, such as py, js, rust, go.
            output_mode: content shows the lines, files_with_matches only the paths, count
                the number of matching lines in each file.
            ignore_case: Ignore case.
            multiline: Let a match span several lines; the dot then matches line ends too.
            context: Lines to show before and after each match, with content.
            head_limit: The most lines or files to show.
        """  # noqa: D205
        query = GrepQuery(
            pattern=pattern,
            root=tool_context.cwd,
            shown_root=path,
            glob=glob,
            type=type,
            mode=output_mode,
            ignore_case=ignore_case,
            multiline=multiline,
            context=context if output_mode == "content" else 0,
            limit=head_limit,
        )
        return await _grep(query, tool_context, find_ripgrep() if program is None else program)

    grep.find_problem = partial(_find_problem, program)
    return grep


def _find_problem(
    program: str | None,
    /,
    pattern: str,
    glob: str = "",
    *,
    type: str = "",  # noqa: A002
    multiline: bool = False,
    **_: object,
) -> str:
    """Say why a search cannot succeed, whatever the files have."""
    query = GrepQuery(
        pattern=pattern, root=Path(), shown_root="", glob=glob, type=type, multiline=multiline
    )
    try:
        check_pattern(glob.removeprefix("!"))
    except ToolFailure as error:
        return str(error)
    return find_query_problem(find_ripgrep() if program is None else program, query)


async def _grep(query: GrepQuery, context: ToolContext, program: str) -> ToolOutput:
    try:
        query = replace(query, root=resolve(query.shown_root, context))
        check_pattern(query.glob.removeprefix("!"))
        if not await anyio.Path(query.root).exists():
            raise ToolFailure(f"{query.shown_root} does not exist.")  # noqa: TRY301
        # ripgrep applies globs relative to the folder that it runs in.
        folder = query.root
        if not await anyio.Path(query.root).is_dir():
            # A pipe or a device would keep ripgrep waiting.
            await anyio.to_thread.run_sync(examine, query.root, query.shown_root)
            folder = query.root.parent
        output = await run_ripgrep(program, grep_options(query), folder)
        partial = "the search found too much and was cut short" if len(output) >= MAX_BYTES else ""
        if query.mode == "content":
            return _content(query, _filter(query, parse_lines(output)), partial)
        return _counts(query, _filter(query, parse_counts(output, query.mode)), partial)
    except (ToolFailure, OSError, ValueError) as error:
        return failure(str(error))


def _filter(query: GrepQuery, matches: list[_Match]) -> list[_Match]:
    if not query.filters_late:
        return matches
    name = re.compile(translate_filter(query.glob), re.DOTALL)
    return [each for each in matches if name.fullmatch(os.path.relpath(each.path, query.root))]


def _content(query: GrepQuery, found: list[MatchLine], partial: str) -> ToolOutput:
    named = {each.path: _format_path(query, each.path) for each in found}
    lines: list[str] = []
    last: tuple[str, int] | None = None
    for each in sorted(found, key=lambda each: (named[each.path], each.line)):
        if query.context and last and last != (each.path, each.line - 1):
            lines.append("--")
        mark = ":" if each.hit else "-"
        text = f"{each.text[:MAX_LINE]} [cut]" if each.cut else truncate_line(each.text)
        lines.append(f"{named[each.path]}{mark}{each.line}{mark}{text}")
        last = (each.path, each.line)
    hits = [each.path for each in found if each.hit]
    return _format(query, lines, partial, {"files": len(set(hits)), "lines": len(hits)})


def _counts(query: GrepQuery, counted: list[MatchCount], partial: str) -> ToolOutput:
    pairs = sorted((_format_path(query, each.path), each.count) for each in counted)
    if query.mode == "count":
        lines = [f"{path}:{count}" for path, count in pairs]
        facts = {"files": len(pairs), "lines": sum(count for _, count in pairs)}
    else:
        lines, facts = [path for path, _ in pairs], {"files": len(pairs)}
    return _format(query, lines, partial, facts)


def _format(query: GrepQuery, lines: list[str], partial: str, facts: dict[str, int]) -> ToolOutput:
    notes = [f"[{partial}]"] if partial else []
    if len(lines) > query.limit:
        notes.append(f"[the first {query.limit} of {len(lines)} lines; raise head_limit for more]")
    shown = [*lines[: query.limit], *notes] or [f"[nothing matches {query.pattern}]"]
    return ToolOutput(
        text="\n".join(shown),
        display=f"{query.pattern}: {pluralize(facts['files'], 'file')}",
        data={**facts},
    )


def _format_path(query: GrepQuery, path: str) -> str:
    relative = os.path.relpath(path, query.root)
    if relative == ".":
        return query.shown_root
    return relative if query.shown_root == "." else str(Path(query.shown_root, relative))
