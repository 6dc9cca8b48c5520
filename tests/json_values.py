"""Hypothesis strategies for any type that msgspec can encode, made from the type itself."""

from functools import cache
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_NUMBERS = st.integers(-(2**31), 2**31)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_DEPTH = 4


@cache
def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a type."""
    return _values(inspect.type_info(kind), _DEPTH)


def _values(info: inspect.Type, depth: int) -> st.SearchStrategy[Any]:  # noqa: C901, PLR0911, PLR0912
    match info:
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            return _NUMBERS
        case inspect.FloatType():
            return _FLOATS
        case inspect.StrType():
            return _TEXT
        case inspect.BytesType():
            return st.binary(max_size=12)
        case inspect.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case inspect.LiteralType(values=values):
            return st.sampled_from(list(values))
        case inspect.UnionType(types=types):
            return st.one_of([_values(one, depth) for one in types])
        case inspect.VarTupleType() if depth <= 0:
            return st.just(())
        case inspect.VarTupleType(item_type=item):
            return st.lists(_values(item, depth - 1), max_size=2).map(tuple)
        case inspect.TupleType(item_types=items):
            return st.tuples(*(_values(one, depth - 1) for one in items))
        case inspect.ListType(item_type=item):
            return st.lists(_values(item, depth - 1), max_size=2)
        case inspect.SetType(item_type=item) | inspect.FrozenSetType(item_type=item):
            return st.frozensets(_values(item, depth - 1), max_size=2)
        case inspect.DictType(value_type=value):
            return st.dictionaries(_TEXT, _values(value, depth - 1), max_size=2)
        case inspect.AnyType() | inspect.CustomType():
            return _JSON
        case inspect.StructType(cls=cls, fields=fields):
            return st.builds(
                cls, **{one.name: st.deferred(_later(one.type, depth - 1)) for one in fields}
            )
        case inspect.TypedDictType(fields=fields):
            # A policy and prices check their numbers, and refuse arbitrary ones.
            chosen = {f.name: f.type for f in fields if f.name not in ("policy", "prices")}
            return st.fixed_dictionaries(
                {}, optional={name: _values(kind, depth - 1) for name, kind in chosen.items()}
            )
        case _:
            raise NotImplementedError(f"{info}")


def _later(info: inspect.Type, depth: int) -> Any:
    return lambda: _values(info, depth)
