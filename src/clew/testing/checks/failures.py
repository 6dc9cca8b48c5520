"""What a provider must make of servers that fail, and of those that are merely slow."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from unittest import SkipTest

import anyio

from clew.core.errors import (
    ContextOverflow,
    ProviderBusy,
    ProviderDenied,
    ProviderError,
    ProviderRejected,
    ProviderTimeout,
    StreamBroken,
)
from clew.providers.protocol import Chunk
from clew.testing.checks.assertions import ask, at_once, expect, fails, hello, within, words
from clew.testing.checks.streams import begun_and_rest
from clew.testing.fake_apis.protocol import Reply
from clew.testing.provider_harness import API_KEY, HttpStage, Naps, impatient
from clew.testing.server import Answer, Hangup, Stall, Step

OK = Reply(words=("ok",))
ERRORS: tuple[tuple[int, type[ProviderError]], ...] = (
    (400, ProviderRejected),
    (401, ProviderDenied),
    (403, ProviderDenied),
    (404, ProviderRejected),
    (413, ContextOverflow),
    (422, ProviderRejected),
)


async def tells_errors_apart(stage: HttpStage) -> None:
    """The class of an error says what to do, and its text what the server said."""
    for status, kind in ERRORS:
        answer = stage.failure(status, "the wheel is bent")
        async with stage.playing(answer) as (provider, server):
            error, _ = await fails(stage, provider, ProviderError, f"HTTP {status}")
            expect(type(error), kind, f"the error for HTTP {status}")
            expect((error.status, error.provider), (status, provider.name), "what it carries")
            assert "the wheel is bent" in str(error), f"HTTP {status} lost its words: {error}"
            expect(len(server.bodies), 1, f"requests for HTTP {status}")


async def knows_an_overflow(stage: HttpStage) -> None:
    """A conversation that is too long is told from other refusals, and not sent again."""
    async with stage.playing(stage.failure(400, stage.overflow)) as (provider, server):
        await fails(stage, provider, ContextOverflow, "HTTP 400 with the words for too long")
        expect(len(server.bodies), 1, "requests that were too long")


async def asks_a_busy_server_again(stage: HttpStage) -> None:
    """A server that is busy or out of order is asked the same again, after growing pauses."""
    gateway = Answer(steps=[b"<html>Bad Gateway</html>"], status=502, content_type="text/html")
    for pair in (
        (stage.failure(500, "oops"), gateway),
        (stage.failure(503, "overloaded"), stage.failure(529, "overloaded")),
        (stage.failure(429, "slow down"), stage.failure(504, "too late")),
    ):
        naps = Naps()
        async with stage.playing(*pair, OK, retry=impatient(naps)) as (provider, server):
            what = f"HTTP {pair[0].status}, then {pair[1].status}, then an answer"
            expect(words(await ask(stage, provider)), "ok", what)
            expect(len(set(server.bodies)), 1, f"{what}: different bodies")
            expect(len(server.bodies), 3, f"{what}: requests")
        assert len(naps.taken) == 2, f"{what}: pauses were {naps.taken}"
        assert 0 < naps.taken[0] < naps.taken[1], f"the pauses do not grow: {naps.taken}"


async def waits_as_long_as_asked(stage: HttpStage) -> None:
    """The pause that a server asks for is kept."""
    naps = Naps()
    script = (stage.failure(429, "slow down", retry_after="7"), OK)
    async with stage.playing(*script, retry=impatient(naps)) as (provider, _):
        expect(words(await ask(stage, provider)), "ok", "the answer after the pause")

    assert len(naps.taken) == 1, f"one pause was due: {naps.taken}"
    assert 7 <= naps.taken[0] < 8, f"7 seconds were asked for: {naps.taken}"


async def gives_up_in_the_end(stage: HttpStage) -> None:
    """A server that stays busy is asked as often as agreed, and no more."""
    busy = stage.failure(503, "overloaded", retry_after="2")
    naps = Naps()
    async with stage.playing(busy, retry=impatient(naps, attempts=4)) as (provider, server):
        error, _ = await fails(stage, provider, ProviderBusy, "a server that stays busy")
        expect(len(server.bodies), 4, "attempts")
    expect((error.status, error.retry_after), (503, 2.0), "what the error carries")
    expect(len(naps.taken), 3, "pauses between four attempts")


async def asks_again_after_a_hangup(stage: HttpStage) -> None:
    """A connection that is dropped before the answer is worth another attempt."""
    naps = Naps()
    script = (Answer(steps=[Hangup()]), OK)
    async with stage.playing(*script, retry=impatient(naps)) as (provider, server):
        expect(words(await ask(stage, provider)), "ok", "the answer after a dropped connection")
        expect((len(server.bodies), len(naps.taken)), (2, 1), "requests and pauses")


async def never_asks_again_once_begun(stage: HttpStage) -> None:
    """A connection lost after the first word is an error: the word has been shown already."""
    begun, _ = begun_and_rest(stage)
    # The server waits for the word to be read: what a dropped connection still held is lost.
    stall = Stall()
    answer = stage.streamed(*begun, stall, Hangup())
    naps = Naps()
    async with stage.playing(answer, OK, retry=impatient(naps)) as (provider, server):
        with within("the first word, and the loss of the connection"):
            async with aclosing(provider.stream(hello(stage))) as chunks:
                found: list[Chunk] = []
                while words(found) != "alpha":
                    found.append(await anext(chunks))
                stall.go_on()
                try:
                    rest = [chunk async for chunk in chunks]
                except StreamBroken:
                    pass
                else:
                    raise AssertionError(f"a lost connection passes for an end: {rest!r}")
        expect((len(server.bodies), naps.taken), (1, []), "requests and pauses")


async def tells_errors_in_mid_stream(stage: HttpStage) -> None:
    """An error after the first word ends the answer with an error, and is not retried."""
    begun, rest = begun_and_rest(stage)
    script = (stage.streamed(*begun, _overloaded(stage), *rest), OK)
    naps = Naps()
    async with stage.playing(*script, retry=impatient(naps)) as (provider, server):
        _, found = await fails(stage, provider, StreamBroken, "an overload in mid-stream")
        expect(words(found), "alpha", "the words before the error")
        expect((len(server.bodies), naps.taken), (1, []), "requests and pauses")


async def asks_again_when_the_first_event_is_an_error(stage: HttpStage) -> None:
    """An overload that is told before any word, under a good status, is worth another try."""
    naps = Naps()
    script = (stage.streamed(_overloaded(stage)), OK)
    async with stage.playing(*script, retry=impatient(naps)) as (provider, _):
        expect(words(await ask(stage, provider)), "ok", "the answer after an overload")
    expect(len(naps.taken), 1, "pauses")


async def never_chokes_on_nonsense(stage: HttpStage) -> None:
    """What is no answer of this API is an error of Clew's own, never a foreign exception."""
    page = Answer(steps=[b"<html>Please log in</html>\n\n"], content_type="text/html")
    begun, _ = begun_and_rest(stage)
    noise = b"data: {\xff nonsense\n\n" * 3
    nonsense: tuple[tuple[str, Answer, type[ProviderError]], ...] = (
        ("a page", page, ProviderError),
        ("noise", stage.streamed(noise), StreamBroken),
        ("noise in mid-stream", stage.streamed(*begun, noise), StreamBroken),
    )
    for what, answer, error in nonsense:
        async with stage.playing(answer) as (provider, server):
            await fails(stage, provider, error, f"{what} in place of an answer")
            expect(len(server.bodies), 1, f"{what}: requests")


