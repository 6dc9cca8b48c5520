"""Checks of the event stream of a `SessionClient`; `clew.testing.clients` has all checks."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TypeAlias

import anyio

from clew.core.errors import (
    ClewError,
    EventsExpired,
)
from clew.core.events import (
    EntryAdded,
    Envelope,
    RunCompleted,
    TextDelta,
    UserMessage,
)
from clew.providers.protocol import TextChunk
from clew.providers.scripted import Pause, ScriptedReply, text_reply
from clew.sdk.client import (
    PromptInput,
    SessionClient,
    wait_for_run,
)

OpenClient: TypeAlias = Callable[
    [Sequence[ScriptedReply]], AbstractAsyncContextManager[SessionClient]
]
ClientCheck: TypeAlias = Callable[[OpenClient], Awaitable[None]]

SECONDS = 30


class EventLog:
    """Collects the events of a client in the background."""

    def __init__(self, client: SessionClient, after: int | None = None) -> None:
        self._events = client.events(after=after)
        self._seen = anyio.Event()
        self.envelopes: list[Envelope] = []

    async def collect(self) -> None:
        """Read until the stream ends; run it in a task of its own."""
        async with aclosing(self._events) as events:
            async for envelope in events:
                self.envelopes.append(envelope)
                self._seen.set()
                self._seen = anyio.Event()

    async def until(self, name: str, times: int = 1) -> Envelope:
        """Wait until an event has arrived that many times, and return the last one."""
        while True:
            found = [one for one in self.envelopes if one.name == name]
            if len(found) >= times:
                return found[times - 1]
            await self._seen.wait()


def prompt(text: str) -> PromptInput:
    """Return a prompt of plain text."""
    return PromptInput(text=text)


async def expect(error: type[ClewError], work: Awaitable[object]) -> str:
    """Return the message of the error that `work` must raise."""
    try:
        await work
    except error as raised:
        return str(raised)
    raise AssertionError(f"{error.__name__} was not raised")


async def orders_events(open_client: OpenClient) -> None:
    """Sequence numbers grow by one, and a run starts and ends as the protocol says."""
    with anyio.fail_after(SECONDS):
        async with open_client(["One two three."]) as client:
            start = (await client.snapshot()).seq
            run_id = await client.submit(prompt("hi"))
            await wait_for_run(client, run_id, after=start)
            end = (await client.snapshot()).seq

            seen = await take_events(client, start, end)

            numbers = [one.seq for one in seen]
            assert numbers == list(range(start + 1, end + 1))
            events = [one.event for one in seen]
            assert [type(one) for one in events].count(UserMessage) == 1
            assert [type(one) for one in events].count(RunCompleted) == 1
            text = "".join(one.text for one in events if isinstance(one, TextDelta))
            assert text == "One two three."
            entries = [one.entry.id for one in events if isinstance(one, EntryAdded)]
            assert entries == sorted(set(entries))
            assert entries


async def take_events(client: SessionClient, after: int, end: int) -> list[Envelope]:
    """Return the events after a number up to another."""
    seen: list[Envelope] = []
    if after >= end:
        return seen
    async with aclosing(client.events(after=after)) as events:
        async for envelope in events:
            seen.append(envelope)
            if envelope.seq >= end:
                break
    return seen


async def continues_after_any_event(open_client: OpenClient) -> None:
    """A client that reconnects with any number neither misses nor repeats an event."""
    with anyio.fail_after(SECONDS):
        async with open_client(["One two.", "Three four."]) as client:
            start = (await client.snapshot()).seq
            for text in ("a", "b"):
                await wait_for_run(client, await client.submit(prompt(text)), after=start)
            end = (await client.snapshot()).seq
            everything = await take_events(client, start, end)

            for position in range(start, end):
                rest = await take_events(client, position, end)

                assert rest == [one for one in everything if one.seq > position]


async def refuses_numbers_it_does_not_know(open_client: OpenClient) -> None:
    """A number from long ago, or from the future, is an error, not a gap."""
    with anyio.fail_after(SECONDS):
        async with open_client([]) as client:
            now = (await client.snapshot()).seq
            for position in (0, now + 1_000):
                await expect(EventsExpired, anext(client.events(after=position)))


async def shows_a_late_client_what_is_happening(open_client: OpenClient) -> None:
    """A snapshot in the middle of a run has the text so far; the events continue after it."""
    pause = Pause()
    with anyio.fail_after(SECONDS):
        async with open_client([[TextChunk("Half"), pause, *text_reply(" and half.")]]) as client:
            run_id = await client.submit(prompt("go"))
            await pause.reached.wait()

            now = await client.snapshot()
            assert (now.executing, now.streaming_text) == (True, "Half")
            pause.release()
            result = await wait_for_run(client, run_id, after=now.seq)

            seen = await take_events(client, now.seq, (await client.snapshot()).seq)
            rest = "".join(one.event.text for one in seen if isinstance(one.event, TextDelta))
            assert now.streaming_text + rest == result.response == "Half and half."


async def serves_two_clients_alike(open_client: OpenClient) -> None:
    """Two streams of one session yield the same envelopes in the same order."""
    with anyio.fail_after(SECONDS):
        async with open_client(["One two three."]) as client, anyio.create_task_group() as tasks:
            one, other = EventLog(client), EventLog(client)
            tasks.start_soon(one.collect)
            tasks.start_soon(other.collect)
            await client.submit(prompt("hi"))
            for log in (one, other):
                await log.until("thinking", times=2)

            assert one.envelopes[0].seq == other.envelopes[0].seq
            assert one.envelopes == other.envelopes[: len(one.envelopes)]
            tasks.cancel_scope.cancel()
