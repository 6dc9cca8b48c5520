"""One stream for all clients: nobody misses an event, and nobody gets one twice."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import EventsExpired, SessionError
from clew.core.events import Envelope, TextDelta, Warned
from clew.session.event_bus import EventBus

STEPS = st.lists(
    st.sampled_from(["publish", "join", "leave", "read", "return"]), min_size=1, max_size=60
)


class Client:
    """Reads a stream now and then, leaves, and comes back with the last number that it has."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._stream: AsyncGenerator[Envelope, None] | None = None
        self.position = bus.seq
        self.joined = bus.seq
        self.seen: list[int] = []
        self.connect()

    def connect(self) -> None:
        if self._stream is None:
            self._stream = self._bus.events(after=self.position)

    async def read(self) -> None:
        """Take all that is there now."""
        while self._stream is not None and self.position < self._bus.seq:
            envelope = await anext(self._stream)
            self.position = envelope.seq
            self.seen.append(envelope.seq)

    async def leave(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()
            self._stream = None


@pytest.mark.req("INT-7")
@given(steps=STEPS)
def test_late_clients_and_those_that_return_neither_miss_nor_repeat(steps: list[str]) -> None:
    async def play() -> None:
        bus = EventBus()
        clients = [Client(bus)]
        for number, step in enumerate(steps):
            client = clients[number % len(clients)]
            match step:
                case "publish":
                    bus.publish(TextDelta(str(number)))
                case "join":
                    clients.append(Client(bus))
                case "leave":
                    await client.leave()
                case "read":
                    await client.read()
                case _:
                    client.connect()
        for client in clients:
            client.connect()
            await client.read()
            assert client.seen == list(range(client.joined + 1, bus.seq + 1))
            await client.leave()

    anyio.run(play)


@pytest.mark.req("INT-7")
@given(capacity=st.integers(1, 5), missed=st.integers(0, 8))
def test_a_client_that_was_away_too_long_is_told(capacity: int, missed: int) -> None:
    async def play() -> None:
        bus = EventBus(capacity=capacity)
        client = Client(bus)
        await client.leave()
        for number in range(missed):
            bus.publish(TextDelta(str(number)))
        client.connect()
        if missed <= capacity:
            await client.read()
            assert len(client.seen) == missed
        else:
            with pytest.raises(EventsExpired):
                await client.read()
        await client.leave()

    anyio.run(play)


@pytest.mark.anyio
async def test_a_slow_client_is_told_instead_of_growing_the_buffer() -> None:
    bus = EventBus(capacity=2)
    start = bus.seq
    bus.publish(Warned("0"))
    async with aclosing(bus.events(after=start)) as events:
        assert (await anext(events)).event == Warned("0")
        for number in range(5):
            bus.publish(Warned(str(number)))

        with pytest.raises(EventsExpired):
            await anext(events)


@pytest.mark.anyio
async def test_a_stream_wakes_up_for_each_event_and_ends_with_the_session() -> None:
    bus, seen = EventBus(), list[str]()

    async def follow() -> None:
        async for envelope in bus.events():
            assert isinstance(envelope.event, TextDelta)
            seen.append(envelope.event.text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        await anyio.wait_all_tasks_blocked()
        for text in ("a", "b"):
            bus.publish(TextDelta(text))
            await anyio.wait_all_tasks_blocked()
        bus.publish(TextDelta("c"))
        bus.close()

    assert seen == ["a", "b", "c"]


def test_what_a_listener_publishes_comes_after_what_it_heard() -> None:
    bus, seen = EventBus(), list[str]()

    def react(event: TextDelta) -> None:
        if event.text == "a":
            bus.publish(Warned("from a listener"))

    bus.on("text_delta", react)
    bus.on_any(lambda envelope: seen.append(envelope.name))
    bus.publish(TextDelta("a"))

    assert seen == ["text_delta", "warning"]


def test_a_listener_that_is_a_coroutine_is_rejected() -> None:
    async def listen(_: object) -> None:
        await anyio.lowlevel.checkpoint()

    with pytest.raises(SessionError, match="plain function"):
        EventBus().on_any(listen)


def test_events_of_subagents_reach_only_those_who_listen_to_everything() -> None:
    bus = EventBus()
    own: list[str] = []
    everything: list[str] = []
    bus.on("text_delta", lambda event: own.append(event.text))
    bus.on_any(lambda envelope: everything.append(envelope.task_id))
    bus.publish(TextDelta("mine"))
    bus.publish(TextDelta("its"), task_id="agent-1")

    assert (own, everything) == (["mine"], ["", "agent-1"])


def test_numbers_of_an_earlier_process_are_never_mistaken_for_ours() -> None:
    earlier, later = EventBus(clock=lambda: 1_000.0), EventBus(clock=lambda: 1_001.0)
    for _ in range(500):
        earlier.publish(Warned("x"))
    later.publish(Warned("y"))

    assert earlier.seq < later.seq - 1


def test_the_buffer_starts_with_the_first_number_that_a_client_can_know() -> None:
    bus = EventBus()
    bus.publish(Warned("before anyone could ask"))

    start = bus.seq
    bus.publish(Warned("after"))

    async def read() -> None:
        async with aclosing(bus.events(after=start)) as events:
            assert (await anext(events)).event == Warned("after")
        async with aclosing(bus.events(after=start - 1)) as events:
            with pytest.raises(EventsExpired):
                await anext(events)

    anyio.run(read)
