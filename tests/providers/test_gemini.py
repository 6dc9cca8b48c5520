import json
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.errors import (
    ContextOverflow,
    ProviderBusy,
    ProviderDenied,
    ProviderError,
    StreamBroken,
)
from clew.core.ids import CallId
from clew.core.messages import Message, ToolCall, tool_result, user
from clew.core.models import ModelFacts, ToolSpec
from clew.core.usage import Usage
from clew.providers.gemini import Gemini, Vertex
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import (
    Chunk,
    CountsTokens,
    Finished,
    ListsModels,
    Provider,
    Request,
    RetryChunk,
    SearchesWeb,
    StopReason,
    TextChunk,
    UsageChunk,
)
from clew.providers.retry import Retry
from clew.providers.wire.gemini.encode import encode, message_cache
from clew.testing.fake_apis.gemini import FakeGeminiApi
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.server import FakeServer, ScriptedResponse, Stall, serve

pytestmark = pytest.mark.anyio

VOICE = FakeGeminiApi()
READER = ReasoningReader("gemini", Echoes.OWN_ISSUED)
HELLO = Request(model="gemini-3-pro", messages=(user("hi"),))
TOOL = ToolSpec(name="Read", description="Reads.", schema={"type": "object"})
READ = ToolCall(call_id=CallId("a1b2"), name="Read", arguments='{"path" :"ä"}')


