"""Validates JSON values with a JSON Schema, with errors that a model can act on.

Covers the vocabulary for applying and validating of draft 2020-12 (and `definitions` of older
drafts). `format` and other annotations are ignored, as the standard allows. A schema that needs
more, such as a reference to another document, is rejected when it is loaded.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from clew.core.errors import ConfigError
from clew.core.json_text import decode_json

Schema: TypeAlias = Mapping[str, Any] | bool

_MAX_SHOWN = 80
_MAX_DEPTH = 180
_UNSUPPORTED = frozenset(
    {"$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems"}
)
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        not isinstance(value, bool)
        and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
}


def load_schema(text: bytes) -> "JsonSchema":
    """Read a schema.

    Raises:
        ConfigError: The text is not JSON, or not a schema that can be checked.
    """
    try:
        schema = decode_json(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"the schema is not valid JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ConfigError("the schema must be a JSON object")
    _inspect(schema, "")
    return JsonSchema(schema)


class JsonSchema:
    """A schema that was checked for what `find_errors` supports."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    def find_errors(self, value: Any) -> list[str]:
        """Return what is wrong with a value, each with its place, such as `$.items[2].name`."""
        return list(_Validator(self.document).check(value, self.document, "$"))


def _inspect(schema: Any, where: str) -> None:
    """Reject what the validator would silently ignore."""
    match schema:
        case dict():
            for key in schema:
                if key in _UNSUPPORTED:
                    raise ConfigError(f"the schema uses {key}, which is not supported")
            reference = schema.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#"):
                raise ConfigError(
                    f"the schema refers to {reference}; only references inside the file work"
                )
            _inspect_keywords(schema, where)
            for key, inner in schema.items():
                if key not in ("enum", "const", "default", "examples"):
                    _inspect(inner, f"{where}/{key}")
        case list():
            for index, inner in enumerate(schema):
                _inspect(inner, f"{where}/{index}")
        case _:
            pass


def _inspect_keywords(schema: Mapping[str, Any], where: str) -> None:
    kinds = schema.get("type", [])
    named = kinds if isinstance(kinds, list) else [kinds]
    if where.endswith("/properties"):
        return
    for kind in named:
        if isinstance(kind, str) and kind not in _TYPES:
            raise ConfigError(f"the schema has the unknown type {kind!r} at #{where}")
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"the pattern at #{where} is not valid: {error}") from error


