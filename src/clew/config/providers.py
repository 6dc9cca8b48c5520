"""From profiles in the settings to a provider that can be reached."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from clew.config.schema import LegacySection, ProfileSection
from clew.config.settings import Settings
from clew.core.errors import ConfigError

_MARK = "$ENV:"
_REFERENCE = re.compile(r"\$ENV:([A-Za-z_][A-Za-z0-9_]*)")


class _NotSet(ConfigError):
    """A variable that is referred to is not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedProvider:
    """A profile with everything filled in that the environment holds."""

    name: str
    """The profile's name; of the legacy one, its type."""
    type: str
    """A name of `clew.providers.registry.FAMILIES`."""
    model: str = ""
    """Empty to leave it to the provider."""
    api_key: str = field(default="", repr=False)
    base_url: str = field(default="", repr=False)
    timeout: float | None = None
    """Seconds without a sign of life; None for the provider's own limit."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields for the provider itself."""
    windows: Mapping[str, int] = field(default_factory=dict)
    """The windows of its models that the profile knows, by name."""


def resolve_provider(settings: Settings, environ: Mapping[str, str]) -> ResolvedProvider | None:
    """Return the provider that the settings choose, or None if they choose none.

    The profile that `currentProvider` names comes first, then the legacy `provider`.

    Raises:
        ConfigError: The profile is not there, has no type or one that is not known, or
            refers to a variable that is not set.
    """
    if settings.current_provider:
        return profile_named(settings, settings.current_provider, environ)
    if settings.provider is None:
        return None
    return _resolved("provider", settings.provider, settings, environ)


def profile_named(settings: Settings, name: str, environ: Mapping[str, str]) -> ResolvedProvider:
    """Return one profile, whether or not it is the one in use.

    Raises:
        ConfigError: As for `resolve_provider`.
    """
    profile = settings.providers.get(name)
    if profile is None:
        there = ", ".join(sorted(settings.providers)) or "none"
        raise ConfigError(
            f"currentProvider is {name!r}, and there is no such profile in providers;"
            f" there are: {there}"
        )
    return _resolved(name, profile, settings, environ)


def current_type(settings: Settings, environ: Mapping[str, str] | None = None) -> str:
    """Return the type of the provider that the settings choose; empty when it has none.

    Nothing else of the profile is looked at, so that a variable that is not set for its key
    does no harm to those who ask for another provider. It raises nothing.

    Args:
        settings: The settings.
        environ: Where to look when the type itself is a reference.
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


def window_of(settings: Settings, profile: ResolvedProvider | None, model: str) -> int | None:
    """Return the window that the settings give a model; None to leave it to the catalogue.

    What the profile says of that model comes before the window for all of them.
    """
    known = profile.windows.get(model) if profile is not None else None
    return known or settings.context.max_context_tokens or None


def mistakes(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the profiles; only the one in use must have all its variables."""
    try:
        resolve_provider(settings, environ)
    except ConfigError as error:
        yield str(error)
    for name in settings.providers:
        if name == settings.current_provider:
            continue
        try:
            profile_named(settings, name, environ)
        except _NotSet:
            continue
        except ConfigError as error:
            yield str(error)


def reference(text: str) -> str:
    """Return the name of the variable that a text refers to, or nothing.

    Raises:
        ConfigError: It begins as a reference and is none.
    """
    if not text.startswith(_MARK):
        return ""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise ConfigError(f"{text!r} is no reference to a variable: write $ENV:NAME")
    return found[1]


def _resolved(
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
        model=_filled(profile.model or settings.model, f"{key}.model", environ),
        api_key=_filled(profile.api_key or "", f"{key}.apiKey", environ),
        base_url=_filled(profile.base_url or "", f"{key}.baseURL", environ),
        timeout=profile.timeout / 1000 if profile.timeout else None,
        options=_filled(profile.options, f"{key}.options", environ),
        windows={} if isinstance(profile, LegacySection) else _windows(profile),
    )


def _type_of(profile: ProfileSection | LegacySection, key: str, environ: Mapping[str, str]) -> str:
    # The list of families loads prices and profiles of servers, which few commands need.
    from clew.providers.registry import FAMILIES, find_family  # noqa: PLC0415

    field_name = "name" if isinstance(profile, LegacySection) else "type"
    written = profile.name if isinstance(profile, LegacySection) else profile.type
    there = ", ".join(FAMILIES)
    if not written:
        raise ConfigError(f"{key} has no {field_name}; allowed: {there}")
    kind = _filled(written, f"{key}.{field_name}", environ)
    family = find_family(kind)
    if family is None:
        raise ConfigError(f"{key}.{field_name} cannot be {kind!r}; allowed: {there}")
    return family.name


def _windows(profile: ProfileSection) -> dict[str, int]:
    known = {name: facts.max_context_tokens for name, facts in profile.models.items()}
    return {name: window for name, window in known.items() if isinstance(window, int)}


def _filled(value: Any, key: str, environ: Mapping[str, str]) -> Any:
    """Return `value` with every reference in it replaced by what the variable holds."""
    match value:
        case str():
            name = reference(value)
            if not name:
                return value
            if not environ.get(name):
                raise _NotSet(f"{key} refers to the variable {name}, which is not set")
            return environ[name]
        case dict():
            return {name: _filled(inner, f"{key}.{name}", environ) for name, inner in value.items()}
        case list():
            return [_filled(inner, f"{key}[{index}]", environ) for index, inner in enumerate(value)]
        case _:
            return value
