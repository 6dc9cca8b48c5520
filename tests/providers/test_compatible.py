"""Servers with a profile: what each is told, and what each tells."""

import json

import anyio
import pytest
from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningPolicy
from clew.core.errors import ConfigError, ProviderError
from clew.core.ids import CallId
from clew.core.messages import Reasoning, ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts, ToolSpec
from clew.providers.catalogue import lookup
from clew.providers.compatible import Compatible
from clew.providers.profiles import PROFILES, Profile, find_profile
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    ListsModels,
    Provider,
    ReasoningChunk,
    ReportsWindow,
    Request,
    SearchesWeb,
    TextChunk,
)
from clew.providers.wire.chat import model_list
from clew.providers.wire.chat.dialect import ReasoningField
from clew.testing.fake_apis.chat import FakeChatApi
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.server import FakeServer, ScriptedResponse, serve

pytestmark = pytest.mark.anyio

HELLO = Request(model="m", messages=(user("hi"),))
READ = ToolCall(call_id=CallId("c1"), name="Read", arguments="{}")
OK = ScriptedResponse(steps=FakeChatApi().stream(ModelReply(words=("ok",))))


def document(body: object) -> ScriptedResponse:
    return ScriptedResponse(steps=[json.dumps(body).encode()], content_type="application/json")


MISSING = ScriptedResponse(steps=[b'{"error":"not found"}'], status=404)


async def ask(provider: Provider, request: Request = HELLO) -> list[Chunk]:
    with anyio.fail_after(60):
        try:
            return [chunk async for chunk in provider.stream(request)]
        finally:
            await provider.aclose()


async def listed(provider: Compatible) -> list[ModelFacts]:
    with anyio.fail_after(60):
        try:
            return await provider.models()
        finally:
            await provider.aclose()


def at(server: FakeServer, name: str) -> Compatible:
    return Compatible(name, base_url=f"{server.url}/v1")


@pytest.mark.req("PRV-1")
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES.keys())
async def test_every_profile_can_be_spoken_to(profile: Profile) -> None:
    async with serve(OK) as server:
        provider = Compatible(profile, base_url=f"{server.url}/v1/", api_key="k")
        found = await ask(provider)

    assert TextChunk("ok") in found
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["Authorization"] == "Bearer k"
    assert server.requests[0]["messages"] == [{"role": "user", "content": "hi"}]
    assert provider.name == profile.name
    assert isinstance(provider, ListsModels)
    assert isinstance(provider, SearchesWeb)
    assert "{" not in profile.base_url


@pytest.mark.parametrize("name", ["lm_studio", "LM Studio", "lm-studio", "llama.cpp", "xAI"])
async def test_a_profile_is_found_by_any_spelling(name: str) -> None:
    assert find_profile(name) in PROFILES.values()


async def test_a_profile_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ConfigError, match=r"Available: .*lm_studio.*OpenAIChat"):
        Compatible("nobody")


@pytest.mark.parametrize("name", [name for name, each in PROFILES.items() if each.needs_key])
async def test_a_missing_key_is_an_error_before_any_request(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PROFILES[name].key_env, raising=False)

    with pytest.raises(ConfigError, match=PROFILES[name].key_env):
        Compatible(name)

    assert Compatible(name, headers={"Authorization": "Bearer x"}).name == name


@pytest.mark.req("PRV-1")
async def test_a_key_is_found_in_the_profiles_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASHSCOPE_API_KEY", "kept")
    async with serve(OK, OK, OK) as server:
        here = replace(PROFILES["qwen"], base_url=f"{server.url}/v1")
        await ask(Compatible(here, web_search=True))
        await ask(Compatible(here, api_key="given"))
        await ask(Compatible("qwen", base_url=f"{server.url}/v1"))

    keys = [headers.get("Authorization") for headers in server.headers]
    assert keys == ["Bearer kept", "Bearer given", None]


