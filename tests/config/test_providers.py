"""Provider profiles: which one counts, and what stands in for a variable."""

from typing import Any

import pytest

from clew.config.providers import current_type, find_mistakes, resolve_provider, window_for
from clew.core.errors import ConfigError
from tests.config.folders import Folders

pytestmark = pytest.mark.req("CFG-1")

PROFILES = {
    "local": {
        "type": "LM Studio",
        "model": "gemma-3",
        "apiKey": "lm-studio",
        "baseURL": "http://localhost:1234/v1",
    },
    "qwen": {
        "type": "qwen",
        "model": "qwen3-plus",
        "apiKey": "$ENV:MY_KEY",
        "timeout": 2500,
        "options": {"headers": {"X-Team": "$ENV:TEAM"}, "list": ["$ENV:TEAM", 1]},
        "models": {"qwen3-plus": {"maxContextTokens": 32000}},
    },
}
LEGACY = {"name": "openai", "model": "gpt-5", "apiKey": "sk-old"}


def resolve(folders: Folders, content: dict[str, Any], **environ: str) -> Any:
    folders.put("~/.clew/settings.json", content)
    return resolve_provider(folders.load().settings, environ)


def test_without_any_profile_there_is_no_provider(folders: Folders) -> None:
    assert resolve(folders, {}) is None
    assert resolve(folders, {"providers": PROFILES}) is None


def test_the_current_profile_is_used_with_the_name_of_its_family(folders: Folders) -> None:
    found = resolve(folders, {"currentProvider": "local", "providers": PROFILES})

    assert (found.name, found.type, found.model) == ("local", "lm_studio", "gemma-3")
    assert (found.api_key, found.base_url) == ("lm-studio", "http://localhost:1234/v1")
    assert (found.timeout, found.options, found.windows) == (None, {}, {})


def test_references_are_filled_in_everywhere_in_a_profile(folders: Folders) -> None:
    chosen = {"currentProvider": "qwen", "providers": PROFILES}

    found = resolve(folders, chosen, MY_KEY="sk-1", TEAM="red")

    assert found.api_key == "sk-1"
    assert found.options == {"headers": {"X-Team": "red"}, "list": ["red", 1]}
    assert (found.timeout, found.windows) == (2.5, {"qwen3-plus": 32_000})
    assert "sk-1" not in repr(found)


def test_references_are_filled_in_after_the_layers_are_merged(folders: Folders) -> None:
    folders.put("~/.claude/settings.json", {"providers": {"qwen": {"apiKey": "$ENV:OTHER"}}})

    found = resolve(
        folders, {"currentProvider": "qwen", "providers": PROFILES}, OTHER="o", TEAM="t"
    )

    assert found.api_key == "o"


def test_variables_of_the_settings_count_for_references(folders: Folders) -> None:
    content = {
        "currentProvider": "qwen",
        "providers": PROFILES,
        "env": {"MY_KEY": "k", "TEAM": "t"},
    }
    folders.put("~/.clew/settings.json", content)
    loaded = folders.load()

    found = resolve_provider(loaded.settings, loaded.environ)

    assert found is not None
    assert found.api_key == "k"


def test_a_legacy_provider_counts_only_without_a_current_profile(folders: Folders) -> None:
    old = resolve(folders, {"provider": LEGACY, "providers": PROFILES})
    new = resolve(folders, {"provider": LEGACY, "providers": PROFILES, "currentProvider": "local"})

    assert (old.name, old.type, old.api_key) == ("openai", "openai", "sk-old")
    assert new.name == "local"


