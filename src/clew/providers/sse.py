"""A parser for server-sent events that works on any chunk boundaries.

Pure: the same bytes give the same events, however the network splits them.
"""

from msgspec import Struct

_BOM = b"\xef\xbb\xbf"
_DATA = b"data: "


class ServerEvent(Struct, frozen=True, gc=False):
    """One event: its data lines joined by newlines, and its name, if any."""

    data: str
    name: str = ""


class EventParser:
    """Parses the bytes of one response into events.

    Ignores comments, ids, retry hints and events without data.
    """

    def __init__(self) -> None:
        self._tail = bytearray()
        self._data: list[str] = []
        self._name = ""
        self._at_start = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Add the next bytes and return the events that they complete."""
        is_inside = self._tail or self._data or self._name or self._after_cr
        if not is_inside and (events := _split_plain(chunk)):
            self._at_start = False
            return events
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\n" not in chunk and b"\r" not in chunk:
            self._tail += chunk
            return []
        lines = (bytes(self._tail) + chunk if self._tail else chunk).splitlines()
        last = b"" if chunk.endswith((b"\r", b"\n")) else lines.pop()
        if self._tail or last:
            self._tail = bytearray(last)
        # A CR that ends a chunk may be half of a CRLF.
        self._after_cr = chunk.endswith(b"\r")
        return self._take(lines)

    def close(self) -> list[ServerEvent]:
        """Return the last event if the response ended without its blank line."""
        lines = [bytes(self._tail), b""] if self._tail else [b""]
        self._tail.clear()
        return self._take(lines)

    def _take(self, lines: list[bytes]) -> list[ServerEvent]:
        events: list[ServerEvent] = []
        if self._at_start and lines:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BOM)
        for line in lines:
            if line.startswith(_DATA):
                self._data.append(line[6:].decode(errors="replace"))
            elif line:
                name, _, value = line.partition(b":")
                if name == b"data":
                    self._data.append(value.removeprefix(b" ").decode(errors="replace"))
                elif name == b"event":
                    self._name = value.removeprefix(b" ").decode(errors="replace")
            elif self._data:
                events.append(ServerEvent("\n".join(self._data), self._name))
                self._data, self._name = [], ""
            else:
                self._name = ""
        return events


def _split_plain(chunk: bytes) -> list[ServerEvent]:
    """Return the events of a chunk in which each is whole and one line of data, as most are.

    Empty for any other chunk.
    """
    if not chunk.startswith(_DATA) or not chunk.endswith(b"\n\n") or b"\r" in chunk:
        return []
    found = chunk[6:-2].decode(errors="replace").split("\n\ndata: ")
    return [ServerEvent(data) for data in found] if chunk.count(b"\n") == 2 * len(found) else []
