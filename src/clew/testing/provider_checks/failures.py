"""Checks of errors, retries and timeouts."""

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
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.provider_checks.assertions import (
    assert_equal,
    collect_chunks,
    expect_error,
    fail_after,
    join_text,
    make_request,
    run_concurrently,
)
from clew.testing.provider_checks.streams import split_stream
from clew.testing.provider_harness import API_KEY, FakeSleep, HttpHarness, instant_retry
from clew.testing.server import Disconnect, ResponseStep, ScriptedResponse, Stall

OK = ModelReply(words=("ok",))
ERRORS: tuple[tuple[int, type[ProviderError]], ...] = (
    (400, ProviderRejected),
    (401, ProviderDenied),
    (403, ProviderDenied),
    (404, ProviderRejected),
    (413, ContextOverflow),
    (422, ProviderRejected),
)


async def maps_http_errors(harness: HttpHarness) -> None:
    """The class of an error says what to do, and its message what the server said."""
    for status, kind in ERRORS:
        answer = harness.error_response(status, "the wheel is bent")
        async with harness.serve(answer) as (provider, server):
            error, _ = await expect_error(harness, provider, ProviderError, f"HTTP {status}")
            assert_equal(type(error), kind, f"the error for HTTP {status}")
            assert_equal((error.status, error.provider), (status, provider.name), "what it carries")
            assert "the wheel is bent" in str(error), f"HTTP {status} lost its words: {error}"
            assert_equal(len(server.bodies), 1, f"requests for HTTP {status}")


async def detects_context_overflow(harness: HttpHarness) -> None:
    """A conversation that is too long is a `ContextOverflow`, which is not retried."""
    async with harness.serve(harness.error_response(400, harness.overflow)) as (provider, server):
        await expect_error(
            harness, provider, ContextOverflow, "HTTP 400 with the words for too long"
        )
        assert_equal(len(server.bodies), 1, "requests that were too long")


async def retries_busy_servers(harness: HttpHarness) -> None:
    """A busy or failing server gets the same request again, after growing delays."""
    gateway = ScriptedResponse(
        steps=[b"<html>Bad Gateway</html>"], status=502, content_type="text/html"
    )
    for pair in (
        (harness.error_response(500, "oops"), gateway),
        (harness.error_response(503, "overloaded"), harness.error_response(529, "overloaded")),
        (harness.error_response(429, "slow down"), harness.error_response(504, "too late")),
    ):
        naps = FakeSleep()
        async with harness.serve(*pair, OK, retry=instant_retry(naps)) as (provider, server):
            what = f"HTTP {pair[0].status}, then {pair[1].status}, then an answer"
            assert_equal(join_text(await collect_chunks(harness, provider)), "ok", what)
            assert_equal(len(set(server.bodies)), 1, f"{what}: different bodies")
            assert_equal(len(server.bodies), 3, f"{what}: requests")
        assert len(naps.taken) == 2, f"{what}: pauses were {naps.taken}"
        assert 0 < naps.taken[0] < naps.taken[1], f"the pauses do not grow: {naps.taken}"


async def honors_retry_after(harness: HttpHarness) -> None:
    """A retry waits as long as the server asks for."""
    naps = FakeSleep()
    script = (harness.error_response(429, "slow down", retry_after="7"), OK)
    async with harness.serve(*script, retry=instant_retry(naps)) as (provider, _):
        assert_equal(
            join_text(await collect_chunks(harness, provider)), "ok", "the answer after the pause"
        )

    assert len(naps.taken) == 1, f"one pause was due: {naps.taken}"
    assert 7 <= naps.taken[0] < 8, f"7 seconds were asked for: {naps.taken}"


async def limits_retries(harness: HttpHarness) -> None:
    """A server that stays busy is retried as often as configured, and no more."""
    busy = harness.error_response(503, "overloaded", retry_after="2")
    naps = FakeSleep()
    async with harness.serve(busy, retry=instant_retry(naps, attempts=4)) as (provider, server):
        error, _ = await expect_error(harness, provider, ProviderBusy, "a server that stays busy")
        assert_equal(len(server.bodies), 4, "attempts")
    assert_equal((error.status, error.retry_after), (503, 2.0), "what the error carries")
    assert_equal(len(naps.taken), 3, "pauses between four attempts")


async def retries_after_disconnect(harness: HttpHarness) -> None:
    """A connection that is dropped before the answer is retried."""
    naps = FakeSleep()
    script = (ScriptedResponse(steps=[Disconnect()]), OK)
    async with harness.serve(*script, retry=instant_retry(naps)) as (provider, server):
        assert_equal(
            join_text(await collect_chunks(harness, provider)),
            "ok",
            "the answer after a dropped connection",
        )
        assert_equal((len(server.bodies), len(naps.taken)), (2, 1), "requests and pauses")


async def never_retries_after_first_chunk(harness: HttpHarness) -> None:
    """A connection lost after the first word is an error, because the word was already shown."""
    begun, _ = split_stream(harness)
    # The server waits for the word to be read: what a dropped connection still held is lost.
    stall = Stall()
    answer = harness.stream_response(*begun, stall, Disconnect())
    naps = FakeSleep()
    async with harness.serve(answer, OK, retry=instant_retry(naps)) as (provider, server):
        with fail_after("the first word, and the loss of the connection"):
            async with aclosing(provider.stream(make_request(harness))) as chunks:
                found: list[Chunk] = []
                while join_text(found) != "alpha":
                    found.append(await anext(chunks))
                stall.release()
                try:
                    rest = [chunk async for chunk in chunks]
                except StreamBroken:
                    pass
                else:
                    raise AssertionError(f"a lost connection passes for an end: {rest!r}")
        assert_equal((len(server.bodies), naps.taken), (1, []), "requests and pauses")


