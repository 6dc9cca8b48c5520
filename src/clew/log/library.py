"""What the names in a log stand for, as far as it was read."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from clew.core.messages import Message
from clew.log.events import HISTORY, Outline
from clew.log.faults import Code
from clew.log.outline import content_name

Complain: TypeAlias = Callable[[Code, str], None]
Names: TypeAlias = tuple[str, list[str] | None]
"""Which request a list is of, and the names in it; None when they cannot be made out."""

NOTHING: Names = ("", [])


class Library:
    """Contents by their sha256."""

    def __init__(self, complain: Complain) -> None:
        self._complain = complain
        self._contents: dict[str, Any] = {}
        """A tree, or a message."""
        self._names: dict[int, tuple[Message, str]] = {}

    def get(self, name: str) -> Any:
        """Return what a name stands for; None when no line held it."""
        return self._contents.get(name)

    def message(self, name: str) -> Message | None:
        """Return the message of a name; None when no line held it."""
        found = self._contents.get(name)
        if found is None or isinstance(found, Message):
            return found
        try:
            return msgspec.convert(found, Message)
        except msgspec.ValidationError:
            return None

    def name(self, message: Message) -> str:
        """Return the name of a message."""
        known = self._names.get(id(message))
        if known is None:
            known = (message, content_name(msgspec.to_builtins(message)))
            self._names[id(message)] = known
        return known[1]

    def hold(self, name: str, value: Any) -> None:
        """Remember a content."""
        self._contents[name] = value
        if isinstance(value, Message):
            self._names[id(value)] = (value, name)

    def learn(self, content: dict[str, Any], *, is_whole: bool) -> None:
        """Remember the contents of a request, and see whether they are what their names say."""
        for name, tree in content.items():
            if is_whole and content_name(tree) != name:
                self._complain(Code.CONTENT_SHA256_MISMATCH, f"{name} is something else")
            self._contents.setdefault(name, tree)

    def check(self, name: str, place: str) -> bool:
        """Say whether a name stands for something."""
        if name in self._contents:
            return True
        self._complain(Code.CONTENT_MISSING, f"{place} names {name}, which no line holds")
        return False

    def spelt_out(
        self, outline: Outline, last: Names, place: str, *, history: Sequence[Message] = ()
    ) -> Names:
        """Return the names of a whole list, given the one that it goes on from."""
        base: list[str] | None = []
        if outline.of == HISTORY:
            base = [self.name(message) for message in history]
        elif outline.same and outline.of == last[0]:
            base = last[1]
        if base is None:
            return place, None
        if len(base) < outline.same:
            text = f"{place} goes on from {outline.same} elements of {outline.of}"
            self._complain(Code.REQUEST_BASE_INVALID, f"{text}, and there are {len(base)}")
            return place, None
        return place, [*base[: outline.same], *outline.new]
