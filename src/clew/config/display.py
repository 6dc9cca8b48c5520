"""Settings as people may see them: with their sources, and without secrets."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from clew.config.layers import leaves, put
from clew.config.providers import reference
from clew.config.settings import Loaded
from clew.core.errors import ConfigError
from clew.core.redaction import redact
from clew.tools.builtin.child_process import is_secret

HIDDEN = "[redacted]"
_SECRET_FIELDS = frozenset({"headers", "Authorization", "authorization", "cookie", "Cookie"})
"""What a request carries in these is for the server alone."""
_CREDENTIALS = re.compile(r"//[^/@]*@")


def shown(loaded: Loaded) -> dict[str, Any]:
    """Return what counts, merged, with every secret hidden."""
    document: dict[str, Any] = {}
    for way, value in leaves(loaded.document):
        put(document, way, _hidden(way, value, loaded.environ))
    return document


def rows(loaded: Loaded) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield each value that counts with its key before it and its files behind it."""
    for way, value in leaves(shown(loaded)):
        yield ".".join(way), value, loaded.origins.get(way, ())


def _hidden(way: tuple[str, ...], value: Any, environ: Mapping[str, str]) -> Any:
    match way:
        case (("provider" | "providers"), *_):
            return _of_provider(way, value, environ)
        case ("env", name):
            return HIDDEN if is_secret(name) else _clean(name, str(value))
        case _:
            return _clean(way[-1], value)


def _of_provider(way: tuple[str, ...], value: Any, environ: Mapping[str, str]) -> Any:
    match value:
        case str():
            if variable := _variable(value):
                return f"{value} ({'set' if environ.get(variable) else 'not set'})"
            if _holds_a_secret(way):
                return HIDDEN
            return _clean(way[-1], _CREDENTIALS.sub("//", value))
        case list():
            return [_of_provider(way, inner, environ) for inner in value]
        case dict():
            return {key: _of_provider((*way, key), inner, environ) for key, inner in value.items()}
        case _:
            return value


def _holds_a_secret(way: tuple[str, ...]) -> bool:
    plain = way[-1].replace("-", "_")
    return way[-1] == "apiKey" or is_secret(plain) or bool(_SECRET_FIELDS.intersection(way))


def _variable(text: str) -> str:
    try:
        return reference(text)
    except ConfigError:
        return ""


def _clean(name: str, value: Any) -> Any:
    return redact({name: value})[name]