async def reports_mid_stream_errors(harness: HttpHarness) -> None:
    """An error after the first word ends the answer with an error, and is not retried."""
    begun, rest = split_stream(harness)
    script = (harness.stream_response(*begun, _make_overload_error(harness), *rest), OK)
    naps = FakeSleep()
    async with harness.serve(*script, retry=instant_retry(naps)) as (provider, server):
        _, found = await expect_error(harness, provider, StreamBroken, "an overload in mid-stream")
        assert_equal(join_text(found), "alpha", "the words before the error")
        assert_equal((len(server.bodies), naps.taken), (1, []), "requests and pauses")


async def retries_error_in_first_event(harness: HttpHarness) -> None:
    """An overload reported with status 200 before any text is retried."""
    naps = FakeSleep()
    script = (harness.stream_response(_make_overload_error(harness)), OK)
    async with harness.serve(*script, retry=instant_retry(naps)) as (provider, _):
        assert_equal(
            join_text(await collect_chunks(harness, provider)), "ok", "the answer after an overload"
        )
    assert_equal(len(naps.taken), 1, "pauses")


async def rejects_unreadable_responses(harness: HttpHarness) -> None:
    """An unreadable response is a `ProviderError`, never a foreign exception."""
    page = ScriptedResponse(steps=[b"<html>Please log in</html>\n\n"], content_type="text/html")
    begun, _ = split_stream(harness)
    noise = b"data: {\xff nonsense\n\n" * 3
    nonsense: tuple[tuple[str, ScriptedResponse, type[ProviderError]], ...] = (
        ("a page", page, ProviderError),
        ("noise", harness.stream_response(noise), StreamBroken),
        ("noise in mid-stream", harness.stream_response(*begun, noise), StreamBroken),
    )
    for what, answer, error in nonsense:
        async with harness.serve(answer) as (provider, server):
            await expect_error(harness, provider, error, f"{what} in place of an answer")
            assert_equal(len(server.bodies), 1, f"{what}: requests")


async def applies_idle_timeout(harness: HttpHarness) -> None:
    """No data for longer than the idle timeout is an error, before and during a response."""
    for begun in ([], split_stream(harness)[0]):
        answer = harness.stream_response(*begun, Stall())
        async with harness.serve(answer, idle_timeout=0.15) as (provider, server):
            _, found = await expect_error(
                harness, provider, ProviderTimeout, f"silence after {len(begun)} events"
            )
            assert_equal(join_text(found), "alpha" if begun else "", "the words before the silence")
            assert_equal(len(server.bodies), 1, "requests")


async def keeps_slow_streams_open(harness: HttpHarness) -> None:
    """A response may take longer than the idle timeout, as long as data arrives."""
    frames = harness.api.stream(ModelReply(words=tuple("abcd")))
    middle, stalls = len(frames) // 2, [Stall(), Stall(), Stall()]
    first, second, third = stalls
    steps: list[ResponseStep] = [
        first,
        *frames[:middle],
        second,
        *frames[middle:-1],
        third,
        frames[-1],
    ]
    answer = harness.stream_response(*steps)

    async def conduct() -> None:
        for stall in stalls:
            await stall.reached.wait()
            await anyio.sleep(0.25)
            stall.release()

    async with harness.serve(answer, idle_timeout=0.6) as (provider, _):

        async def listen() -> None:
            assert_equal(
                join_text(await collect_chunks(harness, provider)),
                "abcd",
                "a slow answer that never stood still",
            )

        await run_concurrently(conduct, listen)


async def never_leaks_api_key(harness: HttpHarness) -> None:
    """No error, trace, log line or repr contains the key, even if the server repeats it."""
    text = f"the key {API_KEY} is not known here"
    answers = [harness.error_response(status, text) for status in (400, 401, 500)]
    answers += [
        ScriptedResponse(steps=[harness.api.error(401, text)], content_type="application/json")
    ]
    if harness.stream_error is not None:
        begun, _ = split_stream(harness)
        answers += [harness.stream_response(*begun, harness.stream_error(text))]
    for answer in answers:
        async with harness.serve(answer) as (provider, _):
            with _collect_logs() as lines:
                error, _ = await expect_error(
                    harness, provider, ProviderError, "an error with the key"
                )
            seen = {
                "the error": f"{error} {error!r} {error.args}",
                "the trace": "".join(traceback.format_exception(error)),
                "the log": "\n".join(lines),
                "the provider": f"{provider!r} {provider}",
            }
        for where, shown in seen.items():
            what = f"{where} shows the API key, which came with HTTP {answer.status}"
            assert API_KEY not in shown, f"{what}: {shown[:2000]}"


async def marks_unknown_models(harness: HttpHarness) -> None:
    """The facts of an unknown model are marked as unknown."""
    async with harness.serve() as (provider, _):
        assert not provider.facts("no-such-model-2b7e").known, "an unknown model passes for known"


def _make_overload_error(harness: HttpHarness) -> bytes:
    if harness.stream_error is None:
        raise SkipTest("this API has no errors in mid-stream")
    return harness.stream_error("overloaded")


@contextmanager
def _collect_logs() -> Iterator[list[str]]:
    """Collect every line that is logged while the block runs."""
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
    maps_http_errors,
    detects_context_overflow,
    retries_busy_servers,
    honors_retry_after,
    limits_retries,
    retries_after_disconnect,
    never_retries_after_first_chunk,
    reports_mid_stream_errors,
    retries_error_in_first_event,
    rejects_unreadable_responses,
    applies_idle_timeout,
    keeps_slow_streams_open,
    never_leaks_api_key,
    marks_unknown_models,
)
