"""What went over the wire in one call, written as what is new in it."""

from typing import Any

import msgspec
from msgspec import Raw

from clew.core.errors import ProviderError
from clew.log.events import LogEvent, NativePayload, Outline
from clew.log.lines import Lines
from clew.log.outline import Chain, Contents
from clew.log.pieces import BytePieces

_SMALL_FIELD = 256
"""Fields below this many bytes are not worth a name."""

_fields = msgspec.json.Decoder(dict[str, Raw])
_elements = msgspec.json.Decoder(list[Raw])


class NativeChains:
    """The lists of the last request that went over the wire, by the name of their field."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._chains: dict[str, Chain[bytes]] = {}

    def lists(self, lists: dict[str, list[bytes]], execution_id: str) -> dict[str, Outline]:
        """Describe the lists of a request by those of the one before."""
        return {
            name: self._chains.setdefault(name, Chain()).outline(elements, self.name, execution_id)
            for name, elements in lists.items()
        }

    def name(self, raw: bytes) -> str:
        """Name a part of a request."""
        return self._contents.name(msgspec.json.decode(raw))

    def take(self) -> dict[str, Any]:
        """Return the parts that the log does not hold yet."""
        return self._contents.take()

    def forget(self) -> None:
        """Begin anew, after a line was lost."""
        self._chains.clear()


class NativeCall:
    """Is shown the bytes of one call, and writes them down. See `clew.providers.transport_tap`."""

    def __init__(self, lines: Lines, chains: NativeChains, execution_id: str) -> None:
        self._lines = lines
        self._chains = chains
        self._id = execution_id
        self._surface = ""
        self._kind = ""
        self._attempt = 0
        self._sequence = 0
        self._pieces: BytePieces | None = None

    def sent(self, path: str, body: bytes | None) -> None:
        """Write down a request."""
        with self._lines.guarded():
            self._end()
            self._surface = self._lines.redaction.value(path)
            self._attempt += 1
            self._write(**self._request(body or b""))

    def answered(self, *, is_whole: bool) -> None:
        """Get ready for an answer."""
        self._kind = "response" if is_whole else "stream_event"
        self._pieces = BytePieces(self._lines.redaction.stream)

    def heard(self, data: bytes) -> None:
        """Write down bytes of the answer, once they are worth a line."""
        if self._pieces is not None and data:
            with self._lines.guarded():
                self._piece(self._pieces.add(data))

    def refused(self, error: ProviderError) -> None:
        """Write down that there was no answer, or no more of it."""
        with self._lines.guarded():
            self._end()
            self._write(payload_kind="response", payload=_refusal(error))

    def close(self) -> None:
        """Write down what is left."""
        with self._lines.guarded():
            self._end()

    def _end(self) -> None:
        pieces, self._pieces = self._pieces, None
        if pieces is not None:
            self._piece(pieces.close())

    def _piece(self, text: str) -> None:
        if text:
            self._write(payload_kind=self._kind, payload=text, is_clean=True)

    def _request(self, body: bytes) -> dict[str, Any]:
        """Take a body apart, so that only what is new in it is written."""
        try:
            fields = _fields.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return {"payload_kind": "request", "payload": body.decode(errors="backslashreplace")}
        lists: dict[str, list[bytes]] = {}
        payload: dict[str, Any] = {}
        named: dict[str, str] = {}
        for name, raw in fields.items():
            data = bytes(raw)
            if data.lstrip().startswith(b"["):
                lists[name] = [bytes(element) for element in _elements.decode(data)]
            elif len(data) > _SMALL_FIELD:
                named[name] = self._chains.name(data)
            else:
                payload[name] = msgspec.json.decode(data)
        return {
            "payload_kind": "request",
            "payload": self._lines.redaction.value(payload),
            "lists": self._chains.lists(lists, f"{self._id}/{self._attempt}"),
            "named": named,
            "content": self._chains.take(),
            "is_clean": True,
        }

    def _write(self, *, is_clean: bool = False, **fields: Any) -> None:
        self._sequence += 1
        event: LogEvent = NativePayload(
            execution_id=self._id,
            surface=self._surface,
            sequence=self._sequence,
            attempt=self._attempt,
            **fields,
        )
        self._lines.write(event, is_clean=is_clean)


def _refusal(error: ProviderError) -> dict[str, Any]:
    return {"error": type(error).__name__, "status": error.status, "text": str(error)}