async def test_servers_on_this_machine_need_no_key() -> None:
    local = {name for name, each in PROFILES.items() if "127.0.0.1" in each.base_url}

    assert local == {"gemma", "llama_cpp", "lm_studio", "ollama", "vllm"}
    assert {Compatible(name).name for name in local} == local


@pytest.mark.req("PRV-5")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("openrouter", {"tools": [{"type": "openrouter:web_search"}]}),
        ("qwen", {"enable_search": True}),
        ("groq", {"tools": [{"type": "browser_search"}]}),
    ],
)
async def test_a_search_on_the_web_is_switched_on(name: str, told: dict[str, object]) -> None:
    async with serve(OK) as server:
        provider = Compatible(name, base_url=f"{server.url}/v1", web_search=True)
        await ask(provider)

    assert provider.web_tools == {"web_search"}
    assert server.requests[0].items() >= told.items()


@pytest.mark.req("PRV-5")
async def test_a_search_that_the_server_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="lm_studio has no built-in web_search"):
        Compatible("lm_studio", web_search=True)
    both = Compatible("openrouter", api_key="k", web_search=True, web_fetch=True)
    assert both.web_tools == {"web_search", "web_fetch"}
    assert Compatible("openrouter", api_key="k").web_tools == frozenset()


async def test_options_of_the_request_win_over_those_of_the_adapter() -> None:
    async with serve(OK) as server:
        provider = Compatible(
            "qwen",
            base_url=server.url,
            web_search=True,
            options={"enable_thinking": True, "top_k": 3},
        )
        options = {"top_k": 9, "enable_search": False}
        await ask(provider, Request(model="m", messages=(), options=options))

    sent = server.requests[0]
    assert (sent["enable_search"], sent["enable_thinking"], sent["top_k"]) == (False, True, 9)


@pytest.mark.req("RSN-2")
@pytest.mark.parametrize(
    ("name", "echoes", "thinking"),
    [
        ("openrouter", Echoes.OWN_ISSUED, ReasoningField.NOWHERE),
        ("mistral", Echoes.TOOL_USE_ONLY, ReasoningField.PARTS),
        ("vllm", Echoes.TOOL_USE_ONLY, ReasoningField.REASONING),
        ("ollama", Echoes.TOOL_USE_ONLY, ReasoningField.REASONING),
        ("lm_studio", Echoes.NEVER, ReasoningField.NOWHERE),
        ("llama_cpp", Echoes.NEVER, ReasoningField.NOWHERE),
        ("gemma", Echoes.NEVER, ReasoningField.NOWHERE),
        ("qwen", Echoes.NEVER, ReasoningField.NOWHERE),
    ],
)
async def test_what_is_sent_back_of_its_thinking(
    name: str, echoes: Echoes, thinking: ReasoningField
) -> None:
    profile = PROFILES[name]
    seal = '[{"type":"reasoning.text","text":"own thought"}]'
    mine = Reasoning(text="own thought", provenance=name, signature=seal)
    other = Reasoning(text="foreign", provenance="else", signature=seal)
    messages = (user("hi"), assistant(mine, other, READ), tool_result(READ, "x"))
    async with serve(OK) as server:
        request = Request(model="m", messages=messages, reasoning=ReasoningPolicy(tools_used=True))
        await ask(at(server, name), request)

    assert (profile.echoes, profile.dialect.reasoning) == (echoes, thinking)
    assert (b"own thought" in server.bodies[0]) is (echoes is not Echoes.NEVER)
    assert b"foreign" not in server.bodies[0]


@pytest.mark.req("PRV-6")
async def test_requests_for_claude_on_openrouter_have_cache_breakpoints() -> None:
    async with serve(OK) as server:
        provider = at(server, "openrouter")
        for model in ("anthropic/claude-sonnet-4.6", "openai/gpt-5"):
            await ask(provider, Request(model=model, system="s", messages=HELLO.messages))

    assert server.bodies[0].count(b'"cache_control":{"type":"ephemeral"}') == 2
    assert b"cache_control" not in server.bodies[1]


