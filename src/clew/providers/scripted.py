"""A provider that answers from a script, for tests, examples and benchmarks."""

import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import TypeAlias

import anyio
import anyio.lowlevel
import msgspec

from clew.core.errors import ProviderError
from clew.core.ids import new_call_id
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.protocol import CallChunk, Chunk, Finished, Request, StopReason, TextChunk


class Pause:
    """A point in a reply where the stream waits until it is released.

    A test waits for `reached`, acts, and then calls `release` or aborts.
    """

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self._released = anyio.Event()

    def release(self) -> None:
        """Let the stream continue."""
        self._released.set()

    async def wait(self) -> None:
        """Set `reached` and wait for the release."""
        self.reached.set()
        await self._released.wait()


ScriptedStep: TypeAlias = Chunk | Pause | Exception
ScriptedReply: TypeAlias = str | Exception | Sequence[ScriptedStep]


class ScriptedProvider:
    """Answers the n-th request with the n-th reply, and records the requests.

    A string is streamed word by word and a sequence chunk by chunk, with pauses where it contains
    them; an exception is raised. Every chunk is preceded by a checkpoint.
    """

    def __init__(
        self,
        replies: Iterable[ScriptedReply],
        facts: ModelFacts | None = None,
        *,
        name: str = "scripted",
    ) -> None:
        self.name = name
        self._replies = iter(replies)
        self._facts = facts
        self.requests: list[Request] = []

    def facts(self, model: str) -> ModelFacts:
        """Return the given facts, or defaults."""
        return self._facts or ModelFacts(name=model)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the next scripted reply, or raise it."""
        self.requests.append(request)
        reply = next(self._replies, None)
        if reply is None:
            raise ProviderError(
                "The script has no more replies; add another one.", provider=self.name
            )
        steps = [reply] if isinstance(reply, Exception) else reply
        for step in text_reply(steps) if isinstance(steps, str) else steps:
            await anyio.lowlevel.checkpoint()
            if isinstance(step, Pause):
                await step.wait()
            elif isinstance(step, Exception):
                raise step
            else:
                yield step

    async def aclose(self) -> None:
        """Do nothing: a script holds no resources."""


def text_reply(text: str, *, usage: Usage | None = None) -> list[ScriptedStep]:
    """Return a reply that streams `text` word by word."""
    return [*_words(text), Finished(reason=StopReason.DONE, usage=usage)]


def call_reply(
    *calls: tuple[str, Mapping[str, object]], text: str = "", usage: Usage | None = None
) -> list[ScriptedStep]:
    """Return a reply that streams `text` and then calls tools, given as name and arguments.

    Every call gets a new id, and its arguments arrive in two chunks.
    """
    steps: list[ScriptedStep] = [*_words(text)]
    for index, (name, arguments) in enumerate(calls):
        written = msgspec.json.encode(arguments).decode()
        half = len(written) // 2
        steps.append(CallChunk(index=index, call_id=new_call_id(), name=name))
        steps.append(CallChunk(index=index, arguments=written[:half]))
        steps.append(CallChunk(index=index, arguments=written[half:]))
    return [*steps, Finished(reason=StopReason.TOOL_CALLS, usage=usage)]


def _words(text: str) -> list[TextChunk]:
    return [TextChunk(word) for word in re.findall(r"\S+\s*|\s+", text)]
