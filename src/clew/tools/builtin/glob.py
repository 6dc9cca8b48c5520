"""Glob: files by the pattern of their path."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread
from anyio import from_thread

from clew.core.access import Risk
from clew.tools.builtin.files import Unusable, failure, resolve
from clew.tools.builtin.patterns import refuse_escape, translate
from clew.tools.function import tool
from clew.tools.protocol import Place, Tool, ToolOutput

MAX_FILES = 200
_MAGIC = frozenset("*?[{")


def glob_tool() -> Tool:
    """Make the Glob tool."""

    @tool(name="Glob", risk=Risk.INSPECT, target="path", target_is_path=True)
    async def glob(pattern: str, place: Place, path: str = ".") -> ToolOutput:
        """Find files by a pattern such as **/*.py or src/*.{ts,tsx}; newest first.

        Args:
            pattern: What the path below the folder must look like.
            place: Where the call runs.
            path: The folder to look in.
        """
        return await anyio.to_thread.run_sync(_glob, pattern, path, place)

    return glob


def _glob(pattern: str, path: str, place: Place) -> ToolOutput:
    root = resolve(path, place)
    try:
        refuse_escape(pattern)
        wanted = re.compile(translate(pattern), re.DOTALL)
        if not root.is_dir():
            raise Unusable(f"{path} is not a folder.")  # noqa: TRY301
    except (Unusable, re.error) as error:
        return failure(str(error))
    prefix = "" if path == "." else path.rstrip("/") + "/"
    found = [(_changed(file), file) for file in _files(root, pattern, wanted)]
    real = sorted((-time, prefix + str(file.relative_to(root))) for time, file in found if time)
    names = [name for _, name in real]
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


def _files(root: Path, pattern: str, wanted: re.Pattern[str]) -> Iterator[Path]:
    start = root
    for part in pattern.removeprefix("./").split("/")[:-1]:
        if _MAGIC & set(part):
            break
        start /= part
        if start.is_symlink():
            return
    for folder, folders, names in os.walk(start):
        from_thread.check_cancelled()
        folders[:] = [name for name in folders if name != ".git"]
        here = Path(folder)
        relative = "" if here == root else f"{here.relative_to(root)}/"
        yield from (here / name for name in names if wanted.fullmatch(relative + name))


def _changed(file: Path) -> int:
    try:
        facts = file.stat()
    except OSError:
        return 0
    return facts.st_mtime_ns if stat.S_ISREG(facts.st_mode) else 0
