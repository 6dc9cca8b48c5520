"""Decode JSON from outside: from a model, a server or a file.

All of Clew decodes JSON here. Text that is nested deeply is an error like any other invalid text:
a decoder, or a function that walks over the value, would exhaust the stack otherwise.
"""

import re
from functools import cached_property, lru_cache
from typing import Any, Generic, TypeAlias, TypeVar, overload

import msgspec

MAX_DEPTH = 128
"""Levels of arrays and objects that are accepted."""

_SHALLOW = 2 * MAX_DEPTH
"""A text of this length has too few brackets for more levels."""
_STRING = rb'(?s)"(?:[^"\\]+|\\.)*+"'
_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))

T = TypeVar("T")
JsonText: TypeAlias = bytes | bytearray | str | msgspec.Raw


class NestedTooDeeply(msgspec.DecodeError):
    """The text has more than `MAX_DEPTH` levels of arrays and objects."""

    def __init__(self) -> None:
        super().__init__(f"JSON is nested more than {MAX_DEPTH} levels deep")


class JsonDecoder(Generic[T]):
    """A reusable decoder for one type, like `msgspec.json.Decoder`."""

    @overload
    def __init__(self: "JsonDecoder[Any]") -> None: ...
    @overload
    def __init__(self: "JsonDecoder[T]", kind: type[T]) -> None: ...
    @overload
    def __init__(self: "JsonDecoder[Any]", kind: Any) -> None: ...

    def __init__(self, kind: Any = Any) -> None:
        self._kind = kind

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[T]:
        # Built with the first text: msgspec inspects every type that `kind` names, and an import
        # should not wait for that.
        return msgspec.json.Decoder(self._kind)

    def decode(self, data: JsonText) -> T:
        """Return the value of a JSON text.

        Raises:
            NestedTooDeeply: The text has too many levels.
            msgspec.DecodeError: The text is not JSON, or has another shape.
        """
        try:
            value: T = self._decoder.decode(data)
        except RecursionError:
            raise NestedTooDeeply from None
        except UnicodeEncodeError:
            raise msgspec.DecodeError("JSON has a lone surrogate") from None
        if len(data) > _SHALLOW and is_nested_deeply(data):
            raise NestedTooDeeply
        return value


@overload
def decode_json(data: JsonText) -> Any: ...
@overload
def decode_json(data: JsonText, *, type: type[T]) -> T: ...
@overload
def decode_json(data: JsonText, *, type: Any) -> Any: ...


def decode_json(data: JsonText, *, type: Any = Any) -> Any:  # noqa: A002 - as msgspec calls it
    """Return the value of a JSON text; see `JsonDecoder.decode`."""
    return _decoder_for(type).decode(data)


@lru_cache(maxsize=64)
def _decoder_for(kind: Any) -> JsonDecoder[Any]:
    return JsonDecoder(kind)


def is_nested_deeply(data: JsonText) -> bool:
    """Does valid JSON have more than `MAX_DEPTH` levels?"""
    if isinstance(data, msgspec.Raw):
        return False  # part of a text that was already checked
    if isinstance(data, str):
        if data.count("[") + data.count("{") <= MAX_DEPTH:
            return False
        data = data.encode(errors="replace")
    elif data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    brackets = re.sub(_STRING, b"", data).translate(None, _OTHERS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        # Each round removes the innermost level of every branch.
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)
