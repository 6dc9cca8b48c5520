"""Standard input, output and error: always open, with errors for closed pipes."""

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from clew.cli.paint import make_painter
from clew.core.sanitize import sanitize, sanitize_json
from clew.core.text import make_encodable
from clew.tui.standard_output import (
    OutputLost,
    discard_output,
    wait_for_reader_exit,
    write_out,
)

__all__ = [
    "OutputLost",
    "discard_output",
    "prepare_streams",
    "print_json",
    "print_line",
    "wait_for_reader_exit",
    "write_err",
    "write_out",
]

_REPLACEMENTS = dict(zip("█░→✓✗…│─", ("#", ".", "->", "+", "x", "...", "|", "-"), strict=True)) | {
    chr(0x2400 + code): f"^{chr(code + 64)}" for code in range(0x20)
}


def prepare_streams() -> bool:
    """Open closed streams and set their error handlers; returns False without standard output.

    A closed stream (`>&-`) is opened on the null device, so that no other file gets its number.
    Characters that an encoding lacks are replaced.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - stays open
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error("clew", _replace_characters)
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "clew"), (sys.stderr, "clew")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
    return sys.stdout is not None


def print_line(text: str, style: str = "") -> None:
    """Write sanitized text and a line break to standard output, in a style of `clew.cli.paint`.

    Raises:
        OutputLost: Standard output is closed or full.
    """
    shown = sanitize(text)
    write_out(f"{make_painter()(shown, style) if style else shown}\n")


def print_lines(lines: Iterable[str]) -> None:
    """Write sanitized lines to standard output; raises as `print_line`."""
    write_out("".join(f"{sanitize(line)}\n" for line in lines))


def print_json(value: object, *, indent: bool = False) -> None:
    """Write a value to standard output as JSON without raw control characters.

    Raises:
        OutputLost: Standard output is closed or full.
    """
    data = msgspec.json.encode(make_encodable(value))
    text = (msgspec.json.format(data) if indent else data).decode()
    write_out(f"{sanitize_json(text)}\n")


def write_err(text: str) -> None:
    """Write a sanitized message to standard error; does nothing if that is closed."""
    with contextlib.suppress(OSError):
        print(f"clew: {sanitize(text)}", file=sys.stderr, flush=True)


def _replace_characters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    return "".join(_REPLACEMENTS.get(character, "?") for character in characters), error.end