def test_the_model_of_the_settings_counts_where_the_profile_has_none(folders: Folders) -> None:
    content = {"currentProvider": "a", "providers": {"a": {"type": "openai"}}, "model": "gpt-5"}

    assert resolve(folders, content).model == "gpt-5"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"currentProvider": "x", "providers": PROFILES}, "'x'.*there are: local, qwen"),
        ({"currentProvider": "x"}, "there are: none"),
        (
            {"currentProvider": "x", "providers": {"x": {}}},
            "providers.x has no type; allowed: anth",
        ),
        ({"currentProvider": "x", "providers": {"x": {"type": "y"}}}, "x.type cannot be 'y'; allo"),
        ({"provider": {"model": "m"}}, "provider has no name; allowed: anthropic, openai"),
        ({"currentProvider": "qwen", "providers": PROFILES}, "qwen.apiKey .* MY_KEY, which is not"),
        ({"provider": {**LEGACY, "apiKey": "$ENV:A-B"}}, "write .ENV:NAME"),
    ],
)
def test_what_cannot_be_resolved_is_an_error_that_names_what_there_is(
    folders: Folders, content: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(folders, content)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({}, ""),
        ({"providers": PROFILES}, ""),
        ({"currentProvider": "qwen", "providers": PROFILES}, "qwen"),
        ({"currentProvider": "local", "providers": PROFILES}, "lm_studio"),
        ({"currentProvider": "local", "providers": PROFILES, "provider": LEGACY}, "lm_studio"),
        ({"provider": LEGACY}, "openai"),
        ({"provider": {"model": "m"}}, ""),
        ({"currentProvider": "x", "providers": PROFILES, "provider": LEGACY}, ""),
        ({"currentProvider": "x", "providers": {"x": {}}}, ""),
        ({"currentProvider": "x", "providers": {"x": {"type": "nothing"}}}, ""),
        ({"currentProvider": "x", "providers": {"x": {"type": "$ENV:UNSET"}}}, ""),
        ({"currentProvider": "x", "providers": {"x": {"type": "$ENV:KIND"}}}, "gemini"),
    ],
)
def test_the_type_in_use_is_told_whatever_else_is_missing(
    folders: Folders, content: dict[str, Any], kind: str
) -> None:
    folders.put("~/.clew/settings.json", content)

    assert current_type(folders.load().settings, {"KIND": "Gemini"}) == kind


def test_a_window_is_the_profile_s_for_each_of_its_models_and_else_the_general_one(
    folders: Folders,
) -> None:
    models = {"a": {"maxContextTokens": 1_000}, "b": {"maxContextTokens": 2_000}, "c": {}}
    content = {"currentProvider": "x", "providers": {"x": {"type": "openai", "models": models}}}
    profile = resolve(folders, content)
    without = folders.load().settings
    folders.put("~/.clew/settings.json", {**content, "context": {"maxContextTokens": 3_000}})
    settings = folders.load().settings

    assert [window_for(settings, profile, name) for name in "abcd"] == [1_000, 2_000, 3_000, 3_000]
    assert window_for(settings, None, "a") == 3_000
    assert [window_for(without, profile, name) for name in "acd"] == [1_000, None, None]
    assert window_for(without, None, "a") is None


def test_an_unset_variable_matters_only_for_the_profile_in_use(folders: Folders) -> None:
    broken = {"type": "nothing"}
    content = {"currentProvider": "local", "providers": {**PROFILES, "broken": broken}}
    folders.put("~/.clew/settings.json", content)

    found = list(find_mistakes(folders.load().settings, {}))

    assert len(found) == 1
    assert found[0].startswith("providers.broken.type cannot be 'nothing'")


def test_no_secret_is_in_the_representation_of_settings(folders: Folders) -> None:
    secret = "hush-hush-hush"
    folders.put(
        "~/.clew/settings.json",
        {
            "providers": {"a": {"type": "openai", "apiKey": secret, "options": {"k": secret}}},
            "provider": {"name": "openai", "apiKey": secret, "baseURL": f"https://u:{secret}@h"},
            "env": {"TOKEN": secret},
        },
    )

    loaded = folders.load()

    assert secret not in repr(loaded)
    assert secret not in repr(resolve_provider(loaded.settings, {}))
