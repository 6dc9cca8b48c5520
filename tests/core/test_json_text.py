"""JSON from outside, nested at any depth, is a value or a typed error."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.json_text import MAX_DEPTH, JsonDecoder, NestedTooDeeply, decode_json

DEEP = (MAX_DEPTH + 1, 500, 990, 100_000)


def arrays(depth: int) -> str:
    return "[" * depth + "]" * depth


def objects(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize("depth", DEEP)
@pytest.mark.parametrize("make", [arrays, objects])
def test_deep_nesting_is_a_decoding_error(make: Any, depth: int) -> None:
    for text in (make(depth), make(depth).encode(), bytearray(make(depth).encode())):
        with pytest.raises(NestedTooDeeply, match="more than 128 levels"):
            decode_json(text)
        with pytest.raises(msgspec.DecodeError):
            JsonDecoder().decode(text)


@pytest.mark.parametrize("make", [arrays, objects])
def test_nesting_up_to_the_limit_is_accepted(make: Any) -> None:
    assert decode_json(make(MAX_DEPTH)) == msgspec.json.decode(make(MAX_DEPTH))
    assert JsonDecoder().decode(make(MAX_DEPTH).encode()) is not None


def test_a_lone_surrogate_is_a_decoding_error() -> None:
    with pytest.raises(msgspec.DecodeError, match="surrogate"):
        decode_json('{"a": "\ud800"}')


def test_a_deep_part_that_the_type_does_not_name_counts_too() -> None:
    with pytest.raises(NestedTooDeeply):
        decode_json(f'{{"a": 1, "b": {arrays(500)}}}', type=dict[str, msgspec.Raw])


def test_brackets_in_strings_and_many_branches_are_not_depth() -> None:
    quoted = msgspec.json.encode(['\\"' + "[" * 999 + '"{\\\\'] * 3)
    wide = "[" + ",".join([arrays(3)] * 999) + "]"

    assert decode_json(quoted) == msgspec.json.decode(quoted)
    assert len(decode_json(wide, type=list[list[Any]])) == 999


@pytest.mark.parametrize("numbers", [[1, 2], list(range(500))])
def test_a_part_of_a_checked_text_is_decoded_again(numbers: list[int]) -> None:
    part = decode_json(f'{{"a": {numbers}}}', type=dict[str, msgspec.Raw])["a"]

    assert JsonDecoder(list[int]).decode(part) == numbers


@given(
    st.recursive(
        st.none() | st.text() | st.integers(-9, 9),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_every_value_comes_back(value: object) -> None:
    assert decode_json(msgspec.json.encode(value)) == value


def test_text_that_is_no_json_or_of_another_shape_is_an_error() -> None:
    for text in ("[" * 999, "{", "nan", ""):
        with pytest.raises(msgspec.DecodeError):
            decode_json(text)
    with pytest.raises(msgspec.ValidationError):
        decode_json("7", type=str)
