"""Text files as the tools treat them: found, decoded, and replaced in one step.

What was decoded can be encoded back to the same bytes: byte-order mark, encoding and
line endings are kept.
"""

import codecs
import contextlib
import difflib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from clew.tools.protocol import Place, ToolOutput

MAX_BYTES = 64_000_000
"""Above this a file is not read whole; Bash can look into it."""
MAX_LINE = 2_000
_SAMPLE = 8_192
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Unusable(Exception):
    """The file cannot be worked on; the text tells the model why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """A decoded file."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """Return `text` as this file would hold it.

        Raises:
            Unusable: The file's encoding has no place for one of the characters.
        """
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            bad = text[error.start]
            raise Unusable(f"The file is {self.encoding} and cannot hold {bad!r}.") from error


def resolve(path: str, place: Place) -> Path:
    """Return where `path` is: `~` is the home folder, relative paths start at the cwd."""
    try:
        given = Path(path).expanduser()
    except RuntimeError:
        given = Path(path)
    return place.cwd / given


def failure(text: str) -> ToolOutput:
    """Make the output of a call that could not be done."""
    return ToolOutput(text=text, failed=True)


def load(path: Path, shown: str) -> bytes:
    """Return the bytes of a regular file.

    Args:
        path: Where it is.
        shown: How the model called it.

    Raises:
        Unusable: It is absent, no regular file, too large, or not ours to read.
    """
    try:
        facts = path.stat()
        if stat.S_ISDIR(facts.st_mode):
            raise Unusable(f"{shown} is a folder, not a file. Use Glob to list it.")
        if not stat.S_ISREG(facts.st_mode):
            raise Unusable(f"{shown} is not a regular file.")
        if facts.st_size > MAX_BYTES:
            raise Unusable(
                f"{shown} has {facts.st_size} bytes, too many to read whole. "
                "Search it with Grep, or cut a piece out with Bash."
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise Unusable(_missing(path, shown)) from None
    except (OSError, ValueError) as error:
        raise Unusable(f"{shown} cannot be read: {_why(error)}.") from error


def decode(data: bytes, shown: str) -> TextFile:
    """Decode a file by its byte-order mark, as UTF-8, or else as Latin-1.

    Raises:
        Unusable: The bytes are no text.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return TextFile(text=data[len(bom) :].decode(encoding), encoding=encoding, bom=bom)
            except UnicodeDecodeError:
                break
    if b"\0" in data[:_SAMPLE]:
        raise Unusable(f"{shown} is a binary file ({len(data)} bytes).")
    try:
        return TextFile(text=data.decode())
    except UnicodeDecodeError:
        if _looks_binary(data[:_SAMPLE]):
            raise Unusable(f"{shown} is a binary file ({len(data)} bytes).") from None
        return TextFile(text=data.decode("latin-1"), encoding="latin-1")


def replace(path: Path, data: bytes, shown: str) -> None:
    """Put `data` in place of the file at `path`, whole or not at all.

    A link is followed to its target. Mode and, where possible, owner of an existing
    file are kept; missing folders are made.

    Raises:
        Unusable: It could not be done; what was there before is untouched.
    """
    try:
        target = path.resolve()
        facts = target.stat() if target.exists() else None
        if facts and not stat.S_ISREG(facts.st_mode):
            raise Unusable(f"{shown} is not a regular file, so it cannot be written.")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f".clew-{secrets.token_hex(8)}.tmp"
        try:
            _write(temporary, data, facts)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    except (OSError, ValueError, RuntimeError) as error:
        raise Unusable(f"{shown} cannot be written: {_why(error)}.") from error


def cut(line: str) -> str:
    """Shorten a line that is too long to be read, and say so."""
    if len(line) <= MAX_LINE:
        return line
    return f"{line[:MAX_LINE]} [cut: {len(line) - MAX_LINE} more characters]"


def lines_of(text: str) -> list[str]:
    """Split at line feeds only, as editors and `grep` count; no last empty line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _write(temporary: Path, data: bytes, facts: os.stat_result | None) -> None:
    # 0o666 lets the kernel apply the umask; reading it in Python would race with threads.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(temporary, flags, 0o666), "wb") as stream:
        if facts:
            with contextlib.suppress(OSError):
                os.fchown(stream.fileno(), facts.st_uid, facts.st_gid)
            os.fchmod(stream.fileno(), stat.S_IMODE(facts.st_mode))
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    # Some file systems cannot sync a folder; the file itself is safe by then.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _looks_binary(sample: bytes) -> bool:
    odd = sum((byte < 32 and byte not in b"\t\n\r\f\b\x1b") or 127 <= byte < 160 for byte in sample)
    return odd > len(sample) * 0.05


def _missing(path: Path, shown: str) -> str:
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


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
