"""How an answer must travel: cut anywhere, broken off anywhere, beside others."""

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
from clew.testing.checks.answers import EMPTY, ODD, SIGNATURE, comparable
from clew.testing.checks.assertions import ask, at_once, expect, folded, hello, needs, within, words
from clew.testing.fake_apis.protocol import Reply
from clew.testing.provider_harness import HttpStage, Powers
from clew.testing.server import Answer, Stall, Step

TOGETHER = 20
"""How many answers are read at once where they must not mix."""
PIECE = 61
"""Bytes that each of them brings in turn: seldom a whole event, and never a round number."""


async def means_the_same_in_one_piece(stage: HttpStage) -> None:
    """An answer asked for whole is the same message as one that was streamed."""
    needs(stage.can.whole, "answers in one piece")
    plain = Reply(words=("Yes, ", "猫", "."))
    for reply in (plain, rich(stage.can), replace(plain, calls=(ODD, EMPTY))):
        async with stage.playing(reply) as (provider, _):
            streamed = await ask(stage, provider)
        async with stage.playing(reply, streaming=False) as (provider, _):
            whole = await ask(stage, provider)

        wanted = _essence(folded(provider, streamed), stage.can)
        expect(_essence(folded(provider, whole), stage.can), wanted, "the message in one piece")
        expect(whole[-1], streamed[-1], "the end of an answer in one piece")


async def reads_bytes_however_they_are_cut(stage: HttpStage) -> None:
    """Where the network cuts the stream changes nothing, be it in the middle of a character."""
    frames = stage.voice.stream(rich(stage.can))
    data = b"".join(frames)
    chance = random.Random(7)  # noqa: S311 - the same cuts every time, and no secret
    cuts = [sorted(chance.sample(range(1, len(data)), 12)) for _ in range(6)]
    cuts += [list(range(1, len(data)))]
    answers = [stage.streamed(*_cut(data, places)) for places in cuts]
    async with stage.playing(stage.streamed(*frames), *answers) as (provider, _):
        wanted = _without_own_ids(await ask(stage, provider), stage.can)
        for places in cuts:
            found = _without_own_ids(await ask(stage, provider), stage.can)
            expect(found, wanted, f"the chunks of a stream cut at {places[:12]}")


async def hands_words_on_at_once(stage: HttpStage) -> None:
    """A word is handed on when it comes, not when the answer is complete."""
    begun, rest = begun_and_rest(stage)
    stall = Stall()
    answer = stage.streamed(*begun, stall, *rest)
    async with stage.playing(answer) as (provider, _):
        found: list[Chunk] = []
        with within("the first word of an answer that is still being written"):
            async with aclosing(provider.stream(hello(stage))) as chunks:
                while words(found) != "alpha":
                    found.append(await anext(chunks))
                stall.go_on()
                found += [chunk async for chunk in chunks]

    expect(words(found), "alphabeta", "the words around a pause")


async def hangs_up_when_closed(stage: HttpStage) -> None:
    """Closing the stream after any chunk ends the request at once; the next call works."""
    reply = rich(stage.can)
    async with stage.playing(reply) as (provider, _):
        total = len(await ask(stage, provider))
    for count in range(1, total):
        held = stage.streamed(*stage.voice.stream(reply), Stall())
        async with stage.playing(held, Reply(words=("again",))) as (provider, server):
            with within(f"the server, for the client to leave after chunk {count}"):
                async with aclosing(provider.stream(hello(stage))) as chunks:
                    for _ in range(count):
                        await anext(chunks)
                await server.client_left.wait()
            expect(
                words(await ask(stage, provider)), "again", f"the call after an abort at {count}"
            )


async def hangs_up_when_cancelled(stage: HttpStage) -> None:
    """Cancelling a call that waits for its first byte ends it at once; the next call works."""
    stall = Stall()
    async with stage.playing(Answer(steps=[stall]), Reply(words=("again",))) as (provider, server):
        with within("the server, for the client to leave before the answer"):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, stage, provider)
                await stall.reached.wait()
                tasks.cancel_scope.cancel()
            await server.client_left.wait()
        expect(words(await ask(stage, provider)), "again", "the call after a cancelled one")


async def never_takes_a_part_for_the_whole(stage: HttpStage) -> None:
    """A stream that ends after any event but the last ones is broken, not finished."""
    reply = rich(stage.can)
    frames = stage.voice.stream(reply)
    async with stage.playing(reply) as (provider, _):
        wanted = _essence(folded(provider, await ask(stage, provider)), stage.can)
    for count in range(len(frames)):
        async with stage.playing(stage.streamed(*frames[:count])) as (provider, server):
            what = f"a stream that ends after {count} of {len(frames)} events"
            try:
                found = await ask(stage, provider)
            except StreamBroken:
                pass
            else:
                message = _essence(folded(provider, found), stage.can)
                expect(message, wanted, f"{what} passes for finished, so the message")
            expect(len(server.bodies), 1, f"{what}: requests")


