"""A list whose elements are made when they are first looked at."""

import pytest

from clew.context.lazy_list import LazyList, LazyMapping, lazy_property


def numbers(length: int) -> tuple[LazyList[str], list[int]]:
    """Return a list, and the indices it was asked to make."""
    made: list[int] = []

    def make(index: int) -> str:
        made.append(index)
        return str(index)

    return LazyList(length, make), made


def test_an_element_is_made_once_and_when_it_is_looked_at() -> None:
    some, made = numbers(5)

    assert (some[1], some[-1], some[1], made) == ("1", "4", "1", [1, 4])
    assert list(some.iter_made()) == [(1, "1"), (4, "4")]
    assert some[1:3] == ["1", "2"]
    assert made == [1, 4, 2]
    assert list(some) == ["0", "1", "2", "3", "4"]
    assert some[::-2] == ["4", "2", "0"]
    assert sorted(made) == [0, 1, 2, 3, 4]


def test_it_grows_at_its_end_without_making_anything() -> None:
    some, made = numbers(2)
    some.append("a")
    some.extend(["b", "c"])

    assert (len(some), some[2], some[-1], made) == (5, "a", "c", [])
    assert next(reversed(some)) == "c"
    assert repr(some) == "LazyList(5 elements, 2 to be made)"
    assert some == ["0", "1", "a", "b", "c"]


def test_what_it_holds_can_be_exchanged() -> None:
    some, made = numbers(2)
    some.replace_all(["x"])

    assert (some[:], made) == (["x"], [])


def test_it_equals_any_sequence_of_the_same_elements() -> None:
    some, _ = numbers(2)

    assert some == LazyList.of(["0", "1"])
    assert some != ["0"]
    assert some != {"0", "1"}


def test_there_is_nothing_beyond_its_end() -> None:
    some, _ = numbers(1)

    with pytest.raises(IndexError):
        some[1]
    with pytest.raises(IndexError):
        LazyList.of([])[0]


def test_a_value_of_a_mapping_is_made_once_and_when_it_is_looked_at() -> None:
    made: list[int] = []

    def make(key: int) -> str:
        made.append(key)
        return str(key)

    some = LazyMapping({1: None, 2: "two"}, make)
    more = some.merge({3: "three"})

    assert dict(more.iter_made()) == {1: None, 2: "two", 3: "three"}
    assert (more[1], more[1], more.get(4), made) == ("1", "1", None, [1])
    assert more.without({2, 3}) == {1: "1"}
    assert some.merge({}) is some
    assert some.without({9}) is some
    assert len(some) == 2


def test_a_lazy_property_is_computed_once() -> None:
    computed: list[int] = []

    class Square:
        def __init__(self, side: int) -> None:
            self.side = side

        @lazy_property
        def area(self) -> int:
            """The area."""
            computed.append(self.side)
            return self.side**2

    one, other = Square(2), Square(3)

    assert (one.area, one.area, other.area) == (4, 4, 9)
    assert computed == [2, 3]
    assert Square.area.__doc__ == "The area."
