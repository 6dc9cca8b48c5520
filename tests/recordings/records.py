"""Reading the recordings."""

import gzip
import json
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[3] / "shared" / "data"
PRESENT = (DATA / "wire_records.jsonl.gz").is_file()

Record = dict[str, Any]
TOKEN_KEYS = frozenset({"signature", "encrypted_content", "thoughtSignature", "redactedContent"})


@cache
def records() -> list[Record]:
    """Return every recorded exchange."""
    with gzip.open(DATA / "wire_records.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@cache
def round_trips() -> frozenset[tuple[str, str, int]]:
    """Return the keys of the requests that send an opaque token back."""
    found = json.loads((DATA / "roundtrip_index.json").read_text(encoding="utf-8"))
    return frozenset((r["source"], r["file"], r["i"]) for r in found["roundtrips"])


def key(record: Record) -> tuple[str, str, int]:
    """Return what the index of round trips knows a record by."""
    return record["source"], record["file"], record["i"]


def answer_bytes(record: Record) -> bytes:
    """Return the body of the answer as it came."""
    text: str = record["response_text"] or ""
    if text.startswith("base64:"):
        return b64decode(text.removeprefix("base64:"))
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(line.startswith('{"') and line.endswith("}") for line in lines):
        # Whoever recorded it left the framing of the stream out.
        return "".join(f"data: {line}\n\n" for line in lines).encode()
    return text.encode()


def is_whole(record: Record) -> bool:
    """Say whether the answer came as one JSON document."""
    return answer_bytes(record).lstrip()[:1] in {b"{", b"["}


def tokens(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield every opaque reasoning token in a JSON value, with the place where it stands."""
    if isinstance(value, dict):
        sealed = value.get("type") == "redacted_thinking"
        for name, inner in value.items():
            is_token = name in TOKEN_KEYS or (sealed and name == "data")
            if is_token and isinstance(inner, str) and inner:
                yield (*path, name), inner
            else:
                yield from tokens(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from tokens(inner, (*path, index))
