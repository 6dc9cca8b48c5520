"""Which model answers, and why.

Flags come first, then the settings, then what the environment holds a key for, then a server
on this machine, and last the embedded model.
"""

from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from clew.cli.local import Local
from clew.config.providers import (
    ResolvedProvider,
    current_type,
    resolve_profile,
    resolve_provider,
    window_for,
)
from clew.config.settings import Settings
from clew.core.errors import UnknownModel
from clew.providers.catalogue import SMOLLM2
from clew.providers.protocol import Provider
from clew.providers.registry import (
    FAMILIES,
    ModelMatch,
    ProviderFamily,
    build_provider,
    find_family,
    find_model,
)

_SERVER_MODEL = "default"
"""What a server is asked for when nobody said; most local ones serve but one model."""

FindLocal: TypeAlias = Callable[[], Awaitable[Local | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A provider, a model it serves, and the sentence that says how they were chosen."""

    provider: Provider
    model: str
    why: str
    window: int | None = None
    """The model's window, where the settings say it."""


class Chooser:
    """Picks providers by what the settings and the environment say."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ

    async def first(self, arguments: Namespace, find_local: FindLocal) -> Choice:
        """Pick the provider for this run.

        Raises:
            UnknownModel: Nothing here can reach the model that was asked for.
            ConfigError: Its provider cannot be made.
        """
        model: str | None = arguments.model
        if arguments.provider:
            return self._provided(arguments.provider, model, arguments.base_url or "")
        if arguments.base_url:
            return self._server(arguments.base_url, model)
        if model is not None:
            return self.named(model, port=arguments.port)
        profile = resolve_provider(self._settings, self._environ)
        if profile is not None:
            return self._profile(profile)
        if self._settings.model:
            return self.named(self._settings.model, port=arguments.port)
        if address := self._environ.get("OPENAI_BASE_URL"):
            return self._server(address, None)
        for family in FAMILIES.values():
            if family.default_model and family.is_ready(self._environ):
                return self._from(ModelMatch(family=family, model=family.default_model))
        local = await find_local()
        return self._embedded(arguments.port) if local is None else self._local(local)

    def named(self, model: str, *, port: int = 0) -> Choice:
        """Pick the provider of a model that is asked for by its name; raises as `first` does.

        The profile in use serves the models of its own kind, and those that nobody knows.
        """
        try:
            asked = find_model(model)
        except UnknownModel:
            profile = resolve_provider(self._settings, self._environ)
            if profile is None:
                raise
            return self._profile(profile, model)
        if asked.family.name == "embedded":
            return self._embedded(port)
        if asked.family.name == current_type(self._settings, self._environ):
            profile = resolve_provider(self._settings, self._environ)
            if profile is not None:
                return self._profile(profile, asked.model)
        return self._from(asked)

    def ready(self) -> list[str]:
        """Return the providers that lack no key: profiles of the settings first."""
        kinds = [f.name for f in FAMILIES.values() if not f.needs_key or f.is_ready(self._environ)]
        return [*self._settings.providers, *kinds]

    def _provided(self, name: str, model: str | None, base_url: str) -> Choice:
        if name in self._settings.providers:
            profile = resolve_profile(self._settings, name, self._environ)
            return self._profile(profile, model or "")
        family = find_family(name)
        if family is None:
            known = ", ".join([*self._settings.providers, *FAMILIES])
            raise UnknownModel(f"there is no provider {name!r}; there are: {known}")
        if not (model or family.default_model):
            raise UnknownModel(f"say which model of {family.name}: --model NAME")
        asked = ModelMatch(family=family, model=model or family.default_model)
        return self._from(asked, base_url=base_url)

    def _server(self, base_url: str, model: str | None) -> Choice:
        asked = ModelMatch(family=FAMILIES["openai_chat"], model=model or _SERVER_MODEL)
        return self._from(asked, base_url=base_url)

    def _profile(self, profile: ResolvedProvider, model: str = "") -> Choice:
        family = FAMILIES[profile.type]
        name = model or profile.model or family.default_model
        if not name:
            raise UnknownModel(f"the provider {profile.name} in the settings names no model")
        provider = build_provider(profile, self._environ)
        why = f"the provider {profile.name} of the settings"
        return self._made(provider, name, why, profile)

    def _from(self, asked: ModelMatch, *, base_url: str = "") -> Choice:
        family = asked.family
        settings = family.settings(self._environ, base_url=base_url)
        if family.needs_key and not settings.api_key and not settings.base_url:
            raise UnknownModel(
                f"{asked.model} is served by {family.name}, which needs a key: set"
                f" {' or '.join(family.key_names)}, or name a server with --base-url, or use the"
                f" embedded model: --model {SMOLLM2.name}"
            )
        why = _why(family, self._environ, base_url)
        return self._made(family.make(settings), asked.model, why)

    def _embedded(self, port: int) -> Choice:
        from clew.providers.embedded.provider import Embedded  # noqa: PLC0415 - seldom needed

        why = "the embedded model, on this machine"
        return self._made(Embedded(port=port), SMOLLM2.name, why)

    def _local(self, local: Local) -> Choice:
        why = f"{local.provider.name} answers on this machine, and no key is set"
        return self._made(local.provider, local.model, why)

    def _made(
        self, provider: Provider, model: str, why: str, profile: ResolvedProvider | None = None
    ) -> Choice:
        window = window_for(self._settings, profile, model)
        return Choice(provider=provider, model=model, why=why, window=window)


def _why(family: ProviderFamily, environ: Mapping[str, str], base_url: str) -> str:
    if base_url:
        return f"the server at {base_url}"
    key = next((name for name in family.key_names if environ.get(name)), "")
    return f"{family.name}, as {key} is set" if key else family.name