@pytest.mark.req("PRV-1")
async def test_gemmas_markup_becomes_thinking_and_calls_of_tools_that_are_there() -> None:
    words = (
        "<|channel>thou",
        "ght\nhm<channel|>",
        "Look: <|tool_call>call:Read{}<tool_call|>",
        "<|tool_call>call:Evil{}<tool_call|>",
    )
    spec = ToolSpec(name="Read", description="", schema={"type": "object"})
    async with serve(
        ScriptedResponse(steps=FakeChatApi().stream(ModelReply(words=words)))
    ) as server:
        request = Request(model="gemma-4", messages=HELLO.messages, tools=(spec,))
        found = await ask(at(server, "gemma"), request)

    assert found[:4] == [
        ReasoningChunk(index=0, text="hm"),
        TextChunk("Look: "),
        CallChunk(index=0, name="Read", arguments="{}", complete=True),
        TextChunk("<|tool_call>call:"),
    ]


OPENROUTER = {
    "data": [
        {
            "id": "maker/unheard-of",
            "context_length": 200_000,
            "architecture": {"input_modalities": ["text", "image"]},
            "top_provider": {"context_length": 131_072, "max_completion_tokens": 16_384},
            "supported_parameters": ["temperature"],
        },
        {"id": "maker/bare", "top_provider": None, "architecture": None},
    ]
}


@pytest.mark.parametrize(
    ("body", "facts"),
    [
        (
            {"data": [{"id": "unheard-of", "object": "model", "max_model_len": 16_384}]},
            ModelFacts(name="unheard-of", window=16_384),
        ),
        (
            {"data": [{"id": "unheard-of", "meta": {"n_ctx": 2_048, "n_ctx_train": 8_192}}]},
            ModelFacts(name="unheard-of", window=2_048, max_output=2_048),
        ),
        (
            {"data": [{"id": "unheard-of", "meta": {"n_ctx_train": 8_192}}]},
            ModelFacts(name="unheard-of", window=8_192),
        ),
        (
            OPENROUTER,
            ModelFacts(
                name="maker/unheard-of", window=131_072, max_output=16_384, calls_tools=False
            ),
        ),
        (
            {
                "data": [
                    {
                        "id": "unheard-of",
                        "type": "llm",
                        "max_context_length": 131_072,
                        "loaded_context_length": 4_096,
                        "capabilities": ["tool_use"],
                    },
                    {"id": "text-embedding", "type": "embeddings"},
                ]
            },
            ModelFacts(name="unheard-of", window=4_096, sees=False),
        ),
        (
            {"data": [{"id": "unheard-of", "type": "vlm", "max_context_length": 9_000}]},
            ModelFacts(name="unheard-of", window=9_000),
        ),
        (
            {
                "data": [
                    {
                        "id": "unheard-of",
                        "max_context_length": 32_000,
                        "capabilities": {"completion_chat": True, "vision": False},
                    },
                    {"id": "ocr", "capabilities": {"completion_chat": False}},
                ]
            },
            ModelFacts(name="unheard-of", window=32_000, sees=False),
        ),
        (
            {
                "data": [
                    {"id": "unheard-of", "context_window": 8_000, "max_completion_tokens": 1_000}
                ]
            },
            ModelFacts(name="unheard-of", window=8_000, max_output=1_000),
        ),
        (
            [
                {"id": "unheard-of", "type": "chat", "context_length": 8_000},
                {"id": "flux", "type": "image"},
            ],
            ModelFacts(name="unheard-of", window=8_000),
        ),
        (
            {
                "data": [
                    {
                        "id": "unheard-of",
                        "context_length": 8_000,
                        "supports_chat": True,
                        "supports_tools": False,
                        "supports_image_input": False,
                    },
                    {"id": "embedder", "supports_chat": False},
                ]
            },
            ModelFacts(name="unheard-of", window=8_000, calls_tools=False, sees=False),
        ),
    ],
    ids=[
        "vllm",
        "llama.cpp",
        "llama.cpp, old",
        "openrouter",
        "lm studio",
        "lm studio, not loaded",
        "mistral",
        "groq",
        "together",
        "fireworks",
    ],
)
@pytest.mark.req("CTX-5")
async def test_what_servers_tell_of_their_models(body: object, facts: ModelFacts) -> None:
    found = model_list.parse_models(json.dumps(body).encode())

    assert found[0] == facts
    assert {each.name for each in found} <= {facts.name, "maker/bare"}


