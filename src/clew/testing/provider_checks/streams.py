"""Checks of streaming: chunk boundaries, cancellation, truncation, concurrency."""

import random
import re
from contextlib import aclosing
from functools import partial

import anyio
from msgspec.structs import replace

from clew.core.errors import StreamBroken
from clew.core.ids import CallId
from clew.core.messages import Message, ToolCall
from clew.core.usage import Usage
from clew.providers.protocol import CallChunk, Chunk, Finished, Provider
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.provider_checks.answers import EMPTY, ODD, SIGNATURE, comparable_call
from clew.testing.provider_checks.assertions import (
    assert_equal,
    build_message,
    collect_chunks,
    fail_after,
    join_text,
    make_request,
    require_capability,
    run_concurrently,
)
from clew.testing.provider_harness import ApiCapabilities, HttpHarness
from clew.testing.server import ResponseStep, ScriptedResponse, Stall

TOGETHER = 20
"""How many responses are read concurrently."""
PIECE = 61
"""Bytes that each of them sends in turn: rarely a whole event."""


async def matches_non_streaming_response(harness: HttpHarness) -> None:
    """A non-streamed response gives the same message as a stream."""
    require_capability(harness.capabilities.whole, "answers in one piece")
    plain = ModelReply(words=("Yes, ", "猫", "."))
    called = [replace(plain, calls=(ODD, EMPTY))] if harness.capabilities.tool_calls else []
    for reply in (plain, make_full_reply(harness.capabilities), *called):
        async with harness.serve(reply) as (provider, _):
            streamed = await collect_chunks(harness, provider)
        async with harness.serve(reply, streaming=False) as (provider, _):
            whole = await collect_chunks(harness, provider)

        wanted = _essence(build_message(provider, streamed), harness.capabilities)
        assert_equal(
            _essence(build_message(provider, whole), harness.capabilities),
            wanted,
            "the message in one piece",
        )
        assert_equal(whole[-1], streamed[-1], "the end of an answer in one piece")


async def parses_any_chunk_boundary(harness: HttpHarness) -> None:
    """The network may split the stream anywhere, even inside a character."""
    frames = harness.api.stream(make_full_reply(harness.capabilities))
    data = b"".join(frames)
    chance = random.Random(7)  # noqa: S311 - the same cuts every time, and no secret
    cuts = [sorted(chance.sample(range(1, len(data)), 12)) for _ in range(6)]
    cuts += [list(range(1, len(data)))]
    answers = [harness.stream_response(*_cut(data, places)) for places in cuts]
    async with harness.serve(harness.stream_response(*frames), *answers) as (provider, _):
        wanted = _without_own_ids(await collect_chunks(harness, provider), harness.capabilities)
        for places in cuts:
            found = _without_own_ids(await collect_chunks(harness, provider), harness.capabilities)
            assert_equal(found, wanted, f"the chunks of a stream cut at {places[:12]}")


async def streams_without_buffering(harness: HttpHarness) -> None:
    """A delta is forwarded when it arrives, not when the response is complete."""
    begun, rest = split_stream(harness)
    stall = Stall()
    answer = harness.stream_response(*begun, stall, *rest)
    async with harness.serve(answer) as (provider, _):
        found: list[Chunk] = []
        with fail_after("the first word of an answer that is still being written"):
            async with aclosing(provider.stream(make_request(harness))) as chunks:
                while join_text(found) != "alpha":
                    found.append(await anext(chunks))
                stall.release()
                found += [chunk async for chunk in chunks]

    assert_equal(join_text(found), "alphabeta", "the words around a pause")


async def cancels_request_when_closed(harness: HttpHarness) -> None:
    """Closing the stream after any chunk cancels the request; the next call works."""
    reply = make_full_reply(harness.capabilities)
    async with harness.serve(reply) as (provider, _):
        total = len(await collect_chunks(harness, provider))
    for count in range(1, total):
        held = harness.stream_response(*harness.api.stream(reply), Stall())
        async with harness.serve(held, ModelReply(words=("again",))) as (provider, server):
            with fail_after(f"the server, for the client to leave after chunk {count}"):
                async with aclosing(provider.stream(make_request(harness))) as chunks:
                    for _ in range(count):
                        await anext(chunks)
                await server.client_left.wait()
            assert_equal(
                join_text(await collect_chunks(harness, provider)),
                "again",
                f"the call after an abort at {count}",
            )


async def cancels_request_with_its_task(harness: HttpHarness) -> None:
    """Cancelling a call that waits for its first byte cancels the request; the next call works."""
    stall = Stall()
    async with harness.serve(ScriptedResponse(steps=[stall]), ModelReply(words=("again",))) as (
        provider,
        server,
    ):
        with fail_after("the server, for the client to leave before the answer"):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(collect_chunks, harness, provider)
                await stall.reached.wait()
                tasks.cancel_scope.cancel()
            await server.client_left.wait()
        assert_equal(
            join_text(await collect_chunks(harness, provider)),
            "again",
            "the call after a cancelled one",
        )


