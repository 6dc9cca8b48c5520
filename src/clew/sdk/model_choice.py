"""Chooses the provider and the model of a session, and switches between models.

The spec comes first, then the settings, then a key in the environment, then a server on this
machine, and last the embedded model.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from clew.config.providers import (
    ResolvedProvider,
    current_type,
    resolve_profile,
    resolve_provider,
    window_for,
)
from clew.config.settings import Settings
from clew.core.errors import UnknownModel
from clew.providers.catalogue import SMOLLM2, families
from clew.providers.protocol import Provider
from clew.providers.registry import (
    FAMILIES,
    ModelMatch,
    ProviderFamily,
    build_provider,
    find_family,
    find_model,
)
from clew.sdk.local_servers import LocalServer
from clew.sdk.spec import SessionSpec
from clew.session.session import Session

_SERVER_MODEL = "default"
"""What a server is asked for when nobody said; most local ones serve but one model."""
_MAX_MODELS = 12

FindLocal: TypeAlias = Callable[[], Awaitable[LocalServer | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A provider, a model it serves, and the sentence that says how they were chosen."""

    provider: Provider
    model: str
    why: str
    window: int | None = None
    """The model's window, where the settings say it."""


class ModelChooser:
    """Picks providers by what the settings and the environment say."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ

    async def first(self, spec: SessionSpec, find_local: FindLocal) -> ModelChoice:
        """Pick the provider and model for a session.

        Raises:
            UnknownModel: No provider here serves the model.
            ConfigError: Its provider cannot be made.
        """
        if spec.provider:
            return self._provided(spec.provider, spec.model, spec.base_url)
        if spec.base_url:
            return self._server(spec.base_url, spec.model)
        if spec.model:
            return self.named(spec.model, port=spec.port)
        profile = resolve_provider(self._settings, self._environ)
        if profile is not None:
            return self._profile(profile)
        if self._settings.model:
            return self.named(self._settings.model, port=spec.port)
        if address := self._environ.get("OPENAI_BASE_URL"):
            return self._server(address, "")
        for family in FAMILIES.values():
            if family.default_model and family.is_ready(self._environ):
                return self._from(ModelMatch(family=family, model=family.default_model))
        local = await find_local()
        return self._embedded(spec.port) if local is None else self._local(local)

    def named(self, model: str, *, port: int = 0) -> ModelChoice:
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

    def _provided(self, name: str, model: str, base_url: str) -> ModelChoice:
        if name in self._settings.providers:
            profile = resolve_profile(self._settings, name, self._environ)
            return self._profile(profile, model)
        family = find_family(name)
        if family is None:
            known = ", ".join([*self._settings.providers, *FAMILIES])
            raise UnknownModel(f"there is no provider {name!r}; there are: {known}")
        if not (model or family.default_model):
            raise UnknownModel(f"say which model of {family.name}: --model NAME")
        asked = ModelMatch(family=family, model=model or family.default_model)
        return self._from(asked, base_url=base_url)

    def _server(self, base_url: str, model: str) -> ModelChoice:
        asked = ModelMatch(family=FAMILIES["openai_chat"], model=model or _SERVER_MODEL)
        return self._from(asked, base_url=base_url)

    def _profile(self, profile: ResolvedProvider, model: str = "") -> ModelChoice:
        family = FAMILIES[profile.type]
        name = model or profile.model or family.default_model
        if not name:
            raise UnknownModel(f"the provider {profile.name} in the settings names no model")
        provider = build_provider(profile, self._environ)
        why = f"the provider {profile.name} of the settings"
        return self._made(provider, name, why, profile)

    def _from(self, asked: ModelMatch, *, base_url: str = "") -> ModelChoice:
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

    def _embedded(self, port: int) -> ModelChoice:
        from clew.providers.embedded.provider import Embedded  # noqa: PLC0415 - seldom needed

        why = "the embedded model, on this machine"
        return self._made(Embedded(port=port), SMOLLM2.name, why)

    def _local(self, local: LocalServer) -> ModelChoice:
        why = f"{local.provider.name} answers on this machine, and no key is set"
        return self._made(local.provider, local.model, why)

    def _made(
        self, provider: Provider, model: str, why: str, profile: ResolvedProvider | None = None
    ) -> ModelChoice:
        window = window_for(self._settings, profile, model)
        return ModelChoice(provider=provider, model=model, why=why, window=window)


def _why(family: ProviderFamily, environ: Mapping[str, str], base_url: str) -> str:
    if base_url:
        return f"the server at {base_url}"
    key = next((name for name in family.key_names if environ.get(name)), "")
    return f"{family.name}, as {key} is set" if key else family.name


class ModelSwitcher:
    """Finds the providers that `/model` asks for, and closes the ones it made.

    Args:
        chooser: Picks providers by settings and environment.
        current: The provider of the session; it serves every model of its own family.
        first: A choice whose provider belongs to the switcher, which closes it.
    """

    def __init__(
        self, chooser: ModelChooser, *, current: Provider, first: ModelChoice | None = None
    ) -> None:
        self._chooser = chooser
        self._current = current
        self._owned: list[Provider] = [first.provider] if first is not None else []

    async def switch(self, session: Session, model: str) -> str:
        """Continue with another model; returns a sentence that says how it was chosen.

        Raises:
            ClewError: No provider serves it, or the session could not switch; the session keeps
                the model it had.
        """
        choice = self._choose(model)
        if choice.provider is not self._current:
            self._owned.append(choice.provider)
        await session.set_model(
            choice.model, provider=choice.provider, max_context_tokens=choice.window
        )
        return f"switched to {choice.model}: {choice.why}"

    def list_models(self) -> list[str]:
        """Return lines that list the providers and models to choose from."""
        known = [facts.name for facts in families()][:_MAX_MODELS]
        return [
            f"providers with a key, or without need of one: {', '.join(self._chooser.ready())}",
            f"models: {', '.join(known)}, …",
        ]

    async def aclose(self) -> None:
        """Close every provider that was made."""
        for provider in self._owned:
            await provider.aclose()

    def _choose(self, model: str) -> ModelChoice:
        provider = self._current
        if self._owned:
            return self._chooser.named(model)
        family, _, rest = model.partition("/")
        if rest and family == provider.name:
            return ModelChoice(provider=provider, model=rest, why="the same provider")
        try:
            asked = find_model(model)
        except UnknownModel:
            return ModelChoice(provider=provider, model=model, why="the same provider")
        if asked.family.name == provider.name:
            return ModelChoice(provider=provider, model=asked.model, why="the same provider")
        return self._chooser.named(model)
