"""Glob: files by the pattern of their path."""

import re
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread
from anyio import from_thread

from clew.core.access import Risk, TargetKind
from clew.tools.builtin.files import Unusable, failure, resolve
from clew.tools.builtin.patterns import MAGIC, refuse_escape
from clew.tools.builtin.scan import translate, walk
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput

MAX_FILES = 200
_CHECK_EVERY = 1_000


def glob_tool() -> Tool:
    """Make the Glob tool."""

    @tool(name="Glob", risk=Risk.INSPECT, target="path", kind=TargetKind.PATH)
    async def glob(pattern: str, place: ToolContext, path: str = ".") -> ToolOutput:
        """Find files by a pattern such as **/*.py or src/*.{ts,tsx}; newest first. What
        .gitignore names is left out, unless the pattern begins with it.

        Args:
            pattern: What the path below the folder must look like.
            place: Where the call runs.
            path: The folder to look in.
        """  # noqa: D205
        return await anyio.to_thread.run_sync(_glob, pattern, path, place)

    return glob


def _glob(pattern: str, path: str, place: ToolContext) -> ToolOutput:
    root = resolve(path, place)
    try:
        refuse_escape(pattern)
        wanted = re.compile(translate(pattern), re.DOTALL)
        if not root.is_dir():
            raise Unusable(f"{path} is not a folder.")  # noqa: TRY301
    except (Unusable, re.error, ValueError) as error:
        return failure(str(error))
    prefix = "" if path == "." else path.rstrip("/") + "/"
    dated = [(_changed(root / name), name) for name in _matching(root, pattern, wanted)]
    names = [prefix + name for time, name in sorted(dated, key=lambda each: (-each[0], each[1]))]
    if not names:
        return ToolOutput(text=f"[no files match {pattern} in {path}]", data={"total": 0})
    shown = names[:MAX_FILES]
    if len(names) > MAX_FILES:
        shown.append(f"[{MAX_FILES} newest of {len(names)} files; narrow the pattern for others]")
    return ToolOutput(
        text="\n".join(shown),
        display=f"{len(names)} files match {pattern}",
        data={"total": len(names)},
    )


def _matching(root: Path, pattern: str, wanted: re.Pattern[str]) -> Iterator[str]:
    """Yield what matches below `root`, starting where the pattern's fixed part leads."""
    parts = pattern.removeprefix("./").split("/")
    fixed = next((at for at, part in enumerate(parts) if MAGIC & set(part)), len(parts))
    if fixed == len(parts):
        name = "/".join(parts)
        if (root / name).is_file() and not _leaves(root, parts[:-1]):
            yield name
        return
    if _leaves(root, parts[:fixed]):
        return
    base = "".join(f"{part}/" for part in parts[:fixed])
    for count, (name, ignored) in enumerate(walk(str(root / base))):
        if count % _CHECK_EVERY == 0:
            from_thread.check_cancelled()
        if not ignored and wanted.fullmatch(base + name):
            yield base + name


def _leaves(root: Path, parts: list[str]) -> bool:
    """Does a link lead out on this way? Rules about paths would not see where to."""
    return any((root / "/".join(parts[: at + 1])).is_symlink() for at in range(len(parts)))


def _changed(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
