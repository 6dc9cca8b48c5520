"""Settings for display: with their sources, and without secrets."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from clew.config.documents import find_line
from clew.config.layers import get_value, iter_values, put_value
from clew.config.providers import parse_reference
from clew.config.settings import LoadedSettings
from clew.core.errors import ConfigError
from clew.core.redaction import redact
from clew.core.secret_variables import is_secret_variable

REDACTED = "[redacted]"
_SECRET_FIELDS = frozenset({"headers", "Authorization", "authorization", "cookie", "Cookie"})
"""Fields of requests whose values are secret."""
_NAMED = re.compile(r"(providers?|currentProvider)\b(\.[\w-]+)*")
_CREDENTIALS = re.compile(r"//[^/@]*@")


def redact_settings(loaded: LoadedSettings) -> dict[str, Any]:
    """Return the merged settings that apply, with every secret replaced."""
    document: dict[str, Any] = {}
    for path, value in iter_values(loaded.document):
        put_value(document, path, _redact(path, value, loaded.environ))
    return document


def list_values(loaded: LoadedSettings) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield the key, the value and the files of each setting that applies."""
    for path, value in iter_values(redact_settings(loaded)):
        yield ".".join(path), value, loaded.origins.get(path, ())


def locate_problem(loaded: LoadedSettings, problem: str) -> str:
    """Return a problem with the file and the line of the setting that it begins with."""
    named = _NAMED.match(problem)
    path = tuple(named[0].split(".")) if named else ("context",)
    for layer in reversed(loaded.layers):
        if layer.content is not None and get_value(layer.data, path[:2]) is not None:
            line = find_line(path, layer.content.decode("utf-8-sig", "replace"), layer.path)
            return f"{layer.path}:{line}: {problem}" if line else f"{layer.path}: {problem}"
    return problem


def _redact(path: tuple[str, ...], value: Any, environ: Mapping[str, str]) -> Any:
    match path:
        case (("provider" | "providers" | "mcpServers"), *_):
            return _redact_provider(path, value, environ)
        case ("env", name):
            return REDACTED if is_secret_variable(name) else _clean(name, str(value))
        case _:
            return _clean(path[-1], value)


def _redact_provider(path: tuple[str, ...], value: Any, environ: Mapping[str, str]) -> Any:
    match value:
        case str():
            if variable := _variable(value):
                return f"{value} ({'set' if environ.get(variable) else 'not set'})"
            if _is_secret_field(path):
                return REDACTED
            return _clean(path[-1], _CREDENTIALS.sub("//", value))
        case list():
            return [_redact_provider(path, inner, environ) for inner in value]
        case dict():
            return {
                key: _redact_provider((*path, key), inner, environ) for key, inner in value.items()
            }
        case _:
            return value


def _is_secret_field(path: tuple[str, ...]) -> bool:
    plain = path[-1].replace("-", "_")
    return (
        path[-1] == "apiKey" or is_secret_variable(plain) or bool(_SECRET_FIELDS.intersection(path))
    )


def _variable(text: str) -> str:
    try:
        return parse_reference(text)
    except ConfigError:
        return ""


def _clean(name: str, value: Any) -> Any:
    return redact({name: value})[name]
