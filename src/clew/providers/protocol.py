"""The contract between a session and a model.

A request goes in whole; the answer comes back as chunks that end with exactly one
`Finished`.
"""

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Protocol, TypeAlias

from msgspec import Struct

from clew.core.ids import CallId
from clew.core.messages import Message
from clew.core.models import ModelFacts, ToolSpec
from clew.core.usage import Usage


class StopReason(StrEnum):
    """Why an answer ended."""

    DONE = "done"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSED = "refused"


class Request(Struct, frozen=True, kw_only=True):
    """All that a provider needs to know for one call."""

    model: str
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None


class TextChunk(Struct, frozen=True):
    """A piece of the answer."""

    text: str


class ReasoningChunk(Struct, frozen=True, kw_only=True):
    """A piece of thinking; chunks with the same `index` belong to one block."""

    index: int
    text: str = ""
    signature: str = ""
    redacted: str = ""


class CallChunk(Struct, frozen=True, kw_only=True):
    """A piece of a tool call; chunks with the same `index` belong to one call."""

    index: int
    call_id: CallId | None = None
    name: str = ""
    arguments: str = ""


class Finished(Struct, frozen=True, kw_only=True):
    """The end of the answer. Calls that were begun are complete from here on."""

    reason: StopReason
    usage: Usage | None = None


Chunk: TypeAlias = TextChunk | ReasoningChunk | CallChunk | Finished


class Provider(Protocol):
    """One way of reaching a family of models.

    Implementations hold no conversation state: every call carries its whole request.
    They may be shared by many sessions at once.
    """

    @property
    def name(self) -> str:
        """The family, as reasoning provenance and error messages show it."""
        ...

    def facts(self, model: str) -> ModelFacts:
        """Return what is known of `model`; an unknown name gets careful defaults."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Send `request` and yield the answer as it arrives.

        The stream ends with exactly one `Finished`. Closing it early cancels the call.

        Raises:
            ProviderBusy: Worth another try; nothing was yielded.
            ContextOverflow: The request is too long for the model.
            ProviderError: Anything else that went wrong on the way.
        """
        ...

    async def aclose(self) -> None:
        """Give back what the provider holds; harmless when called again."""
        ...
