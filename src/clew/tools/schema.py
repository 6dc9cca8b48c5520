"""From a typed function to a JSON schema, and from a model's arguments to real ones.

The schema is self-contained: definitions are written where they are used, because some
providers and most small models do not follow references. Only a type that contains
itself keeps one.
"""

import copy
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta, Struct

from clew.core.text import split_validation_error
from clew.tools.docstring import ParsedDocstring
from clew.tools.protocol import ToolContext

_REF = "#/$defs/"
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


class ToolSignature(Struct, frozen=True, kw_only=True):
    """The arguments of one function: how a model sees them and how they are read."""

    struct: type[Struct]
    schema: dict[str, object]
    place: str = ""
    """The parameter that receives the `ToolContext`, or empty."""

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments a model may give."""
        return self.struct.__struct_fields__

    def read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Check `arguments` and return them converted, defaults filled in.

        A number or truth value that came as a string is taken for what it says: small
        models quote them.

        Raises:
            ValueError: A sentence that names the argument and what was expected.
        """
        try:
            value = self._convert(arguments, strict=True)
        except msgspec.ValidationError:
            try:
                value = self._convert(arguments, strict=False)
            except msgspec.ValidationError as error:
                raise ValueError(self._explain(error)) from error
        return {name: getattr(value, name) for name in self.names}

    def _convert(self, arguments: dict[str, Any], *, strict: bool) -> Struct:
        return msgspec.convert(
            arguments, type=self.struct, strict=strict, str_keys=True, dec_hook=_decode
        )

    def _explain(self, error: msgspec.ValidationError) -> str:
        what, where = split_validation_error(error)
        if missing := _MISSING.fullmatch(what):
            place = f" of `{where}`" if where else ""
            return f"`{missing[1]}`{place} is required and was not given. {self._expected()}"
        if unknown := _UNKNOWN.fullmatch(what):
            place = f" of `{where}`" if where else ""
            return f"`{unknown[1]}`{place} is not known. {self._expected()}"
        return f"`{where}`: {what[:1].lower()}{what[1:]}. {self._expected()}"

    def _expected(self) -> str:
        properties = self.schema["properties"]
        required = self.schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list) or not properties:
            return "No arguments are taken."
        listed = ", ".join(
            f"{name} ({_type_name(part)}{'' if name in required else ', optional'})"
            for name, part in properties.items()
        )
        return f"Expected: {listed}."


def inspect_signature(function: Callable[..., object], docs: ParsedDocstring) -> ToolSignature:
    """Work out the arguments of `function`.

    Raises:
        TypeError: A parameter cannot be given by a model; the message names it.
    """
    label = getattr(function, "__name__", repr(function))
    hints = _hints(function, label)
    place = ""
    fields: list[tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        _refuse_unusable(parameter, hints, label)
        hint = hints[parameter.name]
        if hint is ToolContext:
            place = parameter.name
            continue
        _refuse_unknown_type(parameter.name, hint, label)
        if text := docs.arguments.get(parameter.name):
            hint = Annotated[hint, Meta(description=text)]
        fields.append((parameter.name, hint, _default(parameter.default)))
    struct = msgspec.defstruct(label, fields, kw_only=True, forbid_unknown_fields=True)
    return ToolSignature(struct=struct, schema=_self_contained(struct), place=place)


def _hints(function: Callable[..., object], label: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"{label}: an annotation cannot be resolved: {error}") from error


def _refuse_unusable(parameter: inspect.Parameter, hints: dict[str, Any], label: str) -> None:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TypeError(f"{label}: parameter {name!r} takes any number of arguments; name them")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise TypeError(f"{label}: parameter {name!r} is positional-only; a model gives names")
    if name not in hints:
        raise TypeError(f"{label}: parameter {name!r} has no annotation")


def _refuse_unknown_type(name: str, hint: object, label: str) -> None:
    try:
        msgspec.json.schema(hint, schema_hook=_schema_hook)
    except TypeError as error:
        raise TypeError(f"{label}: parameter {name!r} has no JSON form: {error}") from error


def _default(default: object) -> object:
    if default is inspect.Parameter.empty:
        return msgspec.NODEFAULT
    try:
        msgspec.to_builtins(default, str_keys=True)
    except TypeError:
        return msgspec.field(default_factory=lambda: default)
    if isinstance(default, list | dict | set) and default:
        return msgspec.field(default_factory=lambda: copy.deepcopy(default))
    return default


def _schema_hook(kind: type) -> dict[str, Any]:
    if issubclass(kind, Path):
        return {"type": "string", "format": "path"}
    raise NotImplementedError


def _decode(kind: type, value: object) -> object:
    if issubclass(kind, Path) and isinstance(value, str):
        return kind(value)
    raise msgspec.ValidationError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _self_contained(struct: type[Struct]) -> dict[str, object]:
    whole = msgspec.json.schema(struct, schema_hook=_schema_hook)
    definitions: dict[str, Any] = whole.pop("$defs", {})
    recursive: set[str] = set()

    def inline(node: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [inline(item, inside) for item in node]
        if not isinstance(node, dict):
            return node
        # A discriminator names definitions by reference; each alternative has its tag anyway.
        left_out = {"$ref", "discriminator"} if "anyOf" in node else {"$ref"}
        rest = {key: inline(value, inside) for key, value in node.items() if key not in left_out}
        if "$ref" not in node:
            return rest
        name = node["$ref"].removeprefix(_REF)
        if name in inside:
            recursive.add(name)
            return node
        target = inline(definitions[name], (*inside, name))
        return {key: value for key, value in target.items() if key != "title"} | rest

    made: dict[str, object] = inline(whole, ())
    if recursive:
        made["$defs"] = {name: inline(definitions[name], (name,)) for name in sorted(recursive)}
    return made


def _type_name(part: object) -> str:
    if not isinstance(part, dict):
        return "any"
    if "enum" in part:
        return "one of " + ", ".join(map(str, part["enum"]))
    if "anyOf" in part:
        return " or ".join(_type_name(option) for option in part["anyOf"])
    return str(part.get("type", "any"))
