"""Runs the programs of a guide: `python -m tests.guides PAGE`.

A fence that begins with "```python run" is a program. A comment `<!-- run … -->` is a program
that readers do not see: it creates what a snippet needs, such as a provider. The programs of a page
share their variables and run in order; `await` works outside of functions. A fence
"```text printed" must match the output of the program before it.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_BLOCK = re.compile(
    r"^```python run\n(?P<code>.*?)^```$|^```text printed\n(?P<printed>.*?)^```$"
    r"|^<!-- run\n(?P<setup>.*?)^-->$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A program of a page, or its expected output."""

    kind: Literal["code", "printed", "setup"]
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """Yield the programs of a page in order."""
    for found in _BLOCK.finditer(page):
        line = page.count("\n", 0, found.start()) + 1
        for kind in ("code", "printed", "setup"):
            if found[kind] is not None:
                yield Block(kind, found[kind], line)


def run(path: Path) -> None:
    """Run a page.

    Raises:
        AssertionError: A program did not print what the page says.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    with asyncio.Runner() as runner:
        for block in blocks(path.read_text(encoding="utf-8")):
            if block.kind == "printed":
                assert printed.strip() == block.text.strip(), (
                    f"{path}:{block.line}: this was printed:\n{printed}"
                )
                continue
            with contextlib.redirect_stdout(io.StringIO()) as out:
                _execute(block, path, names, runner)
            printed = out.getvalue()


def _execute(block: Block, path: Path, names: dict[str, Any], runner: asyncio.Runner) -> None:
    # Empty lines, so that a traceback has the line number of the page.
    source = "\n" * block.line + block.text
    code = compile(source, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, names)
    if inspect.iscoroutine(result):
        runner.run(result)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
