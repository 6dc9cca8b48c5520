"""The Glob tool: finds files by a pattern of their path."""

import re
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread

from clew.core.permissions import Risk, TargetKind
from clew.core.text import pluralize
from clew.tools.builtin.files import ToolFailure, failure, resolve
from clew.tools.builtin.ripgrep import (
    check_pattern,
    find_ripgrep,
    parse_names,
    run_ripgrep,
    translate_glob,
)
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput

MAX_FILES = 200
_MAGIC = frozenset("*?[{")


def glob_tool(program: str | None = None) -> Tool:
    """Make the Glob tool, with the given ripgrep program or the one that is installed."""

    @tool(name="Glob", risk=Risk.INSPECT, target="path", kind=TargetKind.PATH)
    async def glob(pattern: str, context: ToolContext, path: str = ".") -> ToolOutput:
        """Find files by a pattern such as **/*.py or src/*.{ts,tsx}; newest first. Files that
        .gitignore excludes are left out, unless the pattern starts with their folder.

        Args:
            pattern: The pattern of the path below the folder.
            context: Where the call runs.
            path: The folder to search.
        """  # noqa: D205
        try:
            root = resolve(path, context)
            check_pattern(pattern)
            if not await anyio.Path(root).is_dir():
                raise ToolFailure(f"{path} is not a folder.")  # noqa: TRY301
            names = await _find(root, pattern, find_ripgrep() if program is None else program)
        except (ToolFailure, OSError, re.error, ValueError) as error:
            return failure(str(error))
        prefix = "" if path == "." else path.rstrip("/") + "/"
        return _format([prefix + name for name in names], pattern, path)

    glob.find_problem = _find_problem
    return glob


def _find_problem(pattern: str, **_: object) -> str:
    try:
        check_pattern(pattern)
        re.compile(translate_glob(pattern), re.DOTALL)
    except (ToolFailure, re.error) as error:
        return str(error)
    return ""


async def _find(root: Path, pattern: str, program: str) -> list[str]:
    """Return the matches below `root`, newest first; start at the literal part of the pattern."""
    wanted = re.compile(translate_glob(pattern), re.DOTALL)
    parts = pattern.removeprefix("./").split("/")
    fixed = next((at for at, part in enumerate(parts) if _MAGIC & set(part)), len(parts))
    if fixed == len(parts):
        name = "/".join(parts)
        inside = (root / name).is_file() and not _follows_link(root, parts[:-1])
        return [name] if inside else []
    folder = root.joinpath(*parts[:fixed])
    if not folder.is_dir() or _follows_link(root, parts[:fixed]):
        return []
    base = "".join(f"{part}/" for part in parts[:fixed])
    found = parse_names(await run_ripgrep(program, ["--files", "--null"], folder))
    names = [base + name for name in found if wanted.fullmatch(base + name)]
    return await anyio.to_thread.run_sync(_sort_by_age, root, names)


def _follows_link(root: Path, parts: Sequence[str]) -> bool:
    """Is one of these folders a link? Permission rules would not see its target."""
    return any(root.joinpath(*parts[: at + 1]).is_symlink() for at in range(len(parts)))


def _sort_by_age(root: Path, names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: (-_read_mtime(root / name), name))


def _read_mtime(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _format(names: list[str], pattern: str, path: str) -> ToolOutput:
    if not names:
        return ToolOutput(text=f"[no files match {pattern} in {path}]", data={"total": 0})
    shown = names[:MAX_FILES]
    if len(names) > MAX_FILES:
        shown.append(f"[{MAX_FILES} newest of {len(names)} files; narrow the pattern for others]")
    return ToolOutput(
        text="\n".join(shown),
        display=f"{pattern}: {pluralize(len(names), 'file')}",
        data={"total": len(names)},
    )
