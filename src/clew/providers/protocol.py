"""The contract between a session and a model.

A request goes in whole; the answer comes back as chunks that end with exactly one
`Finished`.
"""

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from clew.context.reasoning import ReasoningPolicy
from clew.core.ids import CallId
from clew.core.messages import File, Image, Message, Native
from clew.core.models import ModelFacts, ToolSpec
from clew.core.usage import Usage


class StopReason(StrEnum):
    """Why an answer ended."""

    DONE = "done"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSED = "refused"
    PAUSED = "paused"
    """The provider stopped in the middle of its own work: send the conversation again."""


class Request(Struct, frozen=True, kw_only=True):
    """All that a provider needs to know for one call."""

    model: str
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    native_tools: tuple[dict[str, Any], ...] = ()
    """Tools that the provider runs itself, as its API spells them."""
    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning: ReasoningPolicy = ReasoningPolicy()
    settled: int = 0
    """How many leading messages the next requests are sure to repeat: a place to cache up to."""
    cache_key: str = ""
    """Equal for requests that share a beginning; helps a provider to find its cache."""
    sees: bool = True
    """False: the model can see no pictures and read no files, so notes stand in for them."""
    options: dict[str, Any] = {}
    """Fields of the provider's own API, laid over the body that Clew makes."""


class TextChunk(Struct, frozen=True):
    """A piece of the answer.

    Pieces follow one another in one part; a piece whose `index` differs begins a new part.
    """

    text: str
    index: int = 0
    extra: str = ""
    """What to keep beside the part, once it is known; see `clew.core.messages`."""


class ReasoningChunk(Struct, frozen=True, kw_only=True):
    """A piece of thinking; chunks with the same `index` belong to one block."""

    index: int
    text: str = ""
    signature: str = ""
    redacted: str = ""
    extra: str = ""


class CallChunk(Struct, frozen=True, kw_only=True):
    """A piece of a tool call; chunks with the same `index` belong to one call."""

    index: int
    call_id: CallId | None = None
    name: str = ""
    arguments: str = ""
    extra: str = ""
    complete: bool = False
    """True when no more of this call will come."""


class PartChunk(Struct, frozen=True):
    """A part that came whole: a picture, a file, a block that only this provider understands."""

    part: Image | File | Native


class ServerToolChunk(Struct, frozen=True, kw_only=True):
    """The provider began a tool of its own, or (`ended`) that tool answered. For screens only."""

    call_id: str
    name: str
    text: str = ""
    """The arguments, then the answer, as far as people can read them."""
    ended: bool = False
    failed: bool = False


class UsageChunk(Struct, frozen=True):
    """What the call has consumed so far, for an answer that may be broken off."""

    usage: Usage


class Finished(Struct, frozen=True, kw_only=True):
    """The end of the answer. Calls that were begun are complete from here on."""

    reason: StopReason
    usage: Usage | None = None
    cost: float | None = None
    """US dollars, where the provider says so itself."""
    detail: str = ""
    """Why an answer was refused or cut, in the provider's words."""


Chunk: TypeAlias = (
    TextChunk | ReasoningChunk | CallChunk | PartChunk | ServerToolChunk | UsageChunk | Finished
)


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
            SignatureRejected: Thinking that was sent back is not accepted.
            ProviderError: Anything else that went wrong on the way.
        """
        ...

    async def aclose(self) -> None:
        """Give back what the provider holds; harmless when called again."""
        ...


@runtime_checkable
class CountsTokens(Protocol):
    """A provider that can say how long a request is without answering it."""

    async def count_tokens(self, request: Request) -> int:
        """Return the tokens of `request` as the model would read them; raises as `stream` does."""
        ...


@runtime_checkable
class ListsModels(Protocol):
    """A provider that can say which models it serves."""

    async def models(self) -> list[ModelFacts]:
        """Return the models, with what the server tells of them; raises as `stream` does."""
        ...


@runtime_checkable
class SearchesWeb(Protocol):
    """A provider that can look things up on the web by itself."""

    @property
    def web_tools(self) -> frozenset[str]:
        """Which of `web_search` and `web_fetch` are switched on."""
        ...
