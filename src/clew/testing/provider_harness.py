"""Run a provider against a scripted server, for the conformance checks."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypedDict, Unpack

import anyio

from clew.providers.adapter import AdapterOptions
from clew.providers.protocol import Provider, Request, StopReason
from clew.providers.retry import Retry
from clew.testing.fake_apis.protocol import FakeApi, ModelReply
from clew.testing.server import FakeServer, ResponseScript, ResponseStep, ScriptedResponse, serve

API_KEY = "sk-shown-to-nobody-5ec2e7"
MODEL = "conformance-model"
OVERFLOW = "This model's maximum context length is 8192 tokens, but the messages have 9000."


class FakeSleep:
    """Records the pauses between attempts instead of sleeping."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Record the pause."""
        self.taken.append(seconds)


def instant_retry(naps: FakeSleep, *, attempts: int = 3) -> Retry:
    """Return a `Retry` without delays; its pauses are recorded in `naps`."""
    return Retry(attempts=attempts, sleep=naps, random=lambda: 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCapabilities:
    """What an API supports. A check that needs more is skipped."""

    thinking: bool = False
    """It returns the model's reasoning."""
    signatures: bool = False
    """It signs reasoning and needs the signature back together with tool results."""
    echoes: bool = False
    """It needs unsigned reasoning back, once the conversation has used tools."""
    tool_calls: bool = True
    """The model can call tools."""
    call_ids: bool = True
    """Tool calls have ids of the API."""
    exact_arguments: bool = True
    """Arguments are sent as text, not as an object without a canonical spelling."""
    cache_writes: bool = False
    """Usage includes cache writes."""
    cache_reads: bool = True
    """Usage includes the input tokens that were read from a cache."""
    whole: bool = True
    """It supports non-streamed responses."""
    reasons: frozenset[StopReason] = frozenset(
        {StopReason.DONE, StopReason.TOOL_CALLS, StopReason.LENGTH, StopReason.REFUSED}
    )


class AdapterOverrides(TypedDict, total=False):
    """The options that a check may change."""

    idle_timeout: float
    retry: Retry
    streaming: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterParams:
    """The parameters to create a provider with."""

    url: str
    """The server, without a path."""
    api_key: str = API_KEY
    idle_timeout: float = 30.0
    retry: Retry = field(default_factory=lambda: instant_retry(FakeSleep()))
    streaming: bool = True

    @property
    def options(self) -> AdapterOptions:
        """The same as keyword arguments for Clew's own adapters, without address and key."""
        return AdapterOptions(
            idle_timeout=self.idle_timeout, retry=self.retry, streaming=self.streaming
        )


class ProviderHarness(Protocol):
    """Creates providers that return scripted replies."""

    @property
    def capabilities(self) -> ApiCapabilities:
        """What the provider's API supports."""
        ...

    @property
    def model(self) -> str:
        """The model to request, which has these capabilities."""
        ...

    def provider(self, *replies: ModelReply) -> AbstractAsyncContextManager[Provider]:
        """Create a provider that gives the n-th reply to the n-th call; it is closed afterwards."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpHarness:
    """A harness for a provider over HTTP: a server on loopback with a fake API."""

    api: FakeApi
    make: Callable[[AdapterParams], Provider]
    capabilities: ApiCapabilities = ApiCapabilities()
    model: str = MODEL
    """The model to request, if the adapter treats some differently."""
    overflow: str = OVERFLOW
    """The error message of the API for a conversation that is too long."""
    stream_error: Callable[[str], bytes] | None = None
    """Creates the event that reports an overload in mid-stream, with this message."""
    parse_request: Callable[[bytes], Request] | None = None
    """Parses the body of a request, for a closer look at it."""

    def response(self, reply: ModelReply, *, streaming: bool = True) -> ScriptedResponse:
        """Return the reply as a response of this API."""
        if streaming:
            return self.stream_response(*self.api.stream(reply))
        return ScriptedResponse(steps=[self.api.whole(reply)], content_type="application/json")

    def stream_response(self, *steps: ResponseStep) -> ScriptedResponse:
        """Return a streamed response of these steps."""
        return ScriptedResponse(steps=steps, content_type=self.api.content_type)

    def error_response(self, status: int, message: str, **headers: str) -> ScriptedResponse:
        """Return an error response; `retry_after="2"` becomes the header `retry-after`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return ScriptedResponse(
            steps=[self.api.error(status, message)], status=status, headers=named
        )

    @asynccontextmanager
    async def serve(
        self, *script: ModelReply | ResponseScript, **wishes: Unpack[AdapterOverrides]
    ) -> AsyncIterator[tuple[Provider, FakeServer]]:
        """Serve the script and create a provider for it; both are closed afterwards."""
        streaming = wishes.get("streaming", True)
        answers = (
            self.response(each, streaming=streaming) if isinstance(each, ModelReply) else each
            for each in script
        )
        async with serve(*answers) as server:
            provider = self.make(AdapterParams(url=server.url, **wishes))
            try:
                yield provider, server
            finally:
                with anyio.CancelScope(shield=True):
                    await provider.aclose()

    @asynccontextmanager
    async def provider(self, *replies: ModelReply) -> AsyncIterator[Provider]:
        """Create a provider that gives the n-th reply to the n-th call; it is closed afterwards."""
        async with self.serve(*replies) as (provider, _):
            yield provider
