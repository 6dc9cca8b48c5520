"""The adapter for Anthropic against a server on loopback; the contract itself is shared."""

import json
from typing import Any

import anyio
import pytest

from clew.core.errors import ConfigError, ProviderDenied, ProviderError, StreamBroken
from clew.core.messages import assistant, user
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.anthropic import BASE_URL, Anthropic
from clew.providers.protocol import (
    Chunk,
    CountsTokens,
    Finished,
    ListsModels,
    Provider,
    Request,
    SearchesWeb,
    StopReason,
    TextChunk,
    UsageChunk,
)
from clew.providers.retry import Retry
from clew.testing.fake_apis.anthropic import FakeMessagesApi
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.server import FakeServer, ScriptedResponse, serve

pytestmark = pytest.mark.anyio

VOICE = FakeMessagesApi()
HELLO = Request(model="m", messages=(user("hi"),))
SAID = ModelReply(
    words=("Hel", "lo"),
    usage=Usage(input_tokens=50, output_tokens=7, cache_read_tokens=30, cache_write_tokens=5),
)
OK = ScriptedResponse(steps=VOICE.stream(SAID))
OVERLOADED = (
    b"event: error\n"
    b'data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
)


def at(server: FakeServer, **options: Any) -> Anthropic:
    return Anthropic("sk-ant-api03-secret", base_url=f"{server.url}/v1", **options)


async def ask(provider: Provider, request: Request = HELLO) -> list[Chunk]:
    with anyio.fail_after(60):
        try:
            return [chunk async for chunk in provider.stream(request)]
        finally:
            await provider.aclose()


async def asked(request: Request = HELLO, **options: Any) -> dict[str, Any]:
    """Return the body that a provider with these options sends."""
    async with serve(OK) as server:
        await ask(at(server, **options), request)
    return server.requests[0]


async def naps(seconds: float) -> None:
    """Pause for no time at all."""


@pytest.mark.req("PRV-1", "PRV-2")
async def test_an_answer_streams_in_with_what_it_consumed() -> None:
    async with serve(OK) as server:
        found = await ask(at(server))

    assert server.paths == ["/v1/messages"]
    assert found == [
        UsageChunk(
            Usage(input_tokens=50, output_tokens=1, cache_read_tokens=30, cache_write_tokens=5)
        ),
        TextChunk("Hel"),
        TextChunk("lo"),
        UsageChunk(SAID.usage),
        Finished(reason=StopReason.DONE, usage=SAID.usage),
    ]


async def test_an_answer_may_be_asked_for_in_one_piece() -> None:
    async with serve(
        ScriptedResponse(steps=[VOICE.whole(SAID)], content_type="application/json")
    ) as server:
        found = await ask(at(server, streaming=False))

    assert found == [TextChunk("Hello"), Finished(reason=StopReason.DONE, usage=SAID.usage)]
    assert "stream" not in server.requests[0]


async def test_the_key_goes_where_anthropic_looks_for_it_and_is_never_shown() -> None:
    failure = VOICE.error(401, "invalid x-api-key: sk-ant-api03-secret")
    async with serve(ScriptedResponse(steps=[failure], status=401)) as server:
        provider = at(server, headers={"X-Team": "blue"})
        with pytest.raises(ProviderDenied) as caught:
            await ask(provider)

    sent = server.headers[0]
    assert (sent["x-api-key"], sent["anthropic-version"]) == ("sk-ant-api03-secret", "2023-06-01")
    assert sent["X-Team"] == "blue"
    assert "Authorization" not in sent
    assert "anthropic-beta" not in sent
    assert "secret" not in f"{caught.value}{provider!r}{provider.transport!r}"


async def test_an_access_token_is_a_bearer_token() -> None:
    async with serve(OK) as server:
        await ask(Anthropic("sk-ant-oat01-x\n", base_url=f"{server.url}/v1"))

    sent = server.headers[0]
    assert sent["Authorization"] == "Bearer sk-ant-oat01-x"
    assert sent["anthropic-beta"] == "oauth-2025-04-20"
    assert "x-api-key" not in sent


async def test_features_are_asked_for_in_one_header() -> None:
    async with serve(OK) as server:
        provider = at(
            server, beta=["a", "b"], headers={"Anthropic-Beta": "c"}, web_fetch={"max_uses": 1}
        )
        await ask(provider)

    asked_for = [v for k, v in server.headers[0].items() if k.lower() == "anthropic-beta"]
    assert asked_for == ["web-fetch-2025-09-10,a,b,c"]


@pytest.mark.req("PRV-5")
async def test_the_model_searches_and_reads_the_web_if_it_may() -> None:
    found = await asked(web_search=True, web_fetch={"max_uses": 3, "type": "web_fetch_20260318"})

    assert found["tools"] == [
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "web_fetch_20260318", "name": "web_fetch", "max_uses": 3},
    ]
    assert "tools" not in await asked()


@pytest.mark.req("PRV-5")
async def test_a_request_may_say_itself_how_to_search() -> None:
    own = {"type": "web_search_20260318", "name": "web_search"}

    found = await asked(
        Request(model="m", messages=(user("hi"),), native_tools=(own,)), web_search=True
    )

    assert found["tools"] == [own]


