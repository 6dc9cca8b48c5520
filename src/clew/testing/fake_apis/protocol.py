"""What a scripted model says, apart from how an API would put it on the wire."""

from typing import Protocol

from msgspec import Struct

from clew.core.messages import ToolCall
from clew.core.usage import Usage
from clew.providers.protocol import StopReason


class ModelReply(Struct, frozen=True, kw_only=True):
    """One answer of a model: thoughts, then words, then calls."""

    thoughts: tuple[str, ...] = ()
    """Pieces of one block of thinking, as they are streamed."""
    signature: str = ""
    """What seals the thinking, for APIs that have such a thing."""
    words: tuple[str, ...] = ()
    """Pieces of the text, as they are streamed."""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage(input_tokens=10, output_tokens=5)
    reason: StopReason | None = None
    """Why the answer ends; by default tool calls if there are any, else done."""


class FakeApi(Protocol):
    """How one API puts a reply on the wire; a stand-in server speaks with it."""

    @property
    def content_type(self) -> str:
        """Of a stream; a whole answer is JSON."""
        ...

    def stream(self, reply: ModelReply) -> list[bytes]:
        """Return the reply as a stream, one element per event or frame, the end included."""
        ...

    def whole(self, reply: ModelReply) -> bytes:
        """Return the reply as the body of an answer that comes in one piece."""
        ...

    def error(self, status: int, message: str) -> bytes:
        """Return the body of an error answer as this API words it."""
        ...
