import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import aiohttp
import anyio
import pytest

from clew.core.errors import (
    ConfigError,
    ContextOverflow,
    ProviderBusy,
    ProviderDenied,
    ProviderError,
    ProviderRejected,
    ProviderTimeout,
    StreamBroken,
)
from clew.core.ids import CallId
from clew.core.messages import user
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.catalogue import lookup
from clew.providers.openai_chat import OpenAIChat, dialect_for
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    Finished,
    ListsModels,
    Provider,
    Request,
    RetryChunk,
    SearchesWeb,
    StopReason,
    TextChunk,
)
from clew.providers.retry import Retry
from clew.testing.fake_openai import (
    DONE,
    Disconnect,
    ResponseStep,
    ScriptedResponse,
    Stall,
    delta,
    error_response,
    event,
    fake_openai,
    text_response,
    tool_call_response,
)
from clew.testing.server import serve

pytestmark = pytest.mark.anyio

HELLO = Request(model="m", messages=(user("hi"),))
BUSY = error_response(503, {"error": {"message": "overloaded"}})


class Naps:
    """Counts the pauses instead of making them."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


def patient(url: str, naps: Naps, attempts: int = 3) -> OpenAIChat:
    retry = Retry(attempts=attempts, sleep=naps, random=lambda: 1.0)
    return OpenAIChat(url, retry=retry)


async def ask(provider: Provider, request: Request = HELLO) -> list[Chunk]:
    """Return the chunks of the answer."""
    with anyio.fail_after(60):
        try:
            chunks = [chunk async for chunk in provider.stream(request)]
            return [chunk for chunk in chunks if not isinstance(chunk, RetryChunk)]
        finally:
            await provider.aclose()


@pytest.mark.req("PRV-1", "PRV-2")
async def test_an_answer_streams_in_and_ends_once() -> None:
    async with fake_openai(text_response("Hel", "lo")) as server:
        found = await ask(OpenAIChat(server.url))

    assert found == [
        TextChunk("Hel"),
        TextChunk("lo"),
        Finished(reason=StopReason.DONE, usage=Usage(input_tokens=10, output_tokens=2)),
    ]
    assert server.requests[0]["messages"] == [{"role": "user", "content": "hi"}]


@pytest.mark.req("PRV-2")
async def test_a_tool_call_keeps_its_bytes() -> None:
    async with fake_openai(tool_call_response("Read", '{"path" :"ä"}')) as server:
        found = await ask(OpenAIChat(server.url))

    pieces = [chunk for chunk in found if isinstance(chunk, CallChunk)]
    assert "".join(piece.arguments for piece in pieces) == '{"path" :"ä"}'
    assert (pieces[0].call_id, pieces[0].name) == (CallId("call_1"), "Read")
    assert isinstance(found[-1], Finished)
    assert found[-1].reason is StopReason.TOOL_CALLS


async def test_chunks_are_handed_on_while_the_server_still_works() -> None:
    stall = Stall()
    answer = ScriptedResponse(
        steps=[delta(content="first"), stall, delta("stop", content="last"), DONE]
    )
    async with fake_openai(answer) as server:
        provider = OpenAIChat(server.url)
        with anyio.fail_after(60):
            chunks = provider.stream(HELLO)
            assert await anext(chunks) == TextChunk("first")
            stall.release()
            assert await anext(chunks) == TextChunk("last")
            await chunks.aclose()
        await provider.aclose()


async def test_the_key_and_the_headers_are_sent_and_never_shown() -> None:
    async with fake_openai(
        error_response(401, {"error": {"message": "bad key sk-secret"}})
    ) as server:
        provider = OpenAIChat(server.url, api_key="sk-secret\n", headers={"X-Team": "blue"})
        with pytest.raises(ProviderDenied) as caught:
            await ask(provider)

    assert server.headers[0]["Authorization"] == "Bearer sk-secret"
    assert server.headers[0]["X-Team"] == "blue"
    shown = f"{caught.value}{provider!r}{provider.transport!r}{provider.transport.endpoint!r}"
    assert "sk-secret" not in shown


@pytest.mark.req("PRV-4")
@pytest.mark.parametrize("key", ["context", "maximum context"])
async def test_a_key_that_is_a_word_does_not_hide_what_an_error_says(key: str) -> None:
    said = "This model's maximum context length is 8192 tokens."
    async with fake_openai(error_response(400, {"error": {"message": said}})) as server:
        with pytest.raises(ContextOverflow) as caught:
            await ask(OpenAIChat(server.url, api_key=key))

    assert caught.value.limit == 8_192
    assert (said in str(caught.value)) is (len(key) < 8)


@pytest.mark.req("CMP-9")
async def test_a_conversation_that_is_too_long_is_an_overflow() -> None:
    body = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    async with fake_openai(error_response(400, body)) as server:
        with pytest.raises(ContextOverflow):
            await ask(OpenAIChat(server.url))

    assert len(server.bodies) == 1


async def test_an_error_under_a_good_status_is_still_an_error() -> None:
    body = b'{"error": {"message": "too long", "code": "context_length_exceeded"}}'
    async with fake_openai(ScriptedResponse(steps=[body[:20], body[20:]])) as server:
        with pytest.raises(ContextOverflow):
            await ask(OpenAIChat(server.url))


@pytest.mark.req("PRV-4")
async def test_a_busy_server_is_asked_again_after_growing_pauses() -> None:
    naps = Naps()
    async with fake_openai(BUSY, BUSY, text_response("ok")) as server:
        found = await ask(patient(server.url, naps))

    assert found[0] == TextChunk("ok")
    assert naps.taken == [0.5, 1.0]
    assert server.bodies[0] == server.bodies[2]


@pytest.mark.req("PRV-4")
async def test_the_pause_the_server_asks_for_is_kept() -> None:
    naps = Naps()
    async with fake_openai(error_response(429, {}, retry_after="7"), text_response("ok")) as server:
        await ask(patient(server.url, naps))

    assert naps.taken == [7.5]


@pytest.mark.req("PRV-4")
async def test_a_server_that_stays_busy_is_given_up() -> None:
    naps = Naps()
    async with fake_openai(BUSY) as server:
        with pytest.raises(ProviderBusy, match="overloaded"):
            await ask(patient(server.url, naps))

    assert len(server.bodies) == 3


@pytest.mark.req("PRV-4")
async def test_a_server_that_says_busy_in_its_first_event_is_asked_again() -> None:
    naps = Naps()
    busy = ScriptedResponse(steps=[event({"error": {"message": "later", "code": 503}})])
    async with fake_openai(busy, text_response("ok")) as server:
        found = await ask(patient(server.url, naps))

    assert (found[0], len(server.bodies)) == (TextChunk("ok"), 2)


@pytest.mark.req("PRV-4")
async def test_a_server_that_says_busy_after_the_first_word_is_not_asked_again() -> None:
    busy = event({"error": {"message": "later", "code": 503}})
    async with fake_openai(ScriptedResponse(steps=[delta(content="a"), busy])) as server:
        with pytest.raises(StreamBroken, match="later"):
            await ask(patient(server.url, Naps()))

    assert len(server.bodies) == 1


@pytest.mark.req("PRV-2")
async def test_a_server_that_answers_in_one_piece_is_understood() -> None:
    message = {"role": "assistant", "content": "Hello"}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    async with fake_openai(ScriptedResponse(steps=[json.dumps(body).encode()])) as server:
        found = await ask(OpenAIChat(server.url, streaming=False))

    assert found == [TextChunk("Hello"), Finished(reason=StopReason.DONE)]
    assert "stream" not in server.requests[0]


async def test_a_pause_beyond_the_limit_is_left_to_the_caller() -> None:
    naps = Naps()
    async with fake_openai(error_response(429, {}, retry_after="3600")) as server:
        with pytest.raises(ProviderBusy) as caught:
            await ask(patient(server.url, naps))

    assert (naps.taken, caught.value.retry_after) == ([], 3600.0)


async def test_a_connection_dropped_before_the_answer_counts_as_busy() -> None:
    naps = Naps()
    async with fake_openai(ScriptedResponse(steps=[Disconnect()]), text_response("ok")) as server:
        found = await ask(patient(server.url, naps))

    assert found[0] == TextChunk("ok")
    assert len(naps.taken) == 1


@pytest.mark.req("PRV-4")
async def test_a_connection_lost_in_mid_answer_is_not_asked_again() -> None:
    async with fake_openai(ScriptedResponse(steps=[delta(content="par"), Disconnect()])) as server:
        provider = OpenAIChat(server.url)
        with anyio.fail_after(60):
            chunks = provider.stream(HELLO)
            assert await anext(chunks) == TextChunk("par")
            with pytest.raises(StreamBroken):
                await anext(chunks)
        await provider.aclose()

    assert len(server.bodies) == 1


@pytest.mark.req("PRV-4")
async def test_an_html_page_is_an_error_that_names_the_address() -> None:
    page = ScriptedResponse(
        steps=[b"<html>Welcome</html>"], content_type="text/html; charset=utf-8"
    )
    async with fake_openai(page) as server:
        provider = OpenAIChat(server.url)
        with pytest.raises(ProviderRejected, match=r"returned text/html.*ends in /v1"):
            await anext(provider.stream(HELLO))
        await provider.aclose()

    assert len(server.bodies) == 1


async def test_an_answer_without_an_end_is_broken() -> None:
    async with fake_openai(ScriptedResponse(steps=[delta(content="par")])) as server:
        with pytest.raises(StreamBroken):
            await ask(OpenAIChat(server.url))


async def test_the_end_marker_without_a_reason_is_an_end() -> None:
    async with fake_openai(ScriptedResponse(steps=[delta(content="all"), DONE])) as server:
        assert (await ask(OpenAIChat(server.url)))[-1] == Finished(reason=StopReason.DONE)


@pytest.mark.req("PRV-4")
@pytest.mark.parametrize("before", [[], [delta(content="par")]])
async def test_silence_is_given_up_after_the_idle_timeout(before: list[bytes]) -> None:
    async with fake_openai(ScriptedResponse(steps=[*before, Stall()])) as server:
        with pytest.raises(ProviderTimeout, match=r"0\.05 seconds"):
            await ask(OpenAIChat(server.url, idle_timeout=0.05))


@pytest.mark.req("PRV-3")
async def test_closing_early_hangs_up_at_once() -> None:
    async with fake_openai(ScriptedResponse(steps=[delta(content="a"), Stall()])) as server:
        provider = OpenAIChat(server.url)
        with anyio.fail_after(60):
            async with aclosing(provider.stream(HELLO)) as chunks:
                assert await anext(chunks) == TextChunk("a")
            await server.client_left.wait()
        await provider.aclose()


@pytest.mark.req("PRV-3")
async def test_cancelling_a_waiting_call_hangs_up_at_once() -> None:
    stall = Stall()
    async with fake_openai(ScriptedResponse(steps=[stall])) as server:
        provider = OpenAIChat(server.url)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anext, provider.stream(HELLO))
                await stall.reached.wait()
                tasks.cancel_scope.cancel()
            await server.client_left.wait()
        await provider.aclose()


async def test_one_connection_serves_call_after_call() -> None:
    async with fake_openai(text_response("a")) as server:
        provider = OpenAIChat(server.url)
        with anyio.fail_after(60):
            for _ in range(3):
                assert [chunk async for chunk in provider.stream(HELLO)]
        await provider.aclose()

    assert len(set(server.peers)) == 1


async def test_a_connection_that_stays_open_after_the_end_delays_nothing() -> None:
    answer = ScriptedResponse(steps=[delta("stop", content="a"), DONE, Stall()])
    async with fake_openai(answer) as server:
        found = await ask(OpenAIChat(server.url))

    assert found == [TextChunk("a"), Finished(reason=StopReason.DONE)]


@pytest.mark.req("PRV-8")
async def test_two_calls_at_once_never_mix() -> None:
    async with fake_openai(text_response("one", "one"), text_response("two", "two")) as server:
        provider = OpenAIChat(server.url)
        answers: list[set[str]] = []

        async def collect() -> None:
            found = [chunk async for chunk in provider.stream(HELLO)]
            answers.append({chunk.text for chunk in found if isinstance(chunk, TextChunk)})

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(collect)
                tasks.start_soon(collect)
        await provider.aclose()

    assert sorted(answers, key=str) == [{"one"}, {"two"}]


async def test_a_body_of_many_megabytes_is_sent_whole() -> None:
    async with fake_openai(text_response("ok")) as server:
        text = "x" * 3_000_000
        await ask(OpenAIChat(server.url), Request(model="m", messages=(user(text),)))

    assert server.requests[0]["messages"][0]["content"] == text


async def test_a_server_that_is_not_there_is_named() -> None:
    async with fake_openai() as server:
        url = server.url

    with pytest.raises(ProviderError, match="Check that the server is running") as caught:
        await ask(OpenAIChat(url))

    assert url.removesuffix("/v1") in str(caught.value)
    assert type(caught.value) is ProviderError


@pytest.mark.parametrize("url", ["api.example.org/v1", "", "ftp://x"])
async def test_an_invalid_address_is_rejected_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match="base URL"):
        OpenAIChat(url)


async def test_a_key_with_a_line_break_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigError, match="API key") as caught:
        OpenAIChat("http://127.0.0.1/v1", api_key="sk-a\nsk-b")

    assert "sk-" not in str(caught.value)


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_a_borrowed_client_is_left_open(client: aiohttp.ClientSession) -> None:
    async with fake_openai(text_response("ok")) as server:
        await ask(OpenAIChat(server.url, client=client))

    assert not client.closed


@pytest.mark.req("CTX-5")
async def test_configured_facts_win_over_the_catalogue() -> None:
    mine = ModelFacts(name="gpt-4o", window=9)
    provider = OpenAIChat("https://api.openai.com/v1", models={"gpt-4o": mine})

    assert provider.facts("gpt-4o") == mine
    assert provider.facts("gpt-5") == lookup("gpt-5")
    assert not provider.facts("else").known


@pytest.mark.parametrize(
    ("url", "limit", "key"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens", "prompt_cache_key"),
        ("https://x.openai.azure.com/openai/v1", "max_completion_tokens", "prompt_cache_key"),
        ("http://127.0.0.1:8080/v1", "max_tokens", ""),
        ("https://openai.com.example.org/v1", "max_tokens", ""),
    ],
)
async def test_openai_itself_has_fields_that_others_lack(url: str, limit: str, key: str) -> None:
    dialect = dialect_for(url)

    assert (dialect.limit_field, dialect.key_field) == (limit, key)


@pytest.mark.req("PRV-5")
async def test_a_search_on_the_web_is_switched_on() -> None:
    async with fake_openai(text_response("ok")) as server:
        provider = OpenAIChat(server.url, web_search=True)
        await ask(provider)
        plain = OpenAIChat(server.url)
        await ask(plain)

    assert isinstance(provider, SearchesWeb)
    assert (provider.web_tools, plain.web_tools) == (frozenset({"web_search"}), frozenset())
    assert server.requests[0]["web_search_options"] == {}
    assert "web_search_options" not in server.requests[1]


async def test_the_models_are_listed() -> None:
    body = b'{"object":"list","data":[{"id":"gpt-4o"},{"id":"local","max_model_len":99}]}'
    async with serve(ScriptedResponse(steps=[body], content_type="application/json")) as server:
        provider = OpenAIChat(f"{server.url}/v1")
        assert isinstance(provider, ListsModels)
        with anyio.fail_after(60):
            found = await provider.models()
        await provider.aclose()

    assert (server.methods, server.paths) == (["GET"], ["/v1/models"])
    assert [(each.name, each.window) for each in found] == [
        ("gpt-4o", lookup("gpt-4o").window),
        ("local", 99),
    ]


@pytest.mark.req("PRV-4")
async def test_a_closed_keep_alive_connection_is_retried() -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}'
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        writer.write(head.encode() + b"\r\n\r\n" + body)
        await writer.drain()
        writer.transport.abort()

    server = await asyncio.start_server(rude, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    provider = OpenAIChat(f"http://127.0.0.1:{port}/v1", retry=Retry(sleep=Naps()))
    try:
        with anyio.fail_after(60):
            for _ in range(5):
                found = [chunk async for chunk in provider.stream(HELLO)]
                assert found[-2] == TextChunk("ok")
    finally:
        await provider.aclose()
        server.close()


@pytest.mark.req("PRV-2")
async def test_a_connection_is_used_again_by_those_who_stop_at_the_end() -> None:
    async with fake_openai(text_response("a"), text_response("b"), text_response("c")) as server:
        provider = OpenAIChat(server.url)
        for _ in range(3):
            async with aclosing(provider.stream(HELLO)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, Finished):
                        break
        await provider.aclose()

    assert len(set(server.peers)) == 1


async def test_closing_a_provider_ends_what_is_under_way() -> None:
    stall = Stall()
    async with fake_openai(ScriptedResponse(steps=[delta(content="a"), stall])) as server:
        provider = OpenAIChat(server.url)

        async def read() -> None:
            with pytest.raises(StreamBroken):
                await ask(provider)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read)
                await stall.reached.wait()
                await provider.aclose()


# The first loop ends with a connection open, as it does when people forget to close.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_provider_may_be_used_in_a_second_event_loop() -> None:
    async def once(provider: OpenAIChat) -> list[Chunk]:
        async with fake_openai(text_response("ok")) as server:
            provider.transport.endpoint = replace(provider.transport.endpoint, base_url=server.url)
            return [chunk async for chunk in provider.stream(HELLO)]

    provider = OpenAIChat("http://127.0.0.1:1/v1")
    assert anyio.run(once, provider)[0] == anyio.run(once, provider)[0] == TextChunk("ok")
    del provider
    gc.collect()


async def test_a_borrowed_client_that_raises_for_a_status_changes_nothing() -> None:
    naps = Naps()
    async with (
        aiohttp.ClientSession(raise_for_status=True) as client,
        fake_openai(BUSY, text_response("ok")) as server,
    ):
        found = await ask(OpenAIChat(server.url, client=client, retry=Retry(sleep=naps)))

    assert (found[0], len(naps.taken)) == (TextChunk("ok"), 1)


@pytest.mark.parametrize(
    "base_url", ["http://user:hunter2hunter2@127.0.0.1:1/v1", "user:hunter2hunter2@nonsense"]
)
async def test_a_password_in_the_address_is_not_shown(base_url: str) -> None:
    try:
        provider = OpenAIChat(base_url, headers={"x-api-key": "topsecretkey"})
        shown = f"{provider!r} {provider.transport!r} {provider.transport.endpoint!r}"
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
        shown += str(caught.value)
    except ConfigError as error:
        shown = str(error)

    assert "hunter2" not in shown
    assert "topsecretkey" not in shown


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(TypeError, match="OpenAIChat has no option timeout"):
        OpenAIChat("http://127.0.0.1:1/v1", timeout=1)  # type: ignore[call-arg]


@pytest.mark.req("PRV-2")
@pytest.mark.parametrize(
    "rest", [Disconnect(), event({"error": {"message": "late", "code": 500}})], ids=["cut", "error"]
)
async def test_what_happens_to_the_line_after_a_complete_answer_changes_nothing(
    rest: ResponseStep,
) -> None:
    async with fake_openai(
        ScriptedResponse(steps=[delta(content="ok"), delta("stop"), rest])
    ) as server:
        found = await ask(OpenAIChat(server.url))

    assert found == [TextChunk("ok"), Finished(reason=StopReason.DONE)]
