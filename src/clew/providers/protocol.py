"""The contract between a session and a model.

A provider receives a complete request and streams the response as chunks. The stream ends with
exactly one `Finished`.
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
    """Why a response ended."""

    DONE = "done"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSED = "refused"
    PAUSED = "paused"
    """The provider stopped during its own work; send the conversation again to continue."""


class Request(Struct, frozen=True, kw_only=True):
    """Everything a provider needs for one call."""

    model: str
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    deferred_tools: tuple[ToolSpec, ...] = ()
    """Tools that a provider may declare so that a `ToolResult.loads` loads them; else ignored."""
    native_tools: tuple[dict[str, Any], ...] = ()
    """Tools that the provider runs itself, in the format of its API."""
    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning: ReasoningPolicy = ReasoningPolicy()
    settled: int = 0
    """How many leading messages later requests will repeat: a good place to cache up to."""
    cache_key: str = ""
    """Equal for requests with a common prefix; helps a provider to find its cache."""
    sees: bool = True
    """False for a model without vision: text notes replace images and files."""
    options: dict[str, Any] = {}
    """Fields of the provider's API, merged over the body that Clew builds."""


class TextChunk(Struct, frozen=True, gc=False):
    """A delta of the response text.

    Deltas with the same `index` form one part; a different `index` starts a new part.
    """

    text: str
    index: int = 0
    extra: str = ""
    """Private fields to store with the part, once known; see `clew.core.messages`."""


class ReasoningChunk(Struct, frozen=True, gc=False, kw_only=True):
    """A delta of reasoning; chunks with the same `index` form one block."""

    index: int
    text: str = ""
    signature: str = ""
    redacted: str = ""
    extra: str = ""


class CallChunk(Struct, frozen=True, gc=False, kw_only=True):
    """A delta of a tool call; chunks with the same `index` form one call."""

    index: int
    call_id: CallId | None = None
    name: str = ""
    arguments: str = ""
    extra: str = ""
    complete: bool = False
    """True when this call is complete."""


class PartChunk(Struct, frozen=True):
    """A part that arrived whole: an image, a file, or a provider's native block."""

    part: Image | File | Native


class ServerToolChunk(Struct, frozen=True, kw_only=True):
    """The provider started a tool of its own, or (`ended`) that tool finished. For display only."""

    call_id: str
    name: str
    text: str = ""
    """The arguments or the result, as far as they are readable."""
    ended: bool = False
    failed: bool = False


class UsageChunk(Struct, frozen=True):
    """The usage so far, for a response that may be interrupted."""

    usage: Usage


class RetryChunk(Struct, frozen=True, kw_only=True):
    """The server is busy, so the request is sent again after a pause. For display only.

    It comes before the response.
    """

    reason: str
    """Such as `rate limited`."""
    delay: float
    """Seconds until the request is sent again."""
    attempt: int
    """The number of the next attempt; the first request was attempt 1."""
    attempts: int
    """How many attempts are made in all."""


class Finished(Struct, frozen=True, gc=False, kw_only=True):
    """The end of a response. Every tool call that was started is now complete."""

    reason: StopReason
    usage: Usage | None = None
    cost: float | None = None
    """The cost in US dollars, if the provider reports it."""
    detail: str = ""
    """Why the response was refused or truncated, in the provider's words."""


Chunk: TypeAlias = (
    TextChunk
    | ReasoningChunk
    | CallChunk
    | PartChunk
    | ServerToolChunk
    | UsageChunk
    | RetryChunk
    | Finished
)


class Provider(Protocol):
    """A connection to a family of models.

    Implementations keep no conversation state: every call carries its whole request. Many sessions
    may share one provider at the same time.
    """

    @property
    def name(self) -> str:
        """The provider's family, as used in reasoning provenance and error messages."""
        ...

    def facts(self, model: str) -> ModelFacts:
        """Return the known facts about `model`; an unknown name gets conservative defaults."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Send `request` and yield the response as it arrives.

        The stream ends with exactly one `Finished`. Closing it early cancels the request.

        Raises:
            ProviderBusy: The call may succeed later; nothing but `RetryChunk` was yielded.
            ContextOverflow: The request is too long for the model.
            SignatureRejected: The provider rejected reasoning that was sent back.
            ProviderError: Any other failure.
        """
        ...

    async def aclose(self) -> None:
        """Release connections and processes; calling it twice is safe."""
        ...


@runtime_checkable
class CountsTokens(Protocol):
    """A provider that can count the tokens of a request without answering it."""

    async def count_tokens(self, request: Request) -> int:
        """Return how many tokens `request` has for the model; raises as `stream` does."""
        ...


@runtime_checkable
class ListsModels(Protocol):
    """A provider that can list its models."""

    async def models(self) -> list[ModelFacts]:
        """Return the models with the facts that the server reports; raises as `stream` does."""
        ...


@runtime_checkable
class ReportsWindow(Protocol):
    """A provider whose server decides how large the window of a model is."""

    async def load_facts(self, model: str) -> ModelFacts:
        """Return what the server reports about `model`; raises as `stream` does.

        The server may load the model first. `facts` returns the same afterwards.
        """
        ...


@runtime_checkable
class HasAddress(Protocol):
    """A provider that sends its requests to a server."""

    @property
    def address(self) -> str:
        """The server's scheme and host, without secrets."""
        ...


@runtime_checkable
class SearchesWeb(Protocol):
    """A provider with its own web tools."""

    @property
    def web_tools(self) -> frozenset[str]:
        """The enabled tools, of `web_search` and `web_fetch`."""
        ...
