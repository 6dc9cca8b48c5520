"""Saying what a key may hold, for errors and documentation."""

from msgspec import inspect

_SCALARS: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.StrType: "a text",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
    inspect.AnyType: "anything",
}


def allowed(kind: object) -> str:
    """Return in words what a value of the type `kind` may be."""
    return _said(inspect.type_info(kind))


def described(kind: object) -> str:
    """Return the description that the type `kind` carries, or nothing."""
    info = inspect.type_info(kind)
    while isinstance(info, inspect.Metadata):
        if info.extra_json_schema and "description" in info.extra_json_schema:
            return str(info.extra_json_schema["description"])
        info = info.type
    return ""


def _said(info: inspect.Type) -> str:
    match info:
        case inspect.Metadata(type=inner):
            return _said(inner)
        case inspect.LiteralType(values=values):
            return ", ".join(_literal(value) for value in values)
        case inspect.IntType() | inspect.FloatType():
            return _number(info)
        case inspect.StrType(max_length=int(most)):
            return f"a text of 1 to {most} characters"
        case inspect.ListType(item_type=item):
            return "a list of texts" if isinstance(item, inspect.StrType) else "a list"
        case inspect.UnionType(types=types):
            return " or ".join(dict.fromkeys(_said(each) for each in types))
        case _:
            return _SCALARS.get(type(info), "something else")


def _number(info: inspect.IntType | inspect.FloatType) -> str:
    noun = "a whole number" if isinstance(info, inspect.IntType) else "a number"
    limits = [
        f"{words} {limit:g}"
        for words, limit in (("above", info.gt), ("of at least", info.ge), ("at most", info.le))
        if limit is not None
    ]
    return " ".join([noun, " and ".join(limits)]).strip()


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