@pytest.mark.req("PRV-5")
async def test_it_can_be_asked_what_it_can_do() -> None:
    plain, searching = Anthropic("k"), Anthropic("k", web_search={})

    assert isinstance(plain, CountsTokens)
    assert isinstance(plain, ListsModels)
    assert isinstance(plain, SearchesWeb)
    assert not plain.web_tools
    assert searching.web_tools == frozenset({"web_search"})
    assert plain.transport.endpoint.base_url == BASE_URL


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
async def test_an_address_is_understood_with_and_without_its_version(end: str) -> None:
    async with serve(OK) as server:
        await ask(Anthropic("k", base_url=f"{server.url}/gateway{end}"))

    assert server.paths == ["/gateway/v1/messages"]


@pytest.mark.parametrize("url", ["", "api.anthropic.com"])
async def test_an_invalid_address_is_rejected_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match="base URL"):
        Anthropic("k", base_url=url)


async def test_a_limit_is_always_sent_because_the_api_wants_one() -> None:
    mine = {"m": ModelFacts(name="m", max_output=123)}
    limited = Request(model="m", messages=(user("hi"),), max_output_tokens=5)

    assert (await asked(models=mine))["max_tokens"] == 123
    assert (await asked(limited, models=mine))["max_tokens"] == 5
    assert (await asked(options={"max_tokens": 7}))["max_tokens"] == 7


async def test_thinking_gets_its_room_below_what_the_model_can_say() -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 9_000}}
    limited = Request(model="m", messages=(user("hi"),), max_output_tokens=1_000)
    mine = {"m": ModelFacts(name="m", max_output=8_000)}

    found = await asked(limited, options=thinking, models=mine)

    assert (found["max_tokens"], found["thinking"]["budget_tokens"]) == (8_000, 7_000)


@pytest.mark.req("PRV-6")
async def test_requests_are_marked_unless_that_is_switched_off() -> None:
    mark = {"type": "ephemeral"}
    hour = {"type": "ephemeral", "ttl": "1h"}

    def last(found: dict[str, Any]) -> object:
        return found["messages"][-1]["content"][-1].get("cache_control")

    assert last(await asked()) == mark
    assert last(await asked(cache="1h")) == hour
    assert last(await asked(cache="5m")) == mark
    assert last(await asked(cache=False)) is None


@pytest.mark.req("PRV-6")
async def test_the_next_request_begins_with_the_bytes_of_the_last() -> None:
    async with serve(OK) as server:
        provider = at(server, cache=False)
        history = (user("a"), assistant("b"), user("c"), assistant("d"), user("e"))
        with anyio.fail_after(60):
            for end in (1, 3, 5):
                request = Request(model="m", messages=history[:end], system="s")
                assert [chunk async for chunk in provider.stream(request)]
        await provider.aclose()

    first, second, third = server.bodies
    assert second.startswith(first.removesuffix(b"]}"))
    assert third.startswith(second.removesuffix(b"]}"))


@pytest.mark.req("PRV-4")
async def test_an_overload_before_the_first_word_is_tried_again() -> None:
    begun = VOICE.stream(SAID)[:2]
    async with serve(ScriptedResponse(steps=[*begun, OVERLOADED]), OK) as server:
        found = await ask(at(server, retry=Retry(sleep=naps)))

    assert len(server.bodies) == 2
    assert found[-1] == Finished(reason=StopReason.DONE, usage=SAID.usage)


@pytest.mark.req("PRV-4")
async def test_an_overload_in_the_middle_of_an_answer_ends_it() -> None:
    begun = VOICE.stream(SAID)[:4]
    async with serve(ScriptedResponse(steps=[*begun, OVERLOADED])) as server:
        with pytest.raises(StreamBroken, match="Overloaded"):
            await ask(at(server, retry=Retry(sleep=naps)))

    assert len(server.bodies) == 1


async def test_tokens_are_counted_by_the_server() -> None:
    async with serve(ScriptedResponse(steps=[b'{"input_tokens":14}'])) as server:
        provider = at(server, web_search=True)
        with anyio.fail_after(60):
            assert await provider.count_tokens(HELLO) == 14
        await provider.aclose()

    assert server.paths == ["/v1/messages/count_tokens"]
    assert server.requests == [
        {
            "model": "m",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        }
    ]


async def test_models_are_listed_page_by_page_with_reported_facts() -> None:
    blind = {"image_input": {"supported": False}}
    first = {
        "data": [
            {
                "id": "claude-new",
                "max_input_tokens": 500_000,
                "max_tokens": 9_000,
                "capabilities": blind,
            }
        ],
        "has_more": True,
        "last_id": "claude new",
    }
    last = {"data": [{"id": "claude-haiku-4-5", "display_name": "x"}, {"id": "else"}]}
    pages = [ScriptedResponse(steps=[json.dumps(page).encode()]) for page in (first, last)]
    async with serve(*pages) as server:
        provider = at(server)
        with anyio.fail_after(60):
            found = await provider.models()
        await provider.aclose()

    assert server.methods == ["GET", "GET"]
    assert server.paths == [
        "/v1/models?limit=1000",
        "/v1/models?limit=1000&after_id=claude%20new",
    ]
    assert found == [
        ModelFacts(name="claude-new", window=500_000, max_output=9_000, sees=False),
        provider.facts("claude-haiku-4-5"),
        provider.facts("else"),
    ]


async def test_an_unexpected_response_is_an_error() -> None:
    async with serve(ScriptedResponse(steps=[b"<html>"])) as server:
        provider = at(server)
        with anyio.fail_after(60), pytest.raises(ProviderError, match="base URL"):
            await provider.models()
        await provider.aclose()
