"""Chooses the provider and the model of a session.

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
    resolve_single,
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
    get_family,
)
from clew.sdk.local_servers import LocalServer
from clew.sdk.saved_model import SavedModel, without_secrets
from clew.sdk.session_spec import SessionSpec

_SERVER_MODEL = "default"
"""The model name sent to a server when none is set; most local servers have one model."""

FindLocal: TypeAlias = Callable[[], Awaitable[LocalServer | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A provider, a model it serves, and a sentence that says how they were chosen."""

    provider: Provider
    model: str
    why: str
    window: int | None = None
    """The model's window from the settings, if it is set there."""
    saved: SavedModel | None = None
    """How to make the same choice when the session is resumed."""
    warning: str = ""
    """What the user should know about it, such as that it is not the model of before."""


class ModelChooser:
    """Chooses providers by settings and environment."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ

    async def choose_first(self, spec: SessionSpec, find_local: FindLocal) -> ModelChoice:
        """Pick the provider and model for a session.

        Raises:
            UnknownModel: No provider here serves the model.
            ConfigError: Its provider cannot be made.
        """
        if spec.provider:
            return self._choose_provider(spec)
        if spec.base_url:
            return self._choose_server(spec.base_url, spec.model)
        if spec.model:
            return self.choose_model(spec.model, port=spec.port)
        profile = resolve_provider(self._settings, self._environ)
        if profile is not None:
            return self._use_profile(profile)
        if self._settings.model:
            return self.choose_model(self._settings.model, port=spec.port)
        if self._environ.get("OPENAI_BASE_URL"):
            return self._choose_server("", "")
        for family in FAMILIES.values():
            if family.default_model and family.is_ready(self._environ):
                return self._use_family(ModelMatch(family=family, model=family.default_model))
        local = await find_local()
        return self._use_embedded(spec.port) if local is None else self._use_local(local)

    def choose_model(self, model: str, *, port: int = 0) -> ModelChoice:
        """Choose the provider of a model; raises as `choose_first` does.

        `PROFILE/NAME` names a profile of the settings. The current profile serves the models of
        its own family, and unknown ones.
        """
        head, _, rest = model.partition("/")
        if rest and self.has_profile(head):
            return self._use_profile(resolve_profile(self._settings, head, self._environ), rest)
        try:
            asked = find_model(model)
        except UnknownModel:
            profile = resolve_provider(self._settings, self._environ)
            if profile is None:
                raise
            return self._use_profile(profile, model)
        if asked.family.name == "embedded":
            return self._use_embedded(port)
        if asked.family.name == current_type(self._settings, self._environ):
            profile = resolve_provider(self._settings, self._environ)
            if profile is not None:
                return self._use_profile(profile, asked.model)
        return self._use_family(asked)

    def choose_single(self, model: str) -> ModelChoice | None:
        """Choose a model of the single `provider` of older settings; None if it is not set.

        Its models have any names, including those of another family: it may be a gateway.

        Raises:
            ConfigError: The provider cannot be made.
        """
        profile = resolve_single(self._settings, self._environ)
        return None if profile is None else self._use_profile(profile, model)

    def reads_address(self, saved: SavedModel) -> bool:
        """Return whether the address of a saved model is now read from the environment.

        The environment has the user, password and query of an address, which are never saved.
        """
        if not saved.base_url or (family := find_family(saved.provider)) is None:
            return False
        address = family.settings(self._environ).base_url
        return bool(address) and (saved.from_environ or without_secrets(address) == saved.base_url)

    def find_window(self, saved: SavedModel) -> int | None:
        """Return the window that the settings give a model; None for the catalogue's."""
        return window_for(self._settings, self._find_profile(saved), saved.model)

    def has_address(self, saved: SavedModel) -> bool:
        """Return whether a server was named, which may have models of any name."""
        profile = self._find_profile(saved)
        if profile is None:
            return bool(saved.base_url)
        family = get_family(profile.type)
        return bool(family.settings(self._environ, base_url=profile.base_url).base_url)

    def has_profile(self, name: str) -> bool:
        """Return whether the settings have a profile of that name."""
        return name in self._settings.providers

    def names_provider(self, model: str) -> bool:
        """Return whether a model's name tells its provider, or a profile of the settings."""
        head, _, rest = model.partition("/")
        if rest and self.has_profile(head):
            return True
        try:
            find_model(model)
        except UnknownModel:
            return False
        return True

    def list_providers(self) -> list[str]:
        """Return the providers that can be used: profiles first, then families with a key."""
        kinds = [f.name for f in FAMILIES.values() if not f.needs_key or f.is_ready(self._environ)]
        return [*self._settings.providers, *kinds]

    def _find_profile(self, saved: SavedModel) -> ResolvedProvider | None:
        if saved.provider in self._settings.providers:
            return resolve_profile(self._settings, saved.provider, self._environ)
        return None if saved.provider else resolve_single(self._settings, self._environ)

    def _choose_provider(self, spec: SessionSpec) -> ModelChoice:
        name, model = spec.provider, spec.model
        if name in self._settings.providers:
            profile = resolve_profile(self._settings, name, self._environ)
            return self._use_profile(profile, model)
        family = find_family(name)
        if family is None:
            known = ", ".join([*self._settings.providers, *FAMILIES])
            raise UnknownModel(f"there is no provider {name!r}; there are: {known}")
        if family.name == "embedded":
            return self._use_embedded(spec.port)
        if not (model or family.default_model):
            raise UnknownModel(f"{family.name} has no default model: pass --model NAME")
        asked = ModelMatch(family=family, model=model or family.default_model)
        return self._use_family(asked, base_url=spec.base_url)

    def _choose_server(self, base_url: str, model: str) -> ModelChoice:
        asked = ModelMatch(family=FAMILIES["openai_chat"], model=model or _SERVER_MODEL)
        return self._use_family(asked, base_url=base_url)

    def _use_profile(self, profile: ResolvedProvider, model: str = "") -> ModelChoice:
        family = get_family(profile.type)
        name = model or profile.model or family.default_model
        if not name:
            raise UnknownModel(f"the provider {profile.name} in the settings names no model")
        provider = build_provider(profile, self._environ)
        why = f"the provider {profile.name} of the settings"
        # The single provider of older files has no name of its own.
        named = profile.name if profile.name in self._settings.providers else ""
        saved = SavedModel(provider=named, model=name)
        return self._make_choice(provider, why, saved, profile)

    def _use_family(self, asked: ModelMatch, *, base_url: str = "") -> ModelChoice:
        family = asked.family
        settings = family.settings(self._environ, base_url=base_url)
        if family.needs_key and not settings.api_key and not settings.base_url:
            raise UnknownModel(
                f"{asked.model} is served by {family.name}, which needs a key: set"
                f" {' or '.join(family.key_names)}, or name a server with --base-url, or use the"
                f" embedded model: --model {SMOLLM2.name}"
            )
        address = without_secrets(settings.base_url)
        why = _explain(family, self._environ, address)
        saved = SavedModel(
            provider=family.name,
            model=asked.model,
            base_url=address,
            from_environ=bool(address) and not base_url,
        )
        return self._make_choice(family.make(settings), why, saved)

    def _use_embedded(self, port: int) -> ModelChoice:
        from clew.providers.embedded.provider import Embedded  # noqa: PLC0415 - seldom needed

        why = "the embedded model, on this machine"
        saved = SavedModel(provider="embedded", model=SMOLLM2.name)
        return self._make_choice(Embedded(port=port), why, saved)

    def _use_local(self, local: LocalServer) -> ModelChoice:
        why = f"{local.provider.name} answers on this machine, and no key is set"
        name, address = local.provider.name, without_secrets(local.base_url)
        saved = SavedModel(provider=name, model=local.model, base_url=address, from_environ=True)
        return self._make_choice(local.provider, why, saved)

    def _make_choice(
        self,
        provider: Provider,
        why: str,
        saved: SavedModel,
        profile: ResolvedProvider | None = None,
    ) -> ModelChoice:
        window = window_for(self._settings, profile, saved.model)
        return ModelChoice(
            provider=provider, model=saved.model, why=why, window=window, saved=saved
        )


def _explain(family: ProviderFamily, environ: Mapping[str, str], base_url: str) -> str:
    if base_url:
        return f"the server at {base_url}"
    key = next((name for name in family.key_names if environ.get(name)), "")
    return f"{family.name}, as {key} is set" if key else family.name
