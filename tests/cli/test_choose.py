"""Which model answers, and why."""

from argparse import Namespace

import anyio
import pytest

from clew.cli.choose import Choice, Chooser
from clew.cli.local import Local
from clew.config.settings import Settings
from clew.core.errors import ConfigError, UnknownModel
from clew.providers.registry import FAMILIES, find, named

pytestmark = pytest.mark.req("PRV-1")


async def nothing_local() -> Local | None:
    return None


def choose(asked: Namespace, environ: dict[str, str], settings: Settings | None = None) -> Choice:
    chooser = Chooser(settings or Settings(), environ)
    return anyio.run(chooser.first, asked, nothing_local)


def chosen(model: str, environ: dict[str, str]) -> Choice:
    return Chooser(Settings(), environ).named(model)


def flags(
    *, model: str | None = None, provider: str | None = None, base_url: str | None = None
) -> Namespace:
    return Namespace(model=model, provider=provider, base_url=base_url, port=0)


@pytest.mark.parametrize(
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
    found = find(asked)

    assert (found.family.name, found.model) == (family, model)


def test_a_name_that_nobody_knows_is_explained() -> None:
    with pytest.raises(UnknownModel, match="ollama/mystery"):
        find("mystery")
    assert named("no such thing") is None


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
        (flags(provider="ollama"), "say which model of ollama"),
        (flags(model="azure/gpt-5"), "set AZURE_OPENAI_API_KEY"),
    ],
)
def test_what_is_missing_is_named(asked: Namespace, sentence: str) -> None:
    with pytest.raises(UnknownModel, match=sentence):
        choose(asked, {})


def test_azure_needs_its_address() -> None:
    with pytest.raises(ConfigError, match="AZURE_OPENAI_ENDPOINT"):
        chosen("azure/gpt-5", {"AZURE_OPENAI_API_KEY": "k"})


@pytest.mark.parametrize(
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
def test_an_address_of_ollama_that_is_none_is_told(host: str) -> None:
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
