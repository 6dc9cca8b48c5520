"""Naming contents by their sha256, so that a request is written as what is new in it."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from clew.log.events import HISTORY, Outline
from clew.log.payloads import sha256

_T = TypeVar("_T")


def content_name(tree: Any) -> str:
    """Return the sha256 of a content: of its JSON, secrets taken out."""
    return sha256(msgspec.json.encode(tree))


class Contents:
    """Remembers what the log holds, and collects what it must be told."""

    def __init__(self, redact: Callable[[Any], Any]) -> None:
        self._redact = redact
        self._held: set[str] = set()
        self._fresh: dict[str, Any] = {}
        self._slots: dict[str, tuple[Any, str]] = {}

    def hold(self, name: str) -> None:
        """Remember a content that was written in a line of its own."""
        self._held.add(name)

    def name(self, value: Any) -> str:
        """Name a content; one that is new waits for `take`."""
        tree = self._redact(msgspec.to_builtins(value))
        name = content_name(tree)
        if name not in self._held:
            self._held.add(name)
            self._fresh[name] = tree
        return name

    def name_in(self, slot: str, value: Any) -> str:
        """Name what seldom changes, such as a system prompt: looked at only when it does."""
        known = self._slots.get(slot)
        if known is None or known[0] != value:
            known = (value, self.name(value))
            self._slots[slot] = known
        return known[1]

    def take(self) -> dict[str, Any]:
        """Return what is new since the last time, by name."""
        fresh, self._fresh = self._fresh, {}
        return fresh

    def forget(self) -> None:
        """Suppose that the log holds nothing, after a line of it was lost."""
        self._held.clear()
        self._slots.clear()
        self._fresh.clear()


class Chain(Generic[_T]):
    """Lists of which each mostly begins like the one before."""

    def __init__(self) -> None:
        self._last: Sequence[_T] = ()
        self._of = ""

    def outline(self, items: Sequence[_T], name: Callable[[_T], str], execution_id: str) -> Outline:
        """Describe the list of one call by the call before it."""
        same = _same(self._last, items)
        made = Outline(
            of=self._of if same else "",
            same=same,
            new=tuple(name(item) for item in items[same:]),
        )
        self._last, self._of = items, execution_id
        return made

    def from_history(self, items: Sequence[_T], execution_id: str) -> Outline:
        """Begin with a list that the history leads to."""
        self._last, self._of = items, execution_id
        return Outline(of=HISTORY, same=len(items))

    @property
    def is_new(self) -> bool:
        """True before the first list."""
        return not self._of


def _same(old: Sequence[_T], new: Sequence[_T]) -> int:
    """Return how many leading elements two lists share; by far most often, all of the old."""
    if len(new) >= len(old) and new[: len(old)] == old:
        return len(old)
    pairs = zip(old, new, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))
