"""Provider profiles: resolve the profile in use, with its environment variables."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from clew.config.schema import LegacySection, ProfileSection
from clew.config.settings import Settings
from clew.core.errors import ConfigError

_PREFIX = "$ENV:"
_SHORTEST_KEY = 8
"""A shorter text may be a word, such as the key `ollama`."""
_REFERENCE = re.compile(r"\$ENV:([A-Za-z_][A-Za-z0-9_]*)")


class _NotSet(ConfigError):
    """A referenced environment variable is not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedProvider:
    """A profile with its references to environment variables replaced."""

    name: str
    """The name of the profile; for the legacy `provider`, its type."""
    type: str
    """A name of `clew.providers.registry.FAMILIES`."""
    model: str = ""
    """Empty for the provider's default."""
    api_key: str = field(default="", repr=False)
    base_url: str = field(default="", repr=False)
    timeout: float | None = None
    """Seconds without data; None for the provider's own timeout."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields that are passed to the provider."""
    windows: Mapping[str, int] = field(default_factory=dict)
    """Context windows of its models, by model name."""


def resolve_provider(settings: Settings, environ: Mapping[str, str]) -> ResolvedProvider | None:
    """Return the provider in use, or None if the settings choose none.

    The profile that `currentProvider` names comes first, then the legacy `provider`.

    Raises:
        ConfigError: The profile does not exist, has no known type, or refers to a variable that
            is not set.
    """
    if settings.current_provider:
        return resolve_profile(settings, settings.current_provider, environ)
    return resolve_single(settings, environ)


def resolve_single(settings: Settings, environ: Mapping[str, str]) -> ResolvedProvider | None:
    """Return the legacy `provider`, in use or not; None if it is not set.

    Raises:
        ConfigError: As for `resolve_provider`.
    """
    if settings.provider is None:
        return None
    return _resolve("provider", settings.provider, settings, environ)


def resolve_profile(settings: Settings, name: str, environ: Mapping[str, str]) -> ResolvedProvider:
    """Return one profile, in use or not.

    Raises:
        ConfigError: As for `resolve_provider`.
    """
    profile = settings.providers.get(name)
    if profile is None:
        there = ", ".join(sorted(settings.providers)) or "none"
        raise ConfigError(
            f"currentProvider is {name!r}, but providers has no such profile; there are: {there}"
        )
    return _resolve(name, profile, settings, environ)


def current_type(settings: Settings, environ: Mapping[str, str] | None = None) -> str:
    """Return the type of the provider in use; empty if it has none. Never raises.

    The rest of the profile is not resolved, so a missing variable for its key does not matter
    when the caller uses another provider.

    Args:
        settings: The settings.
        environ: Resolves a type that is itself a reference.
    """
    profile: ProfileSection | LegacySection | None = settings.provider
    if settings.current_provider:
        profile = settings.providers.get(settings.current_provider)
    if profile is None:
        return ""
    try:
        return _type_of(profile, "", environ or {})
    except ConfigError:
        return ""


def window_for(settings: Settings, profile: ResolvedProvider | None, model: str) -> int | None:
    """Return the context window that the settings give a model; None for the catalogue's.

    The profile's window for that model wins over the window for all models.
    """
    known = profile.windows.get(model) if profile is not None else None
    return known or settings.context.max_context_tokens or None


def find_mistakes(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the mistakes in profiles; only the profile in use needs all its variables."""
    try:
        resolve_provider(settings, environ)
    except ConfigError as error:
        yield str(error)
    for name in settings.providers:
        if name == settings.current_provider:
            continue
        try:
            resolve_profile(settings, name, environ)
        except _NotSet:
            continue
        except ConfigError as error:
            yield str(error)


def find_keys(settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of all providers, in use or not, so that they can be redacted."""
    from clew.providers.registry import FAMILIES  # noqa: PLC0415 - as in `_type_of`

    names = [name for family in FAMILIES.values() for name in family.key_names]
    found = [environ.get(name, "") for name in names]
    for profile in (settings.provider, *settings.providers.values()):
        written = (profile.api_key or "") if profile is not None else ""
        try:
            found.append(_resolve_references(written, "", environ))
        except ConfigError:
            continue
    return tuple(dict.fromkeys(key for key in found if len(key) >= _SHORTEST_KEY))


def parse_reference(text: str) -> str:
    """Return the variable that a string refers to; empty if it is not a reference.

    Raises:
        ConfigError: It begins like a reference and is not one.
    """
    if not text.startswith(_PREFIX):
        return ""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise ConfigError(f"{text!r} is not a reference to a variable: write $ENV:NAME")
    return found[1]


def _resolve(
    name: str,
    profile: ProfileSection | LegacySection,
    settings: Settings,
    environ: Mapping[str, str],
) -> ResolvedProvider:
    legacy = isinstance(profile, LegacySection)
    key = "provider" if legacy else f"providers.{name}"
    kind = _type_of(profile, key, environ)
    return ResolvedProvider(
        name=kind if legacy else name,
        type=kind,
        model=_resolve_references(profile.model or settings.model, f"{key}.model", environ),
        api_key=_resolve_references(profile.api_key or "", f"{key}.apiKey", environ),
        base_url=_resolve_references(profile.base_url or "", f"{key}.baseURL", environ),
        timeout=profile.timeout / 1000 if profile.timeout else None,
        options=_resolve_references(profile.options, f"{key}.options", environ),
        windows={} if isinstance(profile, LegacySection) else _windows(profile),
    )


def _type_of(profile: ProfileSection | LegacySection, key: str, environ: Mapping[str, str]) -> str:
    # The registry loads prices and server profiles, which few commands need.
    from clew.providers.registry import FAMILIES, find_family  # noqa: PLC0415

    field_name = "name" if isinstance(profile, LegacySection) else "type"
    written = profile.name if isinstance(profile, LegacySection) else profile.type
    there = ", ".join(FAMILIES)
    if not written:
        raise ConfigError(f"{key} has no {field_name}; allowed: {there}")
    kind = _resolve_references(written, f"{key}.{field_name}", environ)
    family = find_family(kind)
    if family is None:
        raise ConfigError(f"{key}.{field_name} cannot be {kind!r}; allowed: {there}")
    return family.name


def _windows(profile: ProfileSection) -> dict[str, int]:
    known = {name: facts.max_context_tokens for name, facts in profile.models.items()}
    return {name: window for name, window in known.items() if isinstance(window, int)}


def _resolve_references(value: Any, key: str, environ: Mapping[str, str]) -> Any:
    """Return `value` with every reference replaced by the value of the variable."""
    match value:
        case str():
            name = parse_reference(value)
            if not name:
                return value
            if not environ.get(name):
                raise _NotSet(f"{key} refers to the variable {name}, which is not set")
            return environ[name]
        case dict():
            return {
                name: _resolve_references(inner, f"{key}.{name}", environ)
                for name, inner in value.items()
            }
        case list():
            return [
                _resolve_references(inner, f"{key}[{index}]", environ)
                for index, inner in enumerate(value)
            ]
        case _:
            return value