async def test_a_name_alone_is_looked_up() -> None:
    found = model_list.parse_models(b'{"data":[{"id":"gpt-4o"},{"id":"nobody"}]}')

    assert found == [lookup("gpt-4o"), lookup("nobody")]
    assert (found[0].known, found[1].known) == (True, False)


@pytest.mark.parametrize(
    ("shown", "loaded", "facts"),
    [
        (
            {"model_info": {"x.context_length": 40_960}, "capabilities": ["completion", "tools"]},
            {},
            ModelFacts(name="unheard-of", window=4_096, max_output=1_024, sees=False, known=False),
        ),
        (
            {"model_info": {"x.context_length": 40_960}, "remote_host": "https://ollama.com"},
            {},
            ModelFacts(name="unheard-of", window=40_960),
        ),
        (
            {
                "model_info": {"x.context_length": 40_960},
                "parameters": "stop  <end>\nnum_ctx   8192",
                "capabilities": ["completion", "vision"],
            },
            {},
            ModelFacts(name="unheard-of", window=8_192, calls_tools=False),
        ),
        (
            {"model_info": {"x.context_length": 40_960}, "parameters": "num_ctx 8192"},
            {"unheard-of:latest": 4_096},
            ModelFacts(name="unheard-of", window=4_096),
        ),
        ({}, {}, ModelFacts(name="unheard-of", window=4_096, max_output=1_024, known=False)),
    ],
)
@pytest.mark.req("CTX-5")
async def test_facts_that_ollama_reports(
    shown: dict[str, object], loaded: dict[str, int], facts: ModelFacts
) -> None:
    body = json.dumps(shown).encode()

    assert model_list.parse_ollama_model(body, "unheard-of", loaded) == facts


async def test_ollama_is_asked_for_each_of_its_models() -> None:
    tags = document({"models": [{"name": "a:8b"}, {"name": "b"}]})
    ps = document({"models": [{"name": "b", "context_length": 4_096}]})
    shown = document({"model_info": {"a.context_length": 8_192}})
    async with serve(tags, ps, shown, shown) as server:
        provider = at(server, "ollama")
        found = await listed(provider)

    assert server.paths == ["/api/tags", "/api/ps", "/api/show", "/api/show"]
    assert json.loads(server.bodies[2]) == {"model": "a:8b"}
    assert [(each.name, each.window) for each in found] == [("a:8b", 4_096), ("b", 4_096)]
    assert provider.facts("b") == found[1]


SHOWN = document({"model_info": {"a.context_length": 40_960}, "capabilities": ["completion"]})
IDLE = document({"models": []})


@pytest.mark.req("CTX-5", "PRV-1")
async def test_ollama_loads_a_model_to_report_its_window() -> None:
    loaded = document({"models": [{"name": "a:latest", "context_length": 16_384}]})
    async with serve(SHOWN, IDLE, document({"done": True}), loaded) as server:
        provider = at(server, "ollama")
        assert isinstance(provider, ReportsWindow)
        found = await provider.load_facts("a")
        await provider.aclose()

    assert server.paths == ["/api/show", "/api/ps", "/api/generate", "/api/ps"]
    assert json.loads(server.bodies[2]) == {"model": "a"}
    assert (found.window, found.known, found.calls_tools) == (16_384, True, False)
    assert provider.facts("a") == found


