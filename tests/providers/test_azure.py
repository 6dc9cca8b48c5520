import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from clew.core.errors import ConfigError, ProviderRejected
from clew.core.messages import user
from clew.core.usage import Usage
from clew.providers.azure import AzureOpenAI
from clew.providers.protocol import Chunk, Finished, Request, StopReason, TextChunk
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.fake_apis.responses import FakeResponsesApi
from clew.testing.server import ScriptedResponse, serve

pytestmark = pytest.mark.anyio

VOICE = FakeResponsesApi()
HELLO = Request(model="gpt-5", messages=(user("hi"),), max_output_tokens=9)
FILTERS = {"hate": {"filtered": False, "severity": "safe"}}


def event(**payload: object) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def delta(finish_reason: str | None = None, **fields: object) -> bytes:
    choice = {"index": 0, "delta": fields, "finish_reason": finish_reason}
    return event(choices=[{**choice, "content_filter_results": FILTERS}])


CHAT = ScriptedResponse(
    steps=[
        event(
            choices=[],
            prompt_filter_results=[{"prompt_index": 0, "content_filter_results": FILTERS}],
        ),
        delta(role="assistant", content=""),
        delta(content="Hello"),
        delta("stop"),
        event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 1}),
        b"data: [DONE]\n\n",
    ]
)
RESPONSES = ScriptedResponse(steps=VOICE.stream(ModelReply(words=("Hello",))))


async def ask(provider: AzureOpenAI, request: Request = HELLO) -> list[Chunk]:
    with anyio.fail_after(60):
        try:
            return [chunk async for chunk in provider.stream(request)]
        finally:
            await provider.aclose()


def words(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))


@pytest.mark.req("PRV-1")
@pytest.mark.parametrize(
    ("settings", "path", "model"),
    [
        ({}, "/openai/v1/responses", "gpt-5"),
        ({"deployment": "mine"}, "/openai/v1/responses", "mine"),
        ({"api_version": "preview"}, "/openai/v1/responses?api-version=preview", "gpt-5"),
        (
            {"api_version": "2025-04-01-preview"},
            "/openai/responses?api-version=2025-04-01-preview",
            "gpt-5",
        ),
        ({"api": "chat"}, "/openai/v1/chat/completions", "gpt-5"),
        (
            {"api": "chat", "api_version": "2024-10-21"},
            "/openai/deployments/gpt-5/chat/completions?api-version=2024-10-21",
            "gpt-5",
        ),
        (
            {"api": "chat", "api_version": "2024-10-21", "deployment": "mine"},
            "/openai/deployments/mine/chat/completions?api-version=2024-10-21",
            "mine",
        ),
    ],
)
async def test_each_surface_has_its_address(settings: Any, path: str, model: str) -> None:
    answer = CHAT if settings.get("api") == "chat" else RESPONSES
    async with serve(answer) as server:
        found = await ask(AzureOpenAI(server.url, api_key="k", **settings))

    assert words(found) == "Hello"
    assert server.paths == [path]
    assert server.requests[0]["model"] == model
    assert server.headers[0]["api-key"] == "k"
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize("ending", ["", "/", "/openai", "/openai/", "/openai/v1/"])
async def test_the_endpoint_may_be_given_as_azure_shows_it(ending: str) -> None:
    async with serve(RESPONSES) as server:
        await ask(AzureOpenAI(server.url + ending))

    assert server.paths == ["/openai/v1/responses"]


def fresh() -> Callable[[], str]:
    tokens = iter(["one", "two"])
    return lambda: next(tokens)


async def test_every_request_has_a_fresh_token() -> None:
    async with serve(RESPONSES) as server:
        provider = AzureOpenAI(server.url, token=fresh())
        with anyio.fail_after(60):
            for _ in range(2):
                assert [chunk async for chunk in provider.stream(HELLO)]
        await provider.aclose()

    assert [sent["Authorization"] for sent in server.headers] == ["Bearer one", "Bearer two"]
    assert all("api-key" not in sent for sent in server.headers)


async def test_the_results_of_the_filter_are_no_part_of_a_chat() -> None:
    async with serve(CHAT) as server:
        found = await ask(AzureOpenAI(server.url, api="chat"))

    usage = Usage(input_tokens=3, output_tokens=1)
    assert words(found) == "Hello"
    assert found[-1] == Finished(reason=StopReason.DONE, usage=usage)
    assert server.requests[0]["max_completion_tokens"] == 9
    assert "max_tokens" not in server.requests[0]


async def test_a_chat_that_the_filter_cuts_is_refused() -> None:
    cut = ScriptedResponse(
        steps=[delta(content="He"), delta("content_filter"), b"data: [DONE]\n\n"]
    )
    async with serve(cut) as server:
        found = await ask(AzureOpenAI(server.url, api="chat"))

    assert isinstance(found[-1], Finished)
    assert found[-1].reason is StopReason.REFUSED


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_prompt_that_the_filter_rejects_is_not_sent_again(api: Any) -> None:
    error = {
        "code": "content_filter",
        "message": "The response was filtered due to the prompt triggering the policy.",
        "param": "prompt",
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": FILTERS},
    }
    answer = ScriptedResponse(steps=[json.dumps({"error": error}).encode()], status=400)
    async with serve(answer) as server:
        with pytest.raises(ProviderRejected, match="triggering the policy") as caught:
            await ask(AzureOpenAI(server.url, api=api))

    assert (type(caught.value), len(server.bodies)) == (ProviderRejected, 1)


async def test_the_two_apis_are_families_of_their_own() -> None:
    endpoint = "https://mine.openai.azure.com"

    assert AzureOpenAI(endpoint).name == "azure"
    assert AzureOpenAI(endpoint, api="chat").name == "azure_chat"


async def test_settings_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ConfigError, match="or a token"):
        AzureOpenAI("https://a.openai.azure.com", api_key="k", token=lambda: "t")
    with pytest.raises(ConfigError, match="'chat'"):
        AzureOpenAI("https://a.openai.azure.com", api="completions")  # type: ignore[arg-type]
