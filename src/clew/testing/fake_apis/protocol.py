"""Scripted model replies, independent of an API, and the protocol of fake APIs."""

from typing import Protocol

from msgspec import Struct

from clew.core.messages import ToolCall
from clew.core.usage import Usage
from clew.providers.protocol import StopReason


class ModelReply(Struct, frozen=True, kw_only=True):
    """One reply of a model: reasoning, then text, then tool calls."""

    thoughts: tuple[str, ...] = ()
    """The deltas of one block of reasoning."""
    signature: str = ""
    """The signature of the reasoning, for APIs that have one."""
    words: tuple[str, ...] = ()
    """The deltas of the text."""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage(input_tokens=10, output_tokens=5)
    reason: StopReason | None = None
    """Why the reply ends; by default tool calls if there are any, else done."""


class FakeApi(Protocol):
    """Encodes replies as one API does, for a scripted server."""

    @property
    def content_type(self) -> str:
        """The media type of a stream; a whole response is JSON."""
        ...

    def stream(self, reply: ModelReply) -> list[bytes]:
        """Return the reply as a stream, one element per event or frame, including its end."""
        ...

    def whole(self, reply: ModelReply) -> bytes:
        """Return the reply as the body of a non-streamed response."""
        ...

    def error(self, status: int, message: str) -> bytes:
        """Return the body of an error response."""
        ...
