"""Values that are made on first access: `LazyList`, `LazyMapping`, `Memo`, `lazy_property`."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar, cast, overload

_T = TypeVar("_T")
_K = TypeVar("_K")
_D = TypeVar("_D")


_refuse: Callable[[int], Any] = ().__getitem__
"""Makes nothing: for lists whose elements are all made."""


class LazyList(Sequence[_T]):
    """A list of `length` elements that `make` creates by index, once each; it can grow.

    None marks an element that is not made yet, so no element may be None.
    """

    __slots__ = ("_held", "_make", "_waiting")

    def __init__(self, length: int, make: Callable[[int], _T]) -> None:
        self._held: list[_T | None] = [None] * length
        self._make = make
        self._waiting = length

    @classmethod
    def of(cls, elements: Iterable[_T]) -> "LazyList[_T]":
        """Make a list whose elements are all made."""
        made = cls(0, _refuse)
        made.extend(elements)
        return made

    def append(self, element: _T) -> None:
        """Add an element at the end."""
        self._held.append(element)

    def extend(self, elements: Iterable[_T]) -> None:
        """Add elements at the end."""
        self._held.extend(elements)

    def replace_all(self, elements: Iterable[_T]) -> None:
        """Replace all elements; every holder of this list sees the new ones."""
        self._held = list(elements)
        self._waiting = 0

    def iter_made(self) -> Iterator[tuple[int, _T]]:
        """Yield the elements that are made already, with their indices."""
        for index, element in enumerate(self._held):
            if element is not None:
                yield index, element

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> list[_T]: ...
    def __getitem__(self, index: int | slice) -> _T | list[_T]:
        if isinstance(index, slice):
            if self._waiting:
                for place in range(*index.indices(len(self._held))):
                    self._at(place)
            return cast("list[_T]", self._held[index])
        found = self._held[index]
        return self._at(index % len(self._held)) if found is None else found

    def __iter__(self) -> Iterator[_T]:
        return iter(self[:])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self[:] == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LazyList({len(self)} elements, {self._waiting} to be made)"

    def _at(self, index: int) -> _T:
        found = self._held[index]
        if found is None:
            found = self._held[index] = self._make(index)
            self._waiting -= 1
        return found


class LazyMapping(Mapping[_K, _T]):
    """An immutable mapping; a value that is None is made by `make` on first access."""

    __slots__ = ("_held", "_make")

    def __init__(
        self, held: Mapping[_K, _T | None] | None = None, make: Callable[[_K], _T] | None = None
    ) -> None:
        self._held: dict[_K, _T | None] = dict(held or {})
        self._make = make or cast("Callable[[_K], _T]", self._held.__getitem__)

    def merge(self, added: Mapping[_K, _T]) -> "LazyMapping[_K, _T]":
        """Return a mapping that also contains `added`."""
        return LazyMapping({**self._held, **added}, self._make) if added else self

    def without(self, keys: Container[_K]) -> "LazyMapping[_K, _T]":
        """Return a mapping without `keys`."""
        kept = {key: value for key, value in self._held.items() if key not in keys}
        return self if len(kept) == len(self._held) else LazyMapping(kept, self._make)

    def iter_made(self) -> Iterable[tuple[_K, _T | None]]:
        """Return keys and values; None for a value that is not made yet."""
        return self._held.items()

    @overload
    def get(self, key: _K, /) -> _T | None: ...
    @overload
    def get(self, key: _K, /, default: _T | _D) -> _T | _D: ...
    def get(self, key: _K, /, default: _T | _D | None = None) -> _T | _D | None:
        """Return the value of `key`, or `default`; quick for a key that is missing."""
        return self[key] if key in self._held else default

    def __getitem__(self, key: _K) -> _T:
        found = self._held[key]
        if found is None:
            found = self._held[key] = self._make(key)
        return found

    def __iter__(self) -> Iterator[_K]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    __hash__ = None  # type: ignore[assignment]


class Memo:
    """One value per type, which continues its work as a conversation grows.

    The values are caches that never change a result. So all memos are equal: views that differ
    only in what was asked of them are equal too.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[type, object] = {}

    def get(self, kind: type[_T]) -> _T:
        """Return the value of a type, which is made without arguments."""
        if kind not in self._held:
            self._held[kind] = kind()
        return cast("_T", self._held[kind])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memo)

    __hash__ = None  # type: ignore[assignment]


def set_known(instance: object, **values: object) -> None:
    """Set lazy properties of an instance whose values are known already."""
    instance.__dict__.update(values)


class lazy_property(Generic[_T]):  # noqa: N801 - named like `property`
    """A property that is computed on first access, for classes whose instances have a `__dict__`.

    `functools.cached_property` does the same, but up to Python 3.11 it takes a lock, which takes
    longer than most values here.
    """

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | _T:
        if instance is None:
            return self
        made = instance.__dict__[self._name] = self._make(instance)
        return made
