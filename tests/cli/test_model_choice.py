"""Which model answers, and why."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import anyio
import msgspec
import pytest

from clew.config.schema import ContextSection, LegacySection, ModelSection, ProfileSection
from clew.config.settings import Settings
from clew.core.errors import ConfigError, UnknownModel
from clew.core.messages import user
from clew.providers.openai_responses import OpenAIResponses
from clew.providers.protocol import Provider, Request
from clew.providers.registry import FAMILIES, find_family, find_model
from clew.sdk.local_servers import LocalServer
from clew.sdk.model_choice import ModelChoice, ModelChooser
from clew.sdk.model_switcher import ModelSwitcher
from clew.sdk.session_spec import SessionSpec
from clew.session.session import Session
from clew.testing.fake_apis.chat import FakeChatApi
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.server import ScriptedResponse, serve
from tests.rows import each_row

pytestmark = pytest.mark.req("PRV-1")

WINDOWS = {
    "deepseek-chat": ModelSection(max_context_tokens=9_000),
    "deepseek-reasoner": ModelSection(max_context_tokens=7_000),
}


async def nothing_local() -> LocalServer | None:
    return None


def choose(
    asked: SessionSpec, environ: dict[str, str], settings: Settings | None = None
) -> ModelChoice:
    chooser = ModelChooser(settings or Settings(), environ)
    return anyio.run(chooser.choose_first, asked, nothing_local)


def chosen(model: str, environ: dict[str, str]) -> ModelChoice:
    return ModelChooser(Settings(), environ).choose_model(model)


def flags(*, model: str = "", provider: str = "", base_url: str = "") -> SessionSpec:
    return SessionSpec(cwd=".", model=model, provider=provider, base_url=base_url)


@each_row(
    ("asked", "family", "model"),
    [
        ("claude-opus-4-6", "anthropic", "claude-opus-4-6"),
        ("anthropic/claude-opus-4-6", "anthropic", "claude-opus-4-6"),
        ("gpt-5-mini", "openai", "gpt-5-mini"),
        ("openrouter/anthropic/claude-haiku-4.5", "openrouter", "anthropic/claude-haiku-4.5"),
        ("ollama/llama3.1:8b", "ollama", "llama3.1:8b"),
        ("LM Studio/gemma", "lm_studio", "gemma"),
        ("llama.cpp/x", "llama_cpp", "x"),
        ("gemini-3-pro", "gemini", "gemini-3-pro"),
        ("deepseek-chat", "deepseek", "deepseek-chat"),
        ("bedrock/us.anthropic.claude-x-v1:0", "bedrock", "us.anthropic.claude-x-v1:0"),
        ("smollm2-135m", "embedded", "smollm2-135m"),
    ],
)
def test_a_model_tells_its_family(asked: str, family: str, model: str) -> None:
    found = find_model(asked)

    assert (found.family.name, found.model) == (family, model)


def test_an_unknown_model_name_is_an_error() -> None:
    with pytest.raises(UnknownModel, match="ollama/mystery"):
        find_model("mystery")
    assert find_family("no such thing") is None


@pytest.mark.parametrize(
    ("environ", "name", "model"),
    [
        ({}, "embedded", "smollm2-135m"),
        ({"OPENAI_API_KEY": "k"}, "openai", "gpt-5-mini"),
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "anthropic", "claude-sonnet-4-6"),
        ({"GOOGLE_API_KEY": "k"}, "gemini", "gemini-2.5-flash"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "openai_chat", "default"),
    ],
)
def test_the_environment_decides_where_no_flag_does(
    environ: dict[str, str], name: str, model: str
) -> None:
    choice = choose(flags(), environ)

    assert (choice.provider.name, choice.model) == (name, model)


def test_an_address_means_a_compatible_server_unless_its_provider_is_named() -> None:
    plain = choose(flags(model="m", base_url="http://127.0.0.1:1/v1"), {})
    said = choose(flags(model="m", base_url="http://127.0.0.1:1/v1", provider="anthropic"), {})

    assert (plain.provider.name, said.provider.name) == ("openai_chat", "anthropic")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (flags(model="claude-opus-4-6"), "set ANTHROPIC_API_KEY"),
        (flags(provider="nobody"), "there is no provider 'nobody'"),
        (flags(provider="ollama"), "ollama has no default model"),
        (flags(model="azure/gpt-5"), "set AZURE_OPENAI_API_KEY"),
    ],
)
def test_missing_parts_are_findings(asked: SessionSpec, sentence: str) -> None:
    with pytest.raises(UnknownModel, match=sentence):
        choose(asked, {})


def test_azure_needs_its_address() -> None:
    with pytest.raises(ConfigError, match="AZURE_OPENAI_ENDPOINT"):
        chosen("azure/gpt-5", {"AZURE_OPENAI_API_KEY": "k"})


@each_row(
    ("host", "address"),
    [
        ("box", "http://box:11434/v1"),
        ("box:8000", "http://box:8000/v1"),
        (" 0.0.0.0 ", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000/v1"),
        (":8000", "http://127.0.0.1:8000/v1"),
        ("http://box:8000/", "http://box:8000/v1"),
        ("http://box", "http://box:80/v1"),
        ("https://box", "https://box:443/v1"),
        ("[::1]:8000", "http://[::1]:8000/v1"),
        ("[::]", "http://[::1]:11434/v1"),
    ],
)
def test_ollama_is_where_its_own_variable_says(host: str, address: str) -> None:
    assert FAMILIES["ollama"].settings({"OLLAMA_HOST": host}).base_url == address
    assert FAMILIES["ollama"].settings({"OLLAMA_HOST": host}, base_url="x").base_url == "x"


@pytest.mark.parametrize("host", ["box:port", "box:99999", "ftp://box", "a:b:c"])
def test_a_malformed_ollama_address_is_an_error(host: str) -> None:
    with pytest.raises(ConfigError, match="OLLAMA_HOST"):
        chosen("ollama/qwen3", {"OLLAMA_HOST": host})


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_makes_a_provider_of_its_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    environ = {
        **dict.fromkeys(FAMILIES[name].key_names, "key"),
        "AZURE_OPENAI_ENDPOINT": "https://name.openai.azure.com",
    }
    made = chosen(f"{name}/model", environ).provider

    assert made.name == name
    assert "key" not in repr(made).replace("key_", "")


def profile(base_url: str = "http://127.0.0.1:1", key: str = "profile-key") -> Settings:
    """Return settings with a profile of DeepSeek in use."""
    work = ProfileSection(
        type="DeepSeek",
        model="deepseek-chat",
        api_key=key,
        base_url=base_url,
        options={"user": "me"},
        models=WINDOWS,
    )
    return Settings(
        current_provider="work",
        providers={"work": work},
        context=ContextSection(max_context_tokens=5_000),
    )


@pytest.mark.anyio
@pytest.mark.parametrize("asked", ["deepseek-reasoner", "deepseek/deepseek-reasoner", "mystery"])
async def test_a_model_of_the_profile_s_type_is_reached_by_the_profile(asked: str) -> None:
    async with serve(
        ScriptedResponse(steps=FakeChatApi().stream(ModelReply(words=("ok",))))
    ) as server:
        chooser = ModelChooser(profile(server.url), {"DEEPSEEK_API_KEY": "other-key"})
        choice = await chooser.choose_first(flags(model=asked), nothing_local)
        request = Request(model=choice.model, messages=(user("hi"),))
        with anyio.fail_after(60):
            async for _ in choice.provider.stream(request):
                pass
        await choice.provider.aclose()

    (sent,) = server.requests
    assert server.headers[0]["Authorization"] == "Bearer profile-key"
    assert (sent["model"], sent["user"]) == (asked.removeprefix("deepseek/"), "me")
    assert choice.why == "the provider work of the settings"


def test_the_older_provider_serves_models_of_its_type_too() -> None:
    settings = Settings(provider=LegacySection(name="anthropic", api_key="k"))

    choice = ModelChooser(settings, {}).choose_model("claude-opus-4-6")

    assert (choice.provider.name, choice.model) == ("anthropic", "claude-opus-4-6")
    assert choice.why == "the provider anthropic of the settings"


def test_a_model_of_another_type_does_not_need_the_variables_of_the_profile() -> None:
    chooser = ModelChooser(profile(key="$ENV:NOT_SET"), {"OPENAI_API_KEY": "k"})

    assert chooser.choose_model("gpt-5-mini").provider.name == "openai"
    with pytest.raises(ConfigError, match="NOT_SET"):
        chooser.choose_model("deepseek-reasoner")


@pytest.mark.anyio
@pytest.mark.req("CTX-5")
@pytest.mark.parametrize(
    ("asked", "window"),
    [
        ("deepseek-chat", 9_000),
        ("deepseek-reasoner", 7_000),
        ("mystery", 5_000),
        ("gpt-5-mini", 5_000),
        ("smollm2-135m", 5_000),
    ],
)
async def test_a_window_of_the_settings_counts_after_a_switch(asked: str, window: int) -> None:
    chooser = ModelChooser(profile(), {"OPENAI_API_KEY": "k"})
    first = await chooser.choose_first(flags(), nothing_local)
    board = ModelSwitcher(chooser, current=first.provider, first=first)
    session = Session(first.provider, model=first.model, max_context_tokens=first.window)
    async with session:
        assert session.get_context_state().max_tokens == 9_000

        await board.switch(session, asked)

        assert session.get_context_state().max_tokens == window
    await board.aclose()


@asynccontextmanager
async def switching(
    settings: Settings, provider: Provider | None = None
) -> AsyncIterator[tuple[Session, ModelSwitcher]]:
    """Open a session that can switch its model: of a caller's provider, or of the settings."""
    chooser = ModelChooser(settings, {})
    first = None if provider else await chooser.choose_first(flags(), nothing_local)
    current = first.provider if first else provider
    assert current is not None
    board = ModelSwitcher(chooser, current=current, first=first)
    async with Session(current, model=first.model if first else "gpt-5-mini") as session:
        yield session, board
    await board.aclose()


