"""Builds the JSON schema of a typed function, and converts a model's arguments to Python values.

Descriptions come from a Google-style docstring. The schema is self-contained: definitions are
inlined, because some providers and most small models do not follow references. Only a recursive
type keeps a reference.
"""

import copy
import inspect
import re
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta, Struct, field

from clew.core.text import split_validation_error
from clew.tools.protocol import ToolContext

_REF = "#/$defs/"
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_HEADING = re.compile(r"(Args|Arguments|Parameters):\s*")
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


class ParsedDocstring(Struct, frozen=True):
    """The parts of a docstring that become part of a tool's schema."""

    summary: str = ""
    arguments: dict[str, str] = field(default_factory=dict)


class ToolSignature(Struct, frozen=True, kw_only=True):
    """The arguments of a function: their schema for the model, and their conversion."""

    struct: type[Struct]
    schema: dict[str, object]
    context: str = ""
    """The name of the parameter that receives the `ToolContext`; empty without one."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments that a model may pass."""
        return self.struct.__struct_fields__

    def read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Validate `arguments` and return them converted, with defaults.

        A number or boolean in a string is converted too: small models quote them.

        Raises:
            ValueError: The message names the argument and the expected ones.
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
            return f"`{missing[1]}`{place} is required and missing. {self._describe_expected()}"
        if unknown := _UNKNOWN.fullmatch(what):
            place = f" of `{where}`" if where else ""
            return f"`{unknown[1]}`{place} is not known. {self._describe_expected()}"
        return f"`{where}`: {what[:1].lower()}{what[1:]}. {self._describe_expected()}"

    def _describe_expected(self) -> str:
        properties = self.schema["properties"]
        required = self.schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list) or not properties:
            return "The tool takes no arguments."
        listed = ", ".join(
            f"{name} ({_type_name(part)}{'' if name in required else ', optional'})"
            for name, part in properties.items()
        )
        return f"Expected: {listed}."


def inspect_signature(function: Callable[..., object], docs: ParsedDocstring) -> ToolSignature:
    """Build the signature of `function`.

    Raises:
        TypeError: A model cannot pass one of the parameters; the message names it.
    """
    label = getattr(function, "__name__", repr(function))
    hints = _hints(function, label)
    context = ""
    fields: list[tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        _refuse_unusable(parameter, hints, label)
        hint = hints[parameter.name]
        if hint is ToolContext:
            context = parameter.name
            continue
        _refuse_unknown_type(parameter.name, hint, label)
        if text := docs.arguments.get(parameter.name):
            hint = Annotated[hint, Meta(description=text)]
        fields.append((parameter.name, hint, _default(parameter.default)))
    struct = msgspec.defstruct(label, fields, kw_only=True, forbid_unknown_fields=True)
    return ToolSignature(struct=struct, schema=_self_contained(struct), context=context)


def _hints(function: Callable[..., object], label: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"{label}: an annotation cannot be resolved: {error}") from error


def _refuse_unusable(parameter: inspect.Parameter, hints: dict[str, Any], label: str) -> None:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TypeError(
            f"{label}: parameter {name!r} takes any number of arguments; use named parameters"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise TypeError(
            f"{label}: parameter {name!r} is positional-only; models pass arguments by name"
        )
    if name == "self" and name not in hints:
        raise TypeError(
            f"{label} is a method: make a tool of the bound one, as in tool(thing.{label})"
        )
    if name not in hints:
        raise TypeError(f"{label}: parameter {name!r} has no annotation")


def _refuse_unknown_type(name: str, hint: object, label: str) -> None:
    try:
        msgspec.json.schema(hint, schema_hook=_schema_hook)
    except TypeError as error:
        raise TypeError(f"{label}: parameter {name!r} has no JSON schema: {error}") from error


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
        # A discriminator refers to definitions; each alternative has its tag anyway.
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

    schema: dict[str, object] = inline(whole, ())
    if recursive:
        schema["$defs"] = {name: inline(definitions[name], (name,)) for name in sorted(recursive)}
    return schema


def _type_name(part: object) -> str:
    if not isinstance(part, dict):
        return "any"
    if "enum" in part:
        return "one of " + ", ".join(map(str, part["enum"]))
    if "anyOf" in part:
        return " or ".join(_type_name(option) for option in part["anyOf"])
    return str(part.get("type", "any"))


def parse_docstring(docstring: str | None) -> ParsedDocstring:
    """Parse the first paragraph and the `Args:` section; a missing part is empty."""
    lines = cleandoc(docstring or "").splitlines()
    return ParsedDocstring(_first_paragraph(lines), _arguments(lines))


def _first_paragraph(lines: list[str]) -> str:
    kept: list[str] = []
    for line in lines:
        if not line.strip() or _HEADING.fullmatch(line):
            break
        kept.append(line.strip())
    return " ".join(kept)


def _arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name, base = "", 0
    for line in _section(lines):
        indent = len(line) - len(line.lstrip())
        base = base or indent
        match = _ARGUMENT.fullmatch(line.strip())
        if indent == base and match:
            name = match[1]
            found[name] = match[2]
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _section(lines: list[str]) -> list[str]:
    start = next((at for at, line in enumerate(lines, 1) if _HEADING.fullmatch(line)), len(lines))
    section: list[str] = []
    for line in lines[start:]:
        if line and not line[0].isspace():
            break
        if line.strip():
            section.append(line)
    return section