async def keeps_answers_apart(stage: HttpStage) -> None:
    """Answers that arrive at the same time, piece by piece in turn, never mix."""
    scripts = {number: _in_pieces(stage, _reply_of(number)) for number in range(TOGETHER)}

    def answer(body: bytes) -> Answer:
        asked = re.search(rb"question-(\d+)-", body)
        assert asked is not None, f"the question is not in the body: {body[:500]!r}"
        return scripts[int(asked[1])]

    async def listen(provider: Provider, number: int) -> None:
        chunks = await ask(stage, provider, f"question-{number}-")
        message, reply = folded(provider, chunks), _reply_of(number)
        expect(message.text, "".join(reply.words), f"the words of answer {number}")
        calls = [comparable(call, stage.can) for call in message.calls]
        wanted = [comparable(call, stage.can) for call in reply.calls]
        expect(calls, wanted, f"the calls of answer {number}")
        usage = [chunk.usage for chunk in chunks if isinstance(chunk, Finished)]
        expect(usage, [reply.usage], f"the end of answer {number}")

    async with stage.playing(answer) as (provider, _):
        listeners = [partial(listen, provider, number) for number in scripts]
        with within(f"{TOGETHER} answers at once"):
            await at_once(partial(_in_turn, scripts), *listeners)


def rich(can: Powers) -> Reply:
    """Return a short reply with all that the API can say in one."""
    return Reply(
        thoughts=("Let ", "me é see") if can.thinking else (),
        signature=SIGNATURE if can.signatures else "",
        words=("Hé", "llo 猫", "\n"),
        calls=(ODD, EMPTY),
    )


def begun_and_rest(stage: HttpStage) -> tuple[list[bytes], list[bytes]]:
    """Return the stream of `alpha` and `beta`, in two: up to the first word, and after it."""
    frames = stage.voice.stream(Reply(words=("alpha", "beta")))
    place = holding(frames, "alpha") + 1
    return frames[:place], frames[place:]


def holding(frames: list[bytes], text: str) -> int:
    """Return the place of the first frame that has `text` in it."""
    places = [place for place, frame in enumerate(frames) if text.encode() in frame]
    assert places, f"the voice never says {text!r} in one piece: {frames!r}"
    return places[0]


async def _in_turn(scripts: dict[int, Answer]) -> None:
    """Let each answer go on by one piece, then each by the next, in an order that changes."""
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
            stall.go_on()


def _in_pieces(stage: HttpStage, reply: Reply) -> Answer:
    """Return an answer that stops after every few bytes until it is let go on."""
    data = b"".join(stage.voice.stream(reply))
    steps: list[Step] = []
    for piece in _cut(data, list(range(PIECE, len(data), PIECE))):
        steps += [piece, Stall()]
    return stage.streamed(*steps)


def _reply_of(number: int) -> Reply:
    call = ToolCall(
        call_id=CallId(f"call_{number}"), name="look", arguments=f'{{"number":{number}}}'
    )
    return Reply(
        words=tuple(f"{number}:{place} " for place in range(2 + number % 5)),
        calls=(call,),
        usage=Usage(input_tokens=100 + number, output_tokens=1 + number),
    )


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    return [data[start:end] for start, end in zip([0, *places], [*places, None], strict=True)]


def _without_own_ids(chunks: list[Chunk], can: Powers) -> list[Chunk]:
    """Return the chunks without ids that the adapter made up, which differ each time."""
    if can.call_ids:
        return chunks
    return [
        replace(chunk, call_id=None) if isinstance(chunk, CallChunk) else chunk for chunk in chunks
    ]


def _essence(message: Message, can: Powers) -> list[object]:
    """Return what two messages must share: arguments compare as values where they are such."""
    loose = Powers(call_ids=can.call_ids, exact_arguments=False)
    return [
        comparable(part, loose) if isinstance(part, ToolCall) else part for part in message.parts
    ]


STREAM_CHECKS = (
    means_the_same_in_one_piece,
    reads_bytes_however_they_are_cut,
    hands_words_on_at_once,
    hangs_up_when_closed,
    hangs_up_when_cancelled,
    never_takes_a_part_for_the_whole,
    keeps_answers_apart,
)
