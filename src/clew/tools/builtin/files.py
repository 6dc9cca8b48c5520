"""Find, load and decode text files for the file tools.

A decoded file can be encoded back to the same bytes: byte-order mark, encoding and line
endings are kept.
"""

import codecs
import difflib
import os
import stat
from pathlib import Path

from msgspec import Struct

from clew.files.no_links import open_file
from clew.tools.protocol import Documents, ToolContext, ToolOutput

MAX_BYTES = 64_000_000
"""A larger file is never loaded as a whole."""
MAX_LINE = 2_000
_SAMPLE = 8_192
_PIECE = 1_000_000
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class ToolFailure(Exception):
    """A tool call cannot be carried out; the message tells the model why."""


class TextFile(Struct, frozen=True, kw_only=True):
    """A decoded file."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """Return `text` in the encoding of this file.

        Raises:
            ToolFailure: The encoding does not have one of the characters.
        """
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            bad = text[error.start]
            raise ToolFailure(f"The file is {self.encoding} and cannot contain {bad!r}.") from error


def resolve(path: str, context: ToolContext) -> Path:
    """Return the real path: `~` is the home folder, relative paths start at the cwd.

    Raises:
        ToolFailure: The path leads elsewhere than when the call was allowed.
    """
    try:
        given = Path(path).expanduser()
    except RuntimeError:
        given = Path(path)
    try:
        real = Path(os.path.realpath(context.cwd / given))
    except (OSError, ValueError):
        return context.cwd / given
    if context.allowed_paths and str(real) not in context.allowed_paths:
        raise ToolFailure(f"{path} leads to another file than when this call was allowed.")
    return real


def find_bad_path(path: str) -> str:
    """Say why no file can have this path, or return an empty text."""
    if not path:
        return "file_path is empty."
    return "file_path has a null character." if "\0" in path else ""


def failure(text: str) -> ToolOutput:
    """Return the output of a call that failed."""
    return ToolOutput(text=text, failed=True)


def examine(path: Path, shown: str) -> os.stat_result:
    """Return the status of a regular file.

    Args:
        path: The file.
        shown: The path as the model wrote it.

    Raises:
        ToolFailure: It is missing, not a regular file, or not accessible.
    """
    try:
        facts = path.stat()
    except FileNotFoundError:
        raise ToolFailure(_explain_missing(path, shown)) from None
    except (OSError, ValueError) as error:
        raise ToolFailure(f"{shown} cannot be read: {describe_error(error)}.") from error
    if stat.S_ISDIR(facts.st_mode):
        raise ToolFailure(f"{shown} is a folder, not a file. Use Glob to list it.")
    if not stat.S_ISREG(facts.st_mode):
        raise ToolFailure(f"{shown} is not a regular file.")
    return facts


def load(path: Path, shown: str, documents: Documents | None = None) -> bytes:
    """Return the bytes of a regular file.

    A text with unsaved changes in an editor is encoded as the file on disk is.

    Args:
        path: The file.
        shown: The path as the model wrote it.
        documents: The files that an editor has open.

    Raises:
        ToolFailure: It is missing, not a regular file, too large, or not readable.
    """
    if (size := examine(path, shown).st_size) > MAX_BYTES:
        raise ToolFailure(f"{shown} has {size:,} bytes, too many to change. Use Bash.")
    try:
        with open_file(path) as stream:
            data = stream.read()
    except OSError as error:
        raise ToolFailure(f"{shown} cannot be read: {describe_error(error)}.") from error
    return data if documents is None else _take_unsaved(data, path, shown, documents)


def _take_unsaved(data: bytes, path: Path, shown: str, documents: Documents) -> bytes:
    try:
        file = decode(data, shown)
    except ToolFailure:
        # Editors have text files only.
        return data
    text = documents.read(path)
    if text is None or _normalize_endings(text) == _normalize_endings(file.text):
        return data
    crlf = "\r" not in text and file.text.count("\r\n") * 2 > file.text.count("\n")
    try:
        return file.encode(text.replace("\n", "\r\n") if crlf else text)
    except ToolFailure:
        return text.encode()


def _normalize_endings(text: str) -> str:
    return text.replace("\r\n", "\n")


def load_lines(path: Path, shown: str, *, first: int, limit: int) -> tuple[bytes, bool]:
    """Return some lines of a file that may be too large to load, and whether more follow.

    Args:
        path: The file.
        shown: The path as the model wrote it.
        first: The first line, counted from 1.
        limit: How many lines.

    Raises:
        ToolFailure: It cannot be read, or those lines alone are too long.
    """
    kept, at = bytearray(), 1
    try:
        with open_file(path) as stream:
            while at < first + limit and (piece := stream.readline(_PIECE)):
                if at >= first:
                    kept += piece
                if len(kept) > MAX_BYTES:
                    raise ToolFailure(f"These lines of {shown} are too long. Use Bash.")
                at += piece.endswith(b"\n")
            return bytes(kept), bool(stream.read(1))
    except OSError as error:
        raise ToolFailure(f"{shown} cannot be read: {describe_error(error)}.") from error


def decode(data: bytes, shown: str) -> TextFile:
    """Decode a file by its byte-order mark, as UTF-8, or else as Latin-1.

    Raises:
        ToolFailure: The file is binary.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return TextFile(text=data[len(bom) :].decode(encoding), encoding=encoding, bom=bom)
            except UnicodeDecodeError:
                break
    if b"\0" in data[:_SAMPLE]:
        raise ToolFailure(f"{shown} is a binary file ({len(data)} bytes).")
    try:
        return TextFile(text=data.decode())
    except UnicodeDecodeError:
        if _looks_binary(data[:_SAMPLE]):
            raise ToolFailure(f"{shown} is a binary file ({len(data)} bytes).") from None
        return TextFile(text=data.decode("latin-1"), encoding="latin-1")


def truncate_line(line: str) -> str:
    """Truncate a line that is too long, with a note."""
    if len(line) <= MAX_LINE:
        return line
    return f"{line[:MAX_LINE]} [cut: {len(line) - MAX_LINE} more characters]"


def split_lines(text: str) -> list[str]:
    """Split at line feeds only, as editors and `grep` do; without an empty last line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _looks_binary(sample: bytes) -> bool:
    odd = sum((byte < 32 and byte not in b"\t\n\r\f\b\x1b") or 127 <= byte < 160 for byte in sample)
    return odd > len(sample) * 0.05


def _explain_missing(path: Path, shown: str) -> str:
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return f"{shown} does not exist, and neither does its folder."
    lowered = {name.lower(): name for name in names}
    close = difflib.get_close_matches(path.name.lower(), lowered, n=3, cutoff=0.6)
    if not close:
        return f"{shown} does not exist."
    folder = shown[: len(shown) - len(path.name)] if shown.endswith(path.name) else ""
    return (
        f"{shown} does not exist. Did you mean {' or '.join(folder + lowered[c] for c in close)}?"
    )


def describe_error(error: Exception) -> str:
    """Return the reason of a file error as text."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
