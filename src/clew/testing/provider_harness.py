"""Where a provider is put to be checked: a scripted server before it, and what its API can do."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypedDict, Unpack

import anyio

from clew.providers.adapter import AdapterOptions
from clew.providers.endpoint import Retry
from clew.providers.protocol import Provider, Request, StopReason
from clew.testing.fake_apis.protocol import FakeApi, ModelReply
from clew.testing.server import FakeServer, ResponseScript, ResponseStep, ScriptedResponse, serve

API_KEY = "sk-shown-to-nobody-5ec2e7"
MODEL = "conformance-model"
OVERFLOW = "This model's maximum context length is 8192 tokens, but the messages have 9000."


class FakeSleep:
    """Counts the pauses between attempts instead of making them."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Remember the pause."""
        self.taken.append(seconds)


def instant_retry(naps: FakeSleep, *, attempts: int = 3) -> Retry:
    """Return a way to retry that loses no time; the pauses it would make are in `naps`."""
    return Retry(attempts=attempts, sleep=naps, random=lambda: 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCapabilities:
    """What an API can do. A check that needs more than this is skipped."""

    thinking: bool = False
    """It shows the model's thinking."""
    signatures: bool = False
    """It seals thinking, and wants the seal back together with the results of tools."""
    echoes: bool = False
    """It wants thinking back that bears no seal, once the conversation has used tools."""
    call_ids: bool = True
    """Calls bear ids of its own."""
    exact_arguments: bool = True
    """The arguments of a call come as text, not as an object that has no one spelling."""
    cache_writes: bool = False
    """Usage tells what was written to the cache; what was read is always told."""
    whole: bool = True
    """It can answer in one piece."""
    reasons: frozenset[StopReason] = frozenset(
        {StopReason.DONE, StopReason.TOOL_CALLS, StopReason.LENGTH, StopReason.REFUSED}
    )


class AdapterOverrides(TypedDict, total=False):
    """What a check may ask of the provider beside the script."""

    idle_timeout: float
    retry: Retry
    streaming: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterParams:
    """What a provider is to be made with."""

    url: str
    """The server, without a path."""
    api_key: str = API_KEY
    idle_timeout: float = 30.0
    retry: Retry = field(default_factory=lambda: instant_retry(FakeSleep()))
    streaming: bool = True

    @property
    def options(self) -> AdapterOptions:
        """The same as keyword arguments of Clew's own adapters, without address and key."""
        return AdapterOptions(
            idle_timeout=self.idle_timeout, retry=self.retry, streaming=self.streaming
        )


class ProviderHarness(Protocol):
    """A way to have a provider give scripted replies."""

    @property
    def capabilities(self) -> ApiCapabilities:
        """What the provider's API can do."""
        ...

    @property
    def model(self) -> str:
        """The model to ask for: one that has these powers."""
        ...

    def provider(self, *replies: ModelReply) -> AbstractAsyncContextManager[Provider]:
        """Make a provider whose n-th call brings the n-th reply; it is closed afterwards."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpHarness:
    """A harness for a provider that speaks HTTP: a server on loopback with the API's voice."""

    api: FakeApi
    make: Callable[[AdapterParams], Provider]
    capabilities: ApiCapabilities = ApiCapabilities()
    model: str = MODEL
    """The model to ask for, where an adapter treats some differently."""
    overflow: str = OVERFLOW
    """The words with which the API says that a conversation is too long."""
    stream_error: Callable[[str], bytes] | None = None
    """Makes the event with which the API reports an overload in mid-stream, in these words."""
    parse_request: Callable[[bytes], Request] | None = None
    """Turns the body of a request back into the request, for a closer look at it."""

    def response(self, reply: ModelReply, *, streaming: bool = True) -> ScriptedResponse:
        """Return the reply as this API puts it on the wire."""
        if streaming:
            return self.stream_response(*self.api.stream(reply))
        return ScriptedResponse(steps=[self.api.whole(reply)], content_type="application/json")

    def stream_response(self, *steps: ResponseStep) -> ScriptedResponse:
        """Return an answer of these pieces of a stream."""
        return ScriptedResponse(steps=steps, content_type=self.api.content_type)

    def error_response(self, status: int, message: str, **headers: str) -> ScriptedResponse:
        """Return an error answer; `retry_after="2"` becomes the header `retry-after`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return ScriptedResponse(
            steps=[self.api.error(status, message)], status=status, headers=named
        )

    @asynccontextmanager
    async def serve(
        self, *script: ModelReply | ResponseScript, **wishes: Unpack[AdapterOverrides]
    ) -> AsyncIterator[tuple[Provider, FakeServer]]:
        """Serve the script, and make a provider that speaks to it; both are closed afterwards."""
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
        """Make a provider whose n-th call brings the n-th reply; it is closed afterwards."""
        async with self.serve(*replies) as (provider, _):
            yield provider