class Naps:
    """Counts the pauses instead of making them."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


def patient() -> Retry:
    return Retry(sleep=Naps(), random=lambda: 1.0)


def says(*words: str) -> ScriptedResponse:
    return ScriptedResponse(steps=VOICE.stream(ModelReply(words=words)))


def tells(document: object, status: int = 200) -> ScriptedResponse:
    body = json.dumps(document).encode()
    return ScriptedResponse(steps=[body], status=status, content_type="application/json")


def fails(status: int, message: str) -> ScriptedResponse:
    return ScriptedResponse(steps=[VOICE.error(status, message)], status=status)


def body_of(server: FakeServer, place: int = -1) -> dict[str, Any]:
    return server.requests[place]


async def ask(provider: Provider, request: Request = HELLO) -> list[Chunk]:
    """Return the chunks of the answer."""
    with anyio.fail_after(60):
        try:
            chunks = [chunk async for chunk in provider.stream(request)]
            return [chunk for chunk in chunks if not isinstance(chunk, RetryChunk)]
        finally:
            await provider.aclose()


def assembled(chunks: list[Chunk]) -> Message:
    assembly = MessageBuilder(provenance="gemini")
    for chunk in chunks:
        assembly.add(chunk)
    return assembly.message()


@pytest.mark.req("PRV-1", "PRV-2")
async def test_an_answer_streams_in_and_ends_once() -> None:
    async with serve(says("Hel", "lo")) as server:
        found = await ask(Gemini("k", base_url=server.url))

    assert found == [
        TextChunk("Hel"),
        UsageChunk(Usage(input_tokens=10)),
        TextChunk("lo"),
        Finished(reason=StopReason.DONE, usage=Usage(input_tokens=10, output_tokens=5)),
    ]
    assert server.paths == ["/models/gemini-3-pro:streamGenerateContent?alt=sse"]
    assert body_of(server) == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


@pytest.mark.req("PRV-2")
async def test_an_answer_may_be_asked_for_in_one_piece() -> None:
    reply = ModelReply(thoughts=("hm",), words=("Hello",), signature="s")
    whole = ScriptedResponse(steps=[VOICE.whole(reply)], content_type="application/json")
    async with serve(whole) as server:
        found = await ask(Gemini(base_url=server.url, streaming=False))

    assert assembled(found).text == "Hello"
    assert server.paths == ["/models/gemini-3-pro:generateContent"]


async def test_a_stream_that_comes_as_a_list_is_understood() -> None:
    document = [
        {"candidates": [{"content": {"parts": [{"text": "a"}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "b"}]}, "finishReason": "STOP"}]},
    ]
    async with serve(tells(document)) as server:
        found = await ask(Gemini(base_url=server.url))

    assert found == [TextChunk("a"), TextChunk("b"), Finished(reason=StopReason.DONE)]


@pytest.mark.req("RSN-1")
async def test_a_call_and_its_signature_go_back_as_they_came() -> None:
    reply = ModelReply(thoughts=("hm",), words=("I read.",), calls=(READ,), signature="c2ln")
    async with serve(ScriptedResponse(steps=VOICE.stream(reply)), says("done")) as server:
        provider = Gemini(base_url=server.url)
        with anyio.fail_after(60):
            first = assembled([chunk async for chunk in provider.stream(HELLO)])
        messages = (user("hi"), first, tool_result(first.calls[0], "text"))
        await ask(provider, Request(model="gemini-3-pro", messages=messages))

    assert first.calls[0].arguments == READ.arguments
    _, model, result = body_of(server)["contents"]
    assert model["parts"] == [
        {"text": "I read."},
        {
            "functionCall": {"id": "a1b2", "name": "Read", "args": {"path": "ä"}},
            "thoughtSignature": "c2ln",
        },
    ]
    assert result["parts"] == [
        {"functionResponse": {"id": "a1b2", "name": "Read", "response": {"output": "text"}}}
    ]
    assert READ.arguments.encode() in server.bodies[-1]


@pytest.mark.parametrize(
    "reply",
    [
        ModelReply(
            words=("a", "b"), usage=Usage(input_tokens=9, output_tokens=2, cache_read_tokens=4)
        ),
        ModelReply(thoughts=("h", "m"), words=("a",), signature="c2ln"),
        ModelReply(thoughts=("hm",), signature="c2ln"),
        ModelReply(calls=(READ,), signature="c2ln"),
        ModelReply(words=("a",), reason=StopReason.LENGTH),
        ModelReply(reason=StopReason.REFUSED),
    ],
)
async def test_a_reply_says_the_same_streamed_and_whole(reply: ModelReply) -> None:
    whole = ScriptedResponse(steps=[VOICE.whole(reply)], content_type="application/json")
    async with serve(ScriptedResponse(steps=VOICE.stream(reply)), whole) as server:
        streamed = await ask(Gemini(base_url=server.url))
        at_once = await ask(Gemini(base_url=server.url, streaming=False))

    one, other = assembled(streamed), assembled(at_once)
    assert streamed[-1] == at_once[-1]
    assert isinstance(streamed[-1], Finished)
    assert streamed[-1].usage == reply.usage
    assert one.text == other.text == "".join(reply.words)
    for message in (one, other):
        body = encode(Request(model="m", messages=(message,)), message_cache(READER))
        assert body.count(b'"thoughtSignature":"c2ln"') == bool(reply.signature)
        assert [call.arguments for call in message.calls] == [c.arguments for c in reply.calls]


async def test_the_key_is_sent_in_its_own_header_and_never_shown() -> None:
    async with serve(fails(400, "API key not valid: AIza-secret")) as server:
        provider = Gemini("AIza-secret", base_url=server.url)
        with pytest.raises(ProviderDenied) as caught:
            await ask(provider)

    assert server.headers[0]["x-goog-api-key"] == "AIza-secret"
    assert "Authorization" not in server.headers[0]
    assert "secret" not in f"{caught.value}{provider!r}{server.paths}"


@pytest.mark.req("PRV-4")
async def test_a_busy_server_is_asked_again() -> None:
    async with serve(fails(503, "overloaded"), says("ok")) as server:
        found = await ask(Gemini(base_url=server.url, retry=patient()))

    assert (found[0], len(server.bodies)) == (TextChunk("ok"), 2)


@pytest.mark.req("PRV-4")
async def test_a_model_that_botched_its_call_is_asked_again() -> None:
    botched = tells({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]})
    async with serve(botched, says("ok")) as server:
        found = await ask(Gemini(base_url=server.url, retry=patient()))

    assert (found[0], len(server.bodies)) == (TextChunk("ok"), 2)


@pytest.mark.req("PRV-4")
async def test_a_call_botched_after_the_first_word_is_not_asked_for_again() -> None:
    *first, _ = VOICE.stream(ModelReply(words=("a", "b")))
    end = b'data: {"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}\n\n'
    async with serve(ScriptedResponse(steps=[*first, end])) as server:
        with pytest.raises(StreamBroken, match="tool call"):
            await ask(Gemini(base_url=server.url, retry=patient()))

    assert len(server.bodies) == 1


@pytest.mark.req("CMP-9")
async def test_a_conversation_that_is_too_long_is_an_overflow() -> None:
    message = "The input token count (1250074) exceeds the maximum number of tokens allowed (9)."
    async with serve(tells([{"error": {"code": 400, "message": message}}], 400)) as server:
        with pytest.raises(ContextOverflow):
            await ask(Gemini(base_url=server.url))


@pytest.mark.req("PRV-4")
async def test_a_server_that_stays_busy_is_given_up() -> None:
    async with serve(fails(429, "quota")) as server:
        with pytest.raises(ProviderBusy, match="quota"):
            await ask(Gemini(base_url=server.url, retry=patient()))

    assert len(server.bodies) == 3


@pytest.mark.req("PRV-3")
async def test_closing_early_hangs_up_at_once() -> None:
    first, *_ = VOICE.stream(ModelReply(words=("a", "b")))
    async with serve(ScriptedResponse(steps=[first, Stall()])) as server:
        provider = Gemini(base_url=server.url)
        with anyio.fail_after(60):
            async with aclosing(provider.stream(HELLO)) as chunks:
                assert await anext(chunks) == TextChunk("a")
            await server.client_left.wait()
        await provider.aclose()


@pytest.mark.req("PRV-8")
async def test_two_calls_at_once_never_mix() -> None:
    async with serve(says("one", "one"), says("two", "two")) as server:
        provider = Gemini(base_url=server.url)
        answers: list[str] = []

        async def collect() -> None:
            answers.append(assembled([chunk async for chunk in provider.stream(HELLO)]).text)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(collect)
                tasks.start_soon(collect)
        await provider.aclose()

    assert sorted(answers) == ["oneone", "twotwo"]


async def test_a_request_is_counted_without_being_answered() -> None:
    async with (
        serve(tells({"totalTokens": 61})) as server,
        aclosing(Gemini(base_url=server.url)) as provider,
    ):
        counting: CountsTokens = provider
        with anyio.fail_after(60):
            assert await counting.count_tokens(HELLO) == 61

    assert server.paths == ["/models/gemini-3-pro:countTokens"]
    assert body_of(server)["generateContentRequest"] == {
        "model": "models/gemini-3-pro",
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }


async def test_an_unexpected_token_count_is_an_error() -> None:
    async with (
        serve(tells({"else": 1})) as server,
        aclosing(Gemini(base_url=server.url)) as provider,
    ):
        with anyio.fail_after(60), pytest.raises(ProviderError, match="base URL"):
            await provider.count_tokens(HELLO)


async def test_the_models_are_listed_page_by_page() -> None:
    talks = {"supportedGenerationMethods": ["generateContent", "countTokens"]}
    limits = {"inputTokenLimit": 1_000, "outputTokenLimit": 100}
    pages = (
        {
            "models": [
                {"name": "models/gemini-9", **limits, **talks},
                {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
            ],
            "nextPageToken": "a+b=",
        },
        {"models": [{"name": "models/mine", **talks}]},
    )
    mine = ModelFacts(name="mine", window=7)
    async with (
        serve(*map(tells, pages)) as server,
        aclosing(Gemini(base_url=server.url, models={"mine": mine})) as provider,
    ):
        listing: ListsModels = provider
        with anyio.fail_after(60):
            found = await listing.models()

    assert [(each.name, each.window, each.max_output, each.known) for each in found] == [
        ("gemini-9", 1_000, 100, True),
        ("mine", 7, mine.max_output, True),
    ]
    assert server.methods == ["GET", "GET"]
    assert server.paths == ["/models?pageSize=1000", "/models?pageSize=1000&pageToken=a%2Bb%3D"]


@pytest.mark.req("PRV-5")
async def test_the_web_is_switched_on_beside_functions() -> None:
    request = Request(
        model="gemini-3-pro",
        messages=(user("hi"),),
        tools=(TOOL,),
        options={"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
    )
    async with serve(says("ok")) as server:
        provider = Gemini(base_url=server.url, google_search=True, url_context=True)
        searching: SearchesWeb = provider
        await ask(provider, request)

    assert searching.web_tools == {"web_search", "web_fetch"}
    assert [list(tool) for tool in body_of(server)["tools"]] == [
        ["googleSearch"],
        ["urlContext"],
        ["functionDeclarations"],
    ]
    assert body_of(server)["toolConfig"] == {
        "includeServerSideToolInvocations": True,
        "functionCallingConfig": {"mode": "ANY"},
    }


@pytest.mark.req("PRV-5")
async def test_a_tool_of_googles_own_is_asked_for_once_and_alone() -> None:
    search: dict[str, Any] = {"googleSearch": {}}
    request = Request(model="gemini-3-pro", messages=(user("hi"),), native_tools=(search,))
    async with serve(says("ok")) as server:
        provider = Gemini(base_url=server.url, google_search=True)
        await ask(provider, request)

    assert body_of(server)["tools"] == [search]
    assert "toolConfig" not in body_of(server)
    assert Gemini().web_tools == frozenset()


async def test_options_of_the_adapter_hold_for_every_request() -> None:
    settings = {"thinkingConfig": {"includeThoughts": True}}
    async with serve(says("ok")) as server:
        provider = Gemini(base_url=server.url, options={"generationConfig": settings})
        await ask(provider, Request(model="m", messages=(user("hi"),), max_output_tokens=5))

    assert body_of(server)["generationConfig"] == {"maxOutputTokens": 5, **settings}


async def test_a_model_may_be_named_by_its_path() -> None:
    async with serve(says("ok")) as server:
        request = Request(model="tunedModels/my own", messages=(user("hi"),))
        await ask(Gemini(base_url=server.url), request)

    assert server.paths == ["/tunedModels/my%20own:streamGenerateContent?alt=sse"]


@pytest.mark.req("PRV-1")
async def test_vertex_is_asked_on_behalf_of_a_project_with_a_fresh_token() -> None:
    tokens = iter(["t1", "t2"])
    request = Request(model="gemini-3-pro", messages=(user("hi"),), tools=(TOOL,))
    async with serve(fails(503, "later"), says("ok")) as server:
        provider = Vertex(
            "p",
            "europe-west4",
            token=lambda: next(tokens),
            base_url=f"{server.url}/v1/",
            google_search=True,
            retry=patient(),
        )
        found = await ask(provider, request)

    assert found[0] == TextChunk("ok")
    assert server.paths[0] == (
        "/v1/projects/p/locations/europe-west4/publishers/google/models/gemini-3-pro"
        ":streamGenerateContent?alt=sse"
    )
    assert [each["Authorization"] for each in server.headers] == ["Bearer t1", "Bearer t2"]
    assert body_of(server)["tools"][0] == {"googleSearch": {}}
    assert "toolConfig" not in body_of(server)


async def test_vertex_counts_without_unsupported_fields() -> None:
    options = {"labels": {"a": "b"}, "generationConfig": {"topP": 1}}
    request = Request(model="gemini-3-pro", messages=(user("hi"),), options=options)
    async with (
        serve(tells({"totalTokens": 7})) as server,
        aclosing(Vertex("p", token=lambda: "t", base_url=server.url)) as provider,
    ):
        with anyio.fail_after(60):
            assert await provider.count_tokens(request) == 7

    assert server.paths[0].endswith("/publishers/google/models/gemini-3-pro:countTokens")
    assert body_of(server) == {
        "generationConfig": {"topP": 1},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("global", "https://aiplatform.googleapis.com/v1/projects/p/locations/global"),
        ("us-east5", "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5"),
    ],
)
async def test_vertex_is_where_its_location_says(location: str, address: str) -> None:
    provider = Vertex("p", location, token=lambda: "t")

    assert provider.transport.endpoint.base_url == address
    assert not isinstance(provider, ListsModels)