class _Validator:
    """Checks values against the schemas of one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._depth = 0

    def check(self, value: Any, schema: Schema, at: str) -> Iterator[str]:
        """Yield what is wrong with `value`."""
        if isinstance(schema, bool):
            if not schema:
                yield f"{at} is not allowed"
            return
        if self._depth >= _MAX_DEPTH:
            yield f"{at} is nested too deeply"
            return
        self._depth += 1
        try:
            yield from self._check_keywords(value, schema, at)
        finally:
            self._depth -= 1

    def _check_keywords(self, value: Any, schema: Mapping[str, Any], at: str) -> Iterator[str]:
        yield from _check_type(value, schema, at)
        if isinstance(schema.get("$ref"), str):
            yield from self.check(value, self._resolve(schema["$ref"]), at)
        if isinstance(value, bool):
            pass
        elif isinstance(value, dict):
            yield from self._check_object(value, schema, at)
        elif isinstance(value, list):
            yield from self._check_array(value, schema, at)
        elif isinstance(value, str):
            yield from _check_string(value, schema, at)
        elif isinstance(value, int | float):
            yield from _check_number(value, schema, at)
        yield from self._check_combinations(value, schema, at)

    def _resolve(self, reference: str) -> Schema:
        found: Any = self._document
        for part in reference.lstrip("#").strip("/").split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if not name:
                continue
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                raise ConfigError(f"the schema refers to {reference}, which it does not define")
        return found if isinstance(found, dict | bool) else {}

    def _check_object(
        self, value: Mapping[str, Any], schema: Mapping[str, Any], at: str
    ) -> Iterator[str]:
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{at} lacks the property {name!r}"
        for name, others in schema.get("dependentRequired", {}).items():
            if name in value:
                yield from (
                    f"{at} has {name!r} and therefore needs {other!r}"
                    for other in others
                    if other not in value
                )
        yield from _check_count(len(value), schema, ("minProperties", "maxProperties"), at)
        for name, item in value.items():
            yield from self._check_property(name, item, schema, at)

    def _check_property(
        self, name: str, item: Any, schema: Mapping[str, Any], at: str
    ) -> Iterator[str]:
        place = f"{at}.{name}" if name.isidentifier() else f"{at}[{name!r}]"
        if "propertyNames" in schema:
            yield from self.check(name, schema["propertyNames"], f"the name {place}")
        known = name in schema.get("properties", {})
        if known:
            yield from self.check(item, schema["properties"][name], place)
        for pattern, inner in schema.get("patternProperties", {}).items():
            if re.search(pattern, name):
                known = True
                yield from self.check(item, inner, place)
        if not known and "additionalProperties" in schema:
            yield from self.check(item, schema["additionalProperties"], place)

    def _check_array(
        self, value: Sequence[Any], schema: Mapping[str, Any], at: str
    ) -> Iterator[str]:
        yield from _check_count(len(value), schema, ("minItems", "maxItems"), at)
        if schema.get("uniqueItems") and len({_canonical(item) for item in value}) < len(value):
            yield f"{at} has equal items"
        first = schema.get("prefixItems", ())
        for index, item in enumerate(value):
            place = f"{at}[{index}]"
            if index < len(first):
                yield from self.check(item, first[index], place)
            elif "items" in schema:
                yield from self.check(item, schema["items"], place)
        if "contains" in schema:
            matches = sum(self._accepts(item, schema["contains"]) for item in value)
            least, most = schema.get("minContains", 1), schema.get("maxContains", math.inf)
            if not least <= matches <= most:
                yield f"{at} has {matches} items that match `contains`; needed: at least {least}"

    def _check_combinations(self, value: Any, schema: Mapping[str, Any], at: str) -> Iterator[str]:
        for inner in schema.get("allOf", ()):
            yield from self.check(value, inner, at)
        if "anyOf" in schema and not any(self._accepts(value, one) for one in schema["anyOf"]):
            yield self._explain_choice(value, schema["anyOf"], at)
        if "oneOf" in schema:
            matches = sum(self._accepts(value, inner) for inner in schema["oneOf"])
            if matches > 1:
                yield f"{at} matches {matches} alternatives of `oneOf` instead of one"
            elif not matches:
                yield self._explain_choice(value, schema["oneOf"], at)
        if "not" in schema and self._accepts(value, schema["not"]):
            yield f"{at} matches what `not` forbids"
        if "if" in schema:
            branch = "then" if self._accepts(value, schema["if"]) else "else"
            yield from self.check(value, schema.get(branch, True), at)
        for name, inner in schema.get("dependentSchemas", {}).items():
            if isinstance(value, dict) and name in value:
                yield from self.check(value, inner, at)

    def _accepts(self, value: Any, schema: Schema) -> bool:
        return next(self.check(value, schema, "$"), None) is None

    def _explain_choice(self, value: Any, schemas: Sequence[Schema], at: str) -> str:
        """Name the first error of the alternative that comes closest."""
        errors = [list(self.check(value, inner, at)) for inner in schemas]
        closest = min(errors, key=len, default=[])
        return f"{at} matches no alternative: {closest[0]}" if closest else f"{at} is not allowed"


def _check_type(value: Any, schema: Mapping[str, Any], at: str) -> Iterator[str]:
    kinds = schema.get("type")
    if kinds is not None:
        named = kinds if isinstance(kinds, list) else [kinds]
        if not any(_TYPES[kind](value) for kind in named):
            yield f"{at} must be of type {' or '.join(named)}, not {_show(value)}"
    if "enum" in schema and _canonical(value) not in map(_canonical, schema["enum"]):
        yield f"{at} must be one of {_show(schema['enum'])}, not {_show(value)}"
    if "const" in schema and _canonical(value) != _canonical(schema["const"]):
        yield f"{at} must be {_show(schema['const'])}, not {_show(value)}"


def _check_string(value: str, schema: Mapping[str, Any], at: str) -> Iterator[str]:
    yield from _check_count(len(value), schema, ("minLength", "maxLength"), at)
    pattern = schema.get("pattern")
    if pattern is not None and not re.search(pattern, value):
        yield f"{at} does not match the pattern {pattern}"


def _check_number(value: float, schema: Mapping[str, Any], at: str) -> Iterator[str]:
    limits: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
        ("minimum", "at least", lambda one, limit: one >= limit),
        ("maximum", "at most", lambda one, limit: one <= limit),
        ("exclusiveMinimum", "more than", lambda one, limit: one > limit),
        ("exclusiveMaximum", "less than", lambda one, limit: one < limit),
    )
    for keyword, words, holds in limits:
        limit = schema.get(keyword)
        if isinstance(limit, int | float) and not holds(value, limit):
            yield f"{at} must be {words} {limit}, not {value}"
    step = schema.get("multipleOf")
    if step and abs(value / step - round(value / step)) > 1e-9:
        yield f"{at} must be a multiple of {step}, not {value}"


def _check_count(
    count: int, schema: Mapping[str, Any], keywords: tuple[str, str], at: str
) -> Iterator[str]:
    least, most = (schema.get(keyword) for keyword in keywords)
    unit = {"minLength": "characters", "minItems": "items"}.get(keywords[0], "properties")
    if least is not None and count < least:
        yield f"{at} needs at least {least} {unit} and has {count}"
    if most is not None and count > most:
        yield f"{at} may have at most {most} {unit} and has {count}"


def _canonical(value: Any) -> str:
    """Return the same text for equal JSON values: for 1 and 1.0, but not for 1 and true."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list):
        return f"[{','.join(map(_canonical, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key!r}:{_canonical(value[key])}' for key in sorted(value))}}}"
    return msgspec.json.encode(value).decode()


def _show(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
