"""Large fields beside the log: files named by the sha256 of what is in them.

A text lies there as it is (`.txt`), anything else as JSON (`.json`). In the line stands
`{"$payload": name, "bytes": size}`. What is the same is stored once.
"""

import contextlib
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from clew.files.atomic import make_private_folder, replace_file
from clew.files.safe_read import read_regular
from clew.log.faults import Code

INLINE_LIMIT = 8_192
KEY = "$payload"
_NAME = re.compile(r"[0-9a-f]{64}\.(?:txt|json)")
_ESCAPED = re.compile(r"\$+payload")
_SCALAR_BYTES = 8

OnFault: TypeAlias = Callable[[Code, str], None]


class Unresolved(Exception):
    """A reference to something that is not text cannot be followed."""


def sha256(data: bytes) -> str:
    """Return the name that contents go by."""
    return hashlib.sha256(data).hexdigest()


class PayloadWriter:
    """Puts what is too large for a line into files of a folder that only their owner can read."""

    def __init__(self, folder: Path, *, limit: int = INLINE_LIMIT) -> None:
        self._folder = folder
        self._limit = limit
        self._stored: set[str] = set()

    def encode(self, fields: dict[str, Any]) -> bytes:
        """Return the JSON of `fields`, with references for what is too large."""
        line = msgspec.json.encode(fields)
        if len(line) <= self._limit and KEY.encode() not in line:
            return line
        return msgspec.json.encode({key: self._fitted(v)[0] for key, v in fields.items()})

    def _fitted(self, value: Any) -> tuple[Any, int]:
        """Return `value`, or what stands for it, and about how many bytes that takes."""
        match value:
            case str():
                data = value.encode()
                size = len(data) + 2
                return self._reference(data, "txt") if size > self._limit else (value, size)
            case dict():
                inner = {_escaped(key): self._fitted(v) for key, v in value.items()}
                size = sum(len(key) + 4 + part[1] for key, part in inner.items())
                fitted: Any = {key: part[0] for key, part in inner.items()}
            case list() | tuple():
                parts = [self._fitted(v) for v in value]
                size = sum(part[1] + 1 for part in parts)
                fitted = [part[0] for part in parts]
            case _:
                return value, _SCALAR_BYTES
        if size > self._limit:
            return self._reference(msgspec.json.encode(fitted), "json")
        return fitted, size

    def _reference(self, data: bytes, kind: str) -> tuple[dict[str, Any], int]:
        name = f"{sha256(data)}.{kind}"
        if name not in self._stored:
            _store(self._folder / name, data)
            self._stored.add(name)
        return {KEY: name, "bytes": len(data)}, 100


class PayloadReader:
    """Puts the contents of files back where references to them stand, after checking them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files: dict[str, int] = {}
        """Each file that was read, and its size: one that is used often counts once."""

    def resolved(self, value: Any, on_fault: OnFault) -> Any:
        """Return `value` with its contents; a text that is not there is replaced by a note.

        Raises:
            Unresolved: Something other than a text is not there.
        """
        match value:
            case dict() if KEY in value:
                return self._content(value, on_fault)
            case dict():
                return {_unescaped(k): self.resolved(v, on_fault) for k, v in value.items()}
            case list():
                return [self.resolved(v, on_fault) for v in value]
            case _:
                return value

    def _content(self, reference: dict[str, Any], on_fault: OnFault) -> Any:
        name, size = reference.get(KEY), reference.get("bytes")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(size, int):
            on_fault(Code.PAYLOAD_REFERENCE_INVALID, f"{reference!r:.200} is no reference")
            raise Unresolved
        data = self._read(name, size, on_fault)
        if name.endswith(".txt"):
            return f"[payload {name} is lost]" if data is None else data.decode(errors="replace")
        if data is None:
            raise Unresolved
        return self.resolved(msgspec.json.decode(data), on_fault)

    def _read(self, name: str, size: int, on_fault: OnFault) -> bytes | None:
        try:
            data = read_regular(self._folder / name)
        except OSError as error:
            on_fault(Code.PAYLOAD_MISSING, f"{name} cannot be read: {error.strerror}")
            return None
        if len(data) != size:
            text = f"{name} has {len(data):,} bytes and should have {size:,}"
            on_fault(Code.PAYLOAD_SIZE_MISMATCH, text)
            return None
        if sha256(data) != name[:64]:
            on_fault(Code.PAYLOAD_SHA256_MISMATCH, f"{name} does not hold what its name says")
            return None
        self.files[name] = size
        return data


def _store(path: Path, data: bytes) -> None:
    """Write a file so that it is whole or not there; one of the right size is left alone."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size == len(data):
            return
    make_private_folder(path.parent)
    replace_file(path, data, mode=0o600, durable=False)


def _escaped(key: str) -> str:
    """Keep what others wrote apart from our references."""
    return f"${key}" if _ESCAPED.fullmatch(key) else key


def _unescaped(key: str) -> str:
    return key[1:] if key != KEY and _ESCAPED.fullmatch(key) else key
