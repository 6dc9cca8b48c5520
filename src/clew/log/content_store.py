"""Content-addressed storage: the log writes each content once and then refers to its sha256.

Fields that are too large for a line go to files beside the log, named by their hash: text as
`.txt`, anything else as `.json`. The line contains `{"$payload": name, "bytes": size}` instead.
System prompts, tool lists and parts of HTTP bodies that several requests share are written in
full once.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clew.core.json_text import decode_json
from clew.log.events import PrefixDelta

INLINE_LIMIT = 8_192
PAYLOAD_KEY = "$payload"
_ESCAPED = re.compile(r"\$+payload")


def sha256(data: bytes) -> str:
    """Return the hash under which contents are stored."""
    return hashlib.sha256(data).hexdigest()


def content_hash(tree: Any) -> str:
    """Hash a content: the JSON of a redacted tree."""
    return sha256(msgspec.json.encode(tree))


def payload_folder(path: Path) -> Path:
    """Return the folder for the large fields of the log at `path`."""
    return path.with_suffix(".payloads")


def escape_key(key: str) -> str:
    """Change a key that looks like a reference to a payload."""
    return f"${key}" if _ESCAPED.fullmatch(key) else key


def unescape_key(key: str) -> str:
    """Restore a key that `escape_key` changed."""
    return key[1:] if key != PAYLOAD_KEY and _ESCAPED.fullmatch(key) else key


def count_shared_prefix(old: Sequence[Any], new: Sequence[Any]) -> int:
    """Return how many leading elements two lists share; usually that is all of `old`."""
    if len(new) >= len(old) and new[: len(old)] == old:
        return len(old)
    pairs = zip(old, new, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


class ContentIndex:
    """Knows which contents the log already holds, and collects the new ones.

    A line that refers to a new content must carry it, so a writer calls `take` for each line.
    """

    def __init__(self, redact: Callable[[Any], Any]) -> None:
        self._redact = redact
        self._held: set[str] = set()
        self._new: dict[str, Any] = {}
        self._slots: dict[str, tuple[Any, str]] = {}
        self._lists: dict[str, tuple[str, list[bytes]]] = {}

    def add(self, value: Any, slot: str = "") -> str:
        """Return the hash of a content; `take` returns the content if it is new.

        Args:
            value: A message, or any other value that JSON can represent.
            slot: A name for a value that rarely changes; an unchanged one is not hashed again.
        """
        if slot in self._slots and self._slots[slot][0] == value:
            return self._slots[slot][1]
        tree = self._redact(msgspec.to_builtins(value))
        name = content_hash(tree)
        if name not in self._held:
            self._held.add(name)
            self._new[name] = tree
        if slot:
            self._slots[slot] = (value, name)
        return name

    def add_list(self, name: str, items: list[bytes], owner: str) -> PrefixDelta:
        """Describe a list by its difference from the previous list of the same name.

        Args:
            name: Which sequence of lists it belongs to.
            items: Encoded JSON values.
            owner: The request that contains the list.
        """
        of, last = self._lists.get(name, ("", []))
        self._lists[name] = (owner, items)
        same = count_shared_prefix(last, items)
        new = tuple(self.add(decode_json(item)) for item in items[same:])
        return PrefixDelta(of=of if same else "", same=same, new=new)

    def take(self) -> dict[str, Any]:
        """Return the contents that are new since the last call, by hash."""
        new, self._new = self._new, {}
        return new

    def reset(self) -> None:
        """Forget everything, because the log lost lines or another session starts."""
        for known in (self._held, self._new, self._slots, self._lists):
            known.clear()