@pytest.mark.parametrize(
    ("shown", "running"),
    [
        (SHOWN, document({"models": [{"name": "a:latest", "context_length": 8_192}]})),
        (document({"parameters": "num_ctx 8192"}), IDLE),
        (document({"model_info": {"a.context_length": 8_192}, "remote_host": "x"}), IDLE),
    ],
)
async def test_ollama_loads_no_model_whose_window_it_knows(
    shown: ScriptedResponse, running: ScriptedResponse
) -> None:
    async with serve(shown, running) as server:
        provider = at(server, "ollama")
        found = await provider.load_facts("a:latest")
        await provider.aclose()

    assert (found.window, found.known) == (8_192, True)
    assert server.paths == ["/api/show", "/api/ps"]


async def test_an_ollama_that_does_not_report_its_window_is_assumed_to_have_the_smallest() -> None:
    old = document({"models": [{"name": "a:latest"}]})
    async with serve(SHOWN, old, document({"done": True}), old) as server:
        provider = at(server, "ollama")
        found = await provider.load_facts("a")
        await provider.aclose()

    assert (found.window, found.known) == (4_096, False)


@pytest.mark.req("CTX-5")
def test_a_model_in_ollamas_cloud_has_the_window_that_it_was_trained_for() -> None:
    shown = json.dumps({"model_info": {"x.context_length": 131_072}}).encode()
    found = model_list.parse_ollama_model(shown, "gpt-oss:120b", {}, hosted=True)

    assert (found.window, found.known) == (131_072, True)


async def test_a_server_whose_window_is_configured_is_not_asked() -> None:
    mine = ModelFacts(name="mine", window=32_000)
    async with serve() as server:
        provider = Compatible("ollama", base_url=f"{server.url}/v1", models={"mine": mine})
        assert await provider.load_facts("mine") == mine
        assert await at(server, "vllm").load_facts("nobody") == lookup("nobody")
        await provider.aclose()

    assert server.paths == []


async def test_lm_studio_is_asked_by_its_own_api() -> None:
    body = {"data": [{"id": "gemma", "type": "vlm", "loaded_context_length": 4_096}]}
    async with serve(document(body)) as server:
        provider = at(server, "lm_studio")
        found = await listed(provider)

    assert (server.methods, server.paths) == (["GET"], ["/api/v0/models"])
    assert provider.facts("gemma") == found[0]
    assert found[0].window == 4_096


async def test_a_familys_profile_works_with_any_server() -> None:
    async with serve(MISSING, document({"data": [{"id": "g", "max_model_len": 99}]})) as server:
        found = await listed(at(server, "gemma"))

    assert server.paths == ["/api/v0/models", "/v1/models"]
    assert found[0].window == 99


async def test_configured_facts_override_those_of_the_server() -> None:
    mine = ModelFacts(name="m", window=9)
    async with serve(document({"data": [{"id": "m", "max_model_len": 99}]})) as server:
        provider = Compatible("vllm", base_url=f"{server.url}/v1", models={"m": mine})
        await listed(provider)

    assert server.paths == ["/v1/models"]
    assert provider.facts("m") == mine


async def test_an_unexpected_model_list_is_an_error() -> None:
    async with serve(document({"hello": "world"})) as server:
        with pytest.raises(ProviderError, match="unexpected list of models"):
            await listed(at(server, "vllm"))


async def test_a_server_that_refuses_is_not_asked_elsewhere() -> None:
    denied = ScriptedResponse(steps=[b"{}"], status=400)
    async with serve(denied) as server:
        with pytest.raises(ProviderError):
            await listed(at(server, "lm_studio"))

    assert server.paths == ["/api/v0/models"]


def test_ollama_is_not_trusted_with_a_window_that_it_may_not_have() -> None:
    provider = Compatible("ollama", models={"mine": ModelFacts(name="mine", window=32_000)})

    assert (provider.facts("qwen3").window, provider.facts("qwen3").known) == (4_096, False)
    assert provider.facts("mine").window == 32_000
