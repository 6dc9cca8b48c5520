"""Read a recording of any known format."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from clew.core.errors import ConfigError
from clew.core.json_text import JsonDecoder
from clew.importers import claude_code, clew_jsonl, codex, gemini_cli, pi
from clew.importers.recorded_session import RecordedSession

Parse: TypeAlias = Callable[[Iterable[bytes]], RecordedSession]

KNOWN_FORMATS = "Claude Code, Codex, Gemini CLI, pi and Clew sessions, plain or gzipped"
_GZIP = b"\x1f\x8b"
_CODEX = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_NO_RAW = Raw(b"")


class _Probe(Struct, frozen=True, rename="camel"):
    """The fields that distinguish the formats."""

    type: str = ""
    payload: Raw = _NO_RAW
    body: Raw = _NO_RAW
    schema: Raw = _NO_RAW
    uuid: str = ""
    session_id: str = ""
    project_hash: str = ""
    leaf_uuid: str = ""
    snapshot: Raw = _NO_RAW
    message: Raw = _NO_RAW
    cwd: Raw = _NO_RAW


_probe = JsonDecoder(_Probe)


def read_session(path: Path | str) -> RecordedSession:
    """Read the recording at `path` and detect its format.

    Raises:
        ConfigError: The file cannot be read, is empty, or has an unknown format.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    data, whole = _unpack(data)
    if not data.strip():
        raise ConfigError(f"{path} is empty: it contains no session")
    lines = data.split(b"\n")
    # Older sessions of Gemini CLI are one document of many lines.
    parse = _find_parser(lines) or _find_parser([data])
    if parse is None:
        raise ConfigError(f"{path} has an unknown format; Clew reads {KNOWN_FORMATS}")
    session = parse(lines)
    if whole:
        return session
    note = "the compressed file is truncated; the part that could be unpacked was read"
    return replace(session, problems=(note, *session.problems))


def _unpack(data: bytes) -> tuple[bytes, bool]:
    """Return the content of a gzip file, and whether it is complete."""
    pieces: list[bytes] = []
    while data.startswith(_GZIP):
        stream = zlib.decompressobj(wbits=31)
        try:
            pieces += [stream.decompress(data), stream.flush()]
        except zlib.error:
            return b"".join(pieces), False
        if not stream.eof:
            return b"".join(pieces), False
        data = stream.unused_data
    return (b"".join(pieces), True) if pieces else (data, True)


def _find_parser(lines: Sequence[bytes]) -> Parse | None:
    """Return the parser for the first line that shows its format."""
    for line in lines:
        try:
            probe = _probe.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        found = _parser_for(probe)
        if found is not None:
            return found
    return None


def _parser_for(probe: _Probe) -> Parse | None:
    if bytes(probe.body) and bytes(probe.schema):
        return clew_jsonl.parse
    if probe.type in _CODEX and bytes(probe.payload):
        return codex.parse
    if probe.session_id and probe.project_hash:
        return gemini_cli.parse
    if probe.type and (probe.session_id or probe.uuid or probe.leaf_uuid or bytes(probe.snapshot)):
        return claude_code.parse
    if probe.type == "session" and bytes(probe.cwd):
        return pi.parse
    if probe.type == "message" and bytes(probe.message):
        return pi.parse
    return None