async def detects_truncated_streams(harness: HttpHarness) -> None:
    """A stream that ends too early is broken, not finished."""
    reply = make_full_reply(harness.capabilities)
    frames = harness.api.stream(reply)
    async with harness.serve(reply) as (provider, _):
        wanted = _essence(
            build_message(provider, await collect_chunks(harness, provider)), harness.capabilities
        )
    for count in range(len(frames)):
        async with harness.serve(harness.stream_response(*frames[:count])) as (provider, server):
            what = f"a stream that ends after {count} of {len(frames)} events"
            try:
                found = await collect_chunks(harness, provider)
            except StreamBroken:
                pass
            else:
                message = _essence(build_message(provider, found), harness.capabilities)
                assert_equal(message, wanted, f"{what} passes for finished, so the message")
            assert_equal(len(server.bodies), 1, f"{what}: requests")


async def isolates_concurrent_responses(harness: HttpHarness) -> None:
    """Responses that arrive concurrently, in alternating pieces, never mix."""
    able = harness.capabilities
    scripts = {number: _in_pieces(harness, _reply_of(number, able)) for number in range(TOGETHER)}

    def answer(body: bytes) -> ScriptedResponse:
        asked = re.search(rb"question-(\d+)-", body)
        assert asked is not None, f"the question is not in the body: {body[:500]!r}"
        return scripts[int(asked[1])]

    async def listen(provider: Provider, number: int) -> None:
        chunks = await collect_chunks(harness, provider, f"question-{number}-")
        message, reply = build_message(provider, chunks), _reply_of(number, able)
        assert_equal(message.text, "".join(reply.words), f"the words of answer {number}")
        calls = [comparable_call(call, harness.capabilities) for call in message.calls]
        wanted = [comparable_call(call, harness.capabilities) for call in reply.calls]
        assert_equal(calls, wanted, f"the calls of answer {number}")
        usage = [chunk.usage for chunk in chunks if isinstance(chunk, Finished)]
        assert_equal(usage, [reply.usage], f"the end of answer {number}")

    async with harness.serve(answer) as (provider, _):
        listeners = [partial(listen, provider, number) for number in scripts]
        with fail_after(f"{TOGETHER} answers at once"):
            await run_concurrently(partial(_in_turn, scripts), *listeners)


def make_full_reply(capabilities: ApiCapabilities) -> ModelReply:
    """Return a short reply with everything that the API supports."""
    return ModelReply(
        thoughts=("Let ", "me é see") if capabilities.thinking else (),
        signature=SIGNATURE if capabilities.signatures else "",
        words=("Hé", "llo 猫", "\n"),
        calls=(ODD, EMPTY) if capabilities.tool_calls else (),
    )


def split_stream(harness: HttpHarness) -> tuple[list[bytes], list[bytes]]:
    """Return the stream of `alpha` and `beta` in two parts: up to the first text, and the rest."""
    frames = harness.api.stream(ModelReply(words=("alpha", "beta")))
    place = find_frame(frames, "alpha") + 1
    return frames[:place], frames[place:]


def find_frame(frames: list[bytes], text: str) -> int:
    """Return the index of the first frame that contains `text`."""
    places = [place for place, frame in enumerate(frames) if text.encode() in frame]
    assert places, f"the voice never says {text!r} in one piece: {frames!r}"
    return places[0]


async def _in_turn(scripts: dict[int, ScriptedResponse]) -> None:
    """Release one piece of each answer in turn, in an order that changes."""
    stalls = {
        number: [step for step in answer.steps if isinstance(step, Stall)]
        for number, answer in scripts.items()
    }
    chance = random.Random(8)  # noqa: S311 - the same order every time, and no secret
    while any(stalls.values()):
        waiting = [number for number, rest in stalls.items() if rest]
        for number in chance.sample(waiting, len(waiting)):
            stall = stalls[number].pop(0)
            await stall.reached.wait()
            stall.release()


def _in_pieces(harness: HttpHarness, reply: ModelReply) -> ScriptedResponse:
    """Return an answer that stops after every few bytes until it is released."""
    data = b"".join(harness.api.stream(reply))
    steps: list[ResponseStep] = []
    for piece in _cut(data, list(range(PIECE, len(data), PIECE))):
        steps += [piece, Stall()]
    return harness.stream_response(*steps)


def _reply_of(number: int, capabilities: ApiCapabilities) -> ModelReply:
    call = ToolCall(
        call_id=CallId(f"call_{number}"), name="look", arguments=f'{{"number":{number}}}'
    )
    return ModelReply(
        words=tuple(f"{number}:{place} " for place in range(2 + number % 5)),
        calls=(call,) if capabilities.tool_calls else (),
        usage=Usage(input_tokens=100 + number, output_tokens=1 + number),
    )


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    return [data[start:end] for start, end in zip([0, *places], [*places, None], strict=True)]


def _without_own_ids(chunks: list[Chunk], capabilities: ApiCapabilities) -> list[Chunk]:
    """Return the chunks without ids that the adapter made up, which differ each time."""
    if capabilities.call_ids:
        return chunks
    return [
        replace(chunk, call_id=None) if isinstance(chunk, CallChunk) else chunk for chunk in chunks
    ]


def _essence(message: Message, capabilities: ApiCapabilities) -> list[object]:
    """Return the form in which two messages are compared: arguments that are JSON, as values."""
    loose = ApiCapabilities(call_ids=capabilities.call_ids, exact_arguments=False)
    return [
        comparable_call(part, loose) if isinstance(part, ToolCall) else part
        for part in message.parts
    ]


STREAM_CHECKS = (
    matches_non_streaming_response,
    parses_any_chunk_boundary,
    streams_without_buffering,
    cancels_request_when_closed,
    cancels_request_with_its_task,
    detects_truncated_streams,
    isolates_concurrent_responses,
)
