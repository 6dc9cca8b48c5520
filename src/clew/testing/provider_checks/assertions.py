"""Requests and assertions that the conformance checks share."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TypeVar
from unittest import SkipTest

import anyio

from clew.core.errors import ProviderError
from clew.core.messages import Message, user
from clew.core.models import ModelFacts
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import Chunk, Provider, Request, TextChunk
from clew.testing.provider_harness import ProviderHarness

PATIENCE = 10.0
"""Seconds after which a waiting check fails."""

E = TypeVar("E", bound=ProviderError)


def assert_equal(found: object, wanted: object, what: str) -> None:
    """Fail unless both are equal, with a message for runners that do not explain asserts."""
    if found != wanted:
        raise AssertionError(f"{what}: expected {wanted!r}, but found {found!r}")


def require_capability(power: bool, what: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Skip the check if the API lacks a capability."""
    if not power:
        raise SkipTest(f"this API has no {what}")


@contextmanager
def fail_after(what: str, seconds: float = PATIENCE) -> Iterator[None]:
    """Fail if the block takes too long."""
    with anyio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise AssertionError(f"{what}: still waiting after {seconds:g} seconds")


async def run_concurrently(*works: Callable[[], Awaitable[None]]) -> None:
    """Run all functions concurrently; the first failure cancels the rest and is raised."""

    async def do(work: Callable[[], Awaitable[None]]) -> None:
        await work()

    try:
        async with anyio.create_task_group() as tasks:
            for work in works:
                tasks.start_soon(do, work)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


def make_request(harness: ProviderHarness, text: str = "hi") -> Request:
    """Return a request with `text` for the harness's model."""
    return Request(model=harness.model, messages=(user(text),), max_output_tokens=256)


async def collect_chunks(
    harness: ProviderHarness, provider: Provider, text: str = "hi"
) -> list[Chunk]:
    """Return all chunks of one response; only a `ProviderError` may be raised."""
    return await _collect(provider, make_request(harness, text), [])


async def expect_error(
    harness: ProviderHarness, provider: Provider, error: type[E], what: str
) -> tuple[E, list[Chunk]]:
    """Return the error that a call raises, and the chunks before it."""
    found: list[Chunk] = []
    try:
        await _collect(provider, make_request(harness), found)
    except error as raised:
        return raised, found
    except ProviderError as other:
        raise AssertionError(f"{what}: expected {error.__name__}, but {other!r} came") from other
    raise AssertionError(f"{what}: expected {error.__name__}, but the answer ended: {found!r}")


async def _collect(provider: Provider, request: Request, found: list[Chunk]) -> list[Chunk]:
    try:
        with fail_after("the end of an answer"):
            async with aclosing(provider.stream(request)) as chunks:
                async for chunk in chunks:
                    found.append(chunk)  # noqa: PERF401 - it must be there if the next one raises
    except (ProviderError, AssertionError):
        raise
    except Exception as foreign:
        raise AssertionError(f"a call raised {foreign!r}, which is no ProviderError") from foreign
    return found


def build_message(provider: Provider, chunks: list[Chunk]) -> Message:
    """Return the message that a session would build from the chunks."""
    assembly = MessageBuilder(provenance=provider.name)
    for chunk in chunks:
        assembly.add(chunk)
    return assembly.message()


def join_text(chunks: list[Chunk]) -> str:
    """Return the text of the chunks, joined."""
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))


class ProviderSpy:
    """Forwards to a provider and records requests and chunks."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._more = anyio.Event()
        self.requests: list[Request] = []
        self.chunks: list[Chunk] = []

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._provider.name

    def facts(self, model: str) -> ModelFacts:
        """Return the provider's facts."""
        return self._provider.facts(model)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of the provider."""
        self.requests.append(request)
        async with aclosing(self._provider.stream(request)) as chunks:
            async for chunk in chunks:
                self.chunks.append(chunk)
                self._more.set()
                self._more = anyio.Event()
                yield chunk

    async def until(self, seen: Callable[[Chunk], bool]) -> None:
        """Wait until a chunk matches, including past ones."""
        while not any(map(seen, self.chunks)):
            await self._more.wait()

    async def aclose(self) -> None:
        """Do nothing: the provider belongs to the harness."""
