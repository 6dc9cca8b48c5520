"""The models that a session can be started with, or switched to, as data."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from clew.config.providers import resolve_profile
from clew.config.settings import Settings
from clew.core.errors import ConfigError, UnknownModel
from clew.providers.catalogue import families, lookup
from clew.providers.registry import FAMILIES, find_model
from clew.sdk.folders import Homes
from clew.sdk.model_choice import ModelChooser
from clew.sdk.settings import load_project_settings


class ModelInfo(Struct, frozen=True, kw_only=True):
    """A model that can be chosen."""

    name: str
    """What to choose it by: `PROVIDER/NAME`."""
    provider: str
    """A profile of the settings, or a provider family."""
    window: int
    """Tokens for prompt and answer together."""
    calls_tools: bool
    sees: bool
    """It can look at images."""


def list_models(cwd: Path, environ: Mapping[str, str]) -> list[ModelInfo]:
    """Return the models of all providers that are set up; those of the settings come first.

    A server may offer more: `/model` in a session asks it. Reads the settings, so it blocks.

    Raises:
        ConfigError: A settings file is wrong.
    """
    loaded = load_project_settings(cwd, Homes.of(environ), environ)
    ready = ModelChooser(loaded.settings, loaded.environ).list_providers()
    found = [*_list_profiles(loaded.settings, loaded.environ), *_list_catalogue(frozenset(ready))]
    return list({model.name: model for model in found}.values())


def _list_profiles(settings: Settings, environ: Mapping[str, str]) -> Iterator[ModelInfo]:
    for name in settings.providers:
        with suppress(ConfigError):
            profile = resolve_profile(settings, name, environ)
            default = FAMILIES[profile.type].default_model if profile.type in FAMILIES else ""
            for model in dict.fromkeys((profile.model or default, *profile.windows)):
                if model:
                    yield _describe(model, provider=name, window=profile.windows.get(model))


def _list_catalogue(ready: frozenset[str]) -> Iterator[ModelInfo]:
    for facts in families():
        with suppress(UnknownModel):
            family = find_model(facts.name).family.name
            if family in ready:
                yield _describe(facts.name, provider=family)


def _describe(model: str, *, provider: str, window: int | None = None) -> ModelInfo:
    facts = lookup(model)
    return ModelInfo(
        name=f"{provider}/{model}",
        provider=provider,
        window=window or facts.window,
        calls_tools=facts.calls_tools,
        sees=facts.sees,
    )
