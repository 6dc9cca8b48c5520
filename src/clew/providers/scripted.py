"""A provider that answers from a script: for tests, examples and benchmarks."""

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
    """A place in a reply where the stream stands still until it is released.

    A test waits for `reached`, does what it came to do, and calls `release`, or aborts.
    """

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self._released = anyio.Event()

    def release(self) -> None:
        """Let the stream go on."""
        self._released.set()

    async def wait(self) -> None:
        """Say that the place is reached, and wait for the release."""
        self.reached.set()
        await self._released.wait()


ScriptedStep: TypeAlias = Chunk | Pause | Exception
ScriptedReply: TypeAlias = str | Exception | Sequence[ScriptedStep]


class ScriptedProvider:
    """Answers the n-th request with the n-th reply, and remembers what it was asked.

    A string is streamed word by word; a sequence chunk by chunk, with pauses where it
    says so; an exception is raised. The task yields to others before every chunk.
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
        """Return the facts the script was given, or plain defaults."""
        return self._facts or ModelFacts(name=model)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the next scripted reply, or raise it."""
        self.requests.append(request)
        reply = next(self._replies, None)
        if reply is None:
            raise ProviderError(
                "The script has run out: give it another reply.", provider=self.name
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
        """Do nothing: a script holds nothing."""


def text_reply(text: str, *, usage: Usage | None = None) -> list[ScriptedStep]:
    """Make a reply that says `text` word by word."""
    return [*_words(text), Finished(reason=StopReason.DONE, usage=usage)]


def call_reply(
    *calls: tuple[str, Mapping[str, object]], text: str = "", usage: Usage | None = None
) -> list[ScriptedStep]:
    """Make a reply that says `text` and then calls tools, each given as name and arguments.

    Every call gets a fresh id, and its arguments arrive in two pieces.
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
