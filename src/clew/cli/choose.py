"""Which model answers, and why: flags first, then the environment, then the embedded one."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass

from clew.core.errors import UnknownModel
from clew.providers.catalogue import SMOLLM2
from clew.providers.embedded.provider import Embedded
from clew.providers.protocol import Provider
from clew.providers.registry import FAMILIES, Asked, Family, find, named

_SERVER_MODEL = "default"
"""What a server is asked for when nobody said; most local ones serve but one model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A provider, a model it serves, and the sentence that says how they were chosen."""

    provider: Provider
    model: str
    why: str


def choose(arguments: Namespace, environ: Mapping[str, str]) -> Choice:
    """Pick the provider for this run.

    Raises:
        UnknownModel: Nothing here can reach the model that was asked for.
        ConfigError: Its provider cannot be made.
    """
    model: str | None = arguments.model
    if arguments.provider:
        return _from(_family(arguments.provider, model), environ, base_url=arguments.base_url or "")
    base_url = arguments.base_url or (environ.get("OPENAI_BASE_URL") if model is None else None)
    if base_url:
        asked = Asked(family=FAMILIES["openai_chat"], model=model or _SERVER_MODEL)
        return _from(asked, environ, base_url=base_url)
    if model is not None:
        return _named(model, environ, port=arguments.port)
    for family in FAMILIES.values():
        if family.default_model and family.is_ready(environ):
            return _from(Asked(family=family, model=family.default_model), environ)
    return _embedded(arguments.port)


def chosen(model: str, environ: Mapping[str, str]) -> Choice:
    """Pick the provider of a model that is asked for in mid-session; raises as `choose` does."""
    return _named(model, environ, port=0)


def _named(model: str, environ: Mapping[str, str], *, port: int) -> Choice:
    asked = find(model)
    return _embedded(port) if asked.family.name == "embedded" else _from(asked, environ)


def _embedded(port: int) -> Choice:
    return Choice(
        provider=Embedded(port=port), model=SMOLLM2.name, why="the embedded model, on this machine"
    )


def _family(name: str, model: str | None) -> Asked:
    family = named(name)
    if family is None:
        raise UnknownModel(f"there is no provider {name!r}; there are: {', '.join(FAMILIES)}")
    if not (model or family.default_model):
        raise UnknownModel(f"say which model of {family.name}: --model NAME")
    return Asked(family=family, model=model or family.default_model)


def _from(asked: Asked, environ: Mapping[str, str], *, base_url: str = "") -> Choice:
    family = asked.family
    settings = family.settings(environ, base_url=base_url)
    if family.needs_key and not settings.api_key and not settings.base_url:
        raise UnknownModel(
            f"{asked.model} is served by {family.name}, which needs a key: set"
            f" {' or '.join(family.key_names)}, or name a server with --base-url, or use the"
            f" embedded model: --model {SMOLLM2.name}"
        )
    return Choice(
        provider=family.make(settings), model=asked.model, why=_why(family, environ, base_url)
    )


def _why(family: Family, environ: Mapping[str, str], base_url: str) -> str:
    if base_url:
        return f"the server at {base_url}"
    key = next((name for name in family.key_names if environ.get(name)), "")
    return f"{family.name}, as {key} is set" if key else family.name
