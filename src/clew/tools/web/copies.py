"""Answers that were fetched a moment ago, kept in memory for a while."""

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Final

from msgspec import Struct, field

from clew.tools.protocol import ToolOutput

SECONDS: Final = 15 * 60.0
MAX_CHARS: Final = 20_000_000


class Copies(Struct, kw_only=True):
    """Keeps outputs by their address, for a quarter of an hour and within a bound."""

    seconds: float = SECONDS
    max_chars: int = MAX_CHARS
    clock: Callable[[], float] = monotonic
    _kept: OrderedDict[str, tuple[float, ToolOutput]] = field(default_factory=OrderedDict)
    _chars: int = 0

    def get(self, url: str) -> tuple[float, ToolOutput] | None:
        """Return how old the copy of an address is, in seconds, and the copy; None without one."""
        since, output = self._kept.get(url, (0.0, None))
        if output is None:
            return None
        age = self.clock() - since
        return (age, output) if age < self.seconds else None

    def put(self, url: str, output: ToolOutput) -> None:
        """Keep an output; the oldest ones go when there are too many."""
        self._drop(url)
        self._kept[url] = (self.clock(), output)
        self._chars += _size(output)
        while self._chars > self.max_chars and self._kept:
            self._drop(next(iter(self._kept)))

    def _drop(self, url: str) -> None:
        since_and_output = self._kept.pop(url, None)
        if since_and_output is not None:
            self._chars -= _size(since_and_output[1])


def _size(output: ToolOutput) -> int:
    return len(output.text) + sum(len(image.data) for image in output.images)