@pytest.mark.anyio
async def test_an_unknown_name_is_switched_to_only_if_the_server_offers_it() -> None:
    listing = ScriptedResponse(
        steps=[msgspec.json.encode({"data": [{"id": "ft:maze"}]})], content_type="application/json"
    )
    async with (
        serve(listing, method="GET", path="/v1/models") as server,
        aclosing(OpenAIResponses("k", base_url=f"{server.url}/v1")) as provider,
        switching(Settings(), provider) as (session, board),
    ):
        before = session.get_context_state()
        with pytest.raises(UnknownModel, match=r"'claud-sonet'; did you mean claude-sonnet-\S+\?"):
            await board.switch(session, "claud-sonet")
        with pytest.raises(UnknownModel, match=r"all the same: /model openai/qqqqqq$"):
            await board.switch(session, "qqqqqq")
        assert session.get_context_state() == before

        for asked, model in [("ft:maze", "ft:maze"), ("openai/qqqqqq", "qqqqqq")]:
            said = await board.switch(session, asked)
            assert said == f"switched to {model}: the same provider"


@pytest.mark.anyio
async def test_the_embedded_model_does_not_take_other_names() -> None:
    async with switching(Settings()) as (session, board):
        with pytest.raises(UnknownModel, match="'claud-sonet'; did you mean claude-sonnet"):
            await board.switch(session, "claud-sonet")


@pytest.mark.anyio
async def test_a_switch_can_name_a_profile_of_the_settings() -> None:
    settings = dataclasses.replace(profile(), current_provider="")
    async with switching(settings) as (session, board):
        said = await board.switch(session, "work/mystery")

        assert said == "switched to mystery: the provider work of the settings"
        assert session.get_context_state().max_tokens == 5_000
        assert "the same provider" in await board.switch(session, "riddle")


@pytest.mark.parametrize("environ", [{}, {"OPENAI_API_KEY": "k"}])
def test_a_window_of_the_settings_counts_without_a_profile(environ: dict[str, str]) -> None:
    settings = Settings(context=ContextSection(max_context_tokens=5_000))

    assert choose(flags(), environ, settings).window == 5_000
    assert choose(flags(), environ).window is None