async def gives_up_on_silence(stage: HttpStage) -> None:
    """No byte for longer than the idle timeout is an error, before and within an answer."""
    for begun in ([], begun_and_rest(stage)[0]):
        answer = stage.streamed(*begun, Stall())
        async with stage.playing(answer, idle_timeout=0.15) as (provider, server):
            _, found = await fails(
                stage, provider, ProviderTimeout, f"silence after {len(begun)} events"
            )
            expect(words(found), "alpha" if begun else "", "the words before the silence")
            expect(len(server.bodies), 1, "requests")


async def is_patient_while_words_come(stage: HttpStage) -> None:
    """An answer may take longer than the idle timeout, as long as it goes on."""
    frames = stage.voice.stream(Reply(words=tuple("abcd")))
    middle, stalls = len(frames) // 2, [Stall(), Stall(), Stall()]
    first, second, third = stalls
    steps: list[Step] = [first, *frames[:middle], second, *frames[middle:-1], third, frames[-1]]
    answer = stage.streamed(*steps)

    async def conduct() -> None:
        for stall in stalls:
            await stall.reached.wait()
            await anyio.sleep(0.25)
            stall.go_on()

    async with stage.playing(answer, idle_timeout=0.6) as (provider, _):

        async def listen() -> None:
            expect(
                words(await ask(stage, provider)), "abcd", "a slow answer that never stood still"
            )

        await at_once(conduct, listen)


async def never_shows_the_key(stage: HttpStage) -> None:
    """No error, trace, log line or repr holds the key, though the server repeats it."""
    text = f"the key {API_KEY} is not known here"
    answers = [stage.failure(status, text) for status in (400, 401, 500)]
    answers += [Answer(steps=[stage.voice.error(401, text)], content_type="application/json")]
    if stage.stream_error is not None:
        begun, _ = begun_and_rest(stage)
        answers += [stage.streamed(*begun, stage.stream_error(text))]
    for answer in answers:
        async with stage.playing(answer) as (provider, _):
            with _logged() as lines:
                error, _ = await fails(stage, provider, ProviderError, "an error with the key")
            seen = {
                "the error": f"{error} {error!r} {error.args}",
                "the trace": "".join(traceback.format_exception(error)),
                "the log": "\n".join(lines),
                "the provider": f"{provider!r} {provider}",
            }
        for where, shown in seen.items():
            what = f"{where} shows the API key, which came with HTTP {answer.status}"
            assert API_KEY not in shown, f"{what}: {shown[:2000]}"


async def owns_up_to_not_knowing_a_model(stage: HttpStage) -> None:
    """What is assumed of a model that nobody knows is marked as such."""
    async with stage.playing() as (provider, _):
        assert not provider.facts("no-such-model-2b7e").known, "an unknown model passes for known"


def _overloaded(stage: HttpStage) -> bytes:
    if stage.stream_error is None:
        raise SkipTest("this API has no errors in mid-stream")
    return stage.stream_error("overloaded")


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Collect every line that is logged meanwhile."""
    lines: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    root, collector = logging.getLogger(), Collector()
    level = root.level
    root.addHandler(collector)
    root.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.setLevel(level)
        root.removeHandler(collector)


FAILURE_CHECKS = (
    tells_errors_apart,
    knows_an_overflow,
    asks_a_busy_server_again,
    waits_as_long_as_asked,
    gives_up_in_the_end,
    asks_again_after_a_hangup,
    never_asks_again_once_begun,
    tells_errors_in_mid_stream,
    asks_again_when_the_first_event_is_an_error,
    never_chokes_on_nonsense,
    gives_up_on_silence,
    is_patient_while_words_come,
    never_shows_the_key,
    owns_up_to_not_knowing_a_model,
)
