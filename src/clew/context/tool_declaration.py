"""Writes a tool's declaration as OpenAI's models see it: a TypeScript function type.

OpenAI and Google translate JSON schemas before the model reads them. The result is about half as
long as the schema, so an estimate from the schema would be far too high for many tools.
"""

from collections.abc import Mapping

import msgspec

from clew.core.models import ToolSpec


def declare_type(spec: ToolSpec) -> str:
    """Return the declaration of one tool."""
    heading = f"// {spec.description}\n" if spec.description else ""
    fields = _write_fields(spec.schema)
    return f"{heading}type {spec.name} = ({f'_: {fields}' if fields else ''}) => any;\n"


def _write_fields(schema: Mapping[str, object]) -> str:
    """Return an object type, or an empty string for an object without properties."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not properties:
        return ""
    needed = frozenset(map(str, required)) if isinstance(required, list | tuple) else frozenset()
    lines = [_write_field(name, inner, name in needed) for name, inner in properties.items()]
    return "\n".join(("{", *lines, "}"))


def _write_field(name: str, schema: object, is_needed: bool) -> str:  # noqa: FBT001
    note = schema.get("description") if isinstance(schema, Mapping) else None
    heading = f"// {note}\n" if note else ""
    return f"{heading}{name}{'' if is_needed else '?'}: {_write_type(schema)},"


def _write_type(schema: object) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if isinstance(values := schema.get("enum"), list | tuple):
        return " | ".join(msgspec.json.encode(value).decode() for value in values)
    if isinstance(choices := schema.get("anyOf") or schema.get("oneOf"), list | tuple):
        return " | ".join(map(_write_type, choices))
    match schema.get("type"):
        case "array":
            return f"{_write_type(schema.get('items'))}[]"
        case "object":
            return _write_fields(schema) or "object"
        case "integer":
            return "number"
        case list() | tuple() as names:
            return " | ".join(map(str, names))
        case name:
            return str(name or "any")
