"""Envelopes as bytes: each is encoded once for all clients that read along."""

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from clew.core.events import Envelope

_SIZE = 512


class EnvelopeCache:
    """Encodes the envelopes of one session, and keeps the newest."""

    def __init__(self, size: int = _SIZE) -> None:
        self._size = size
        self._frames: OrderedDict[int, bytes] = OrderedDict()
        self._encoder = msgspec.json.Encoder()

    def encode_event(self, envelope: Envelope) -> bytes:
        """Return an envelope as a server-sent event."""
        frame = self._frames.get(envelope.seq)
        if frame is None:
            data = self._encoder.encode(envelope)
            head = f"id: {envelope.seq}\nevent: {envelope.name}\ndata: ".encode()
            frame = self._frames[envelope.seq] = b"".join((head, data, b"\n\n"))
            if len(self._frames) > self._size:
                self._frames.popitem(last=False)
        return frame

    def encode_message(self, envelope: Envelope) -> bytes:
        """Return an envelope as a WebSocket message."""
        frame = self.encode_event(envelope)
        start = frame.index(b"\ndata: ") + len(b"\ndata: ")
        return b"".join((b'{"type":"event","envelope":', frame[start:-2], b"}"))

    def join_events(self, envelopes: Sequence[Envelope]) -> bytes:
        """Return several envelopes as server-sent events."""
        return b"".join(map(self.encode_event, envelopes))
