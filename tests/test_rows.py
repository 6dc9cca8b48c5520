"""A table of rows is one test: it runs every row, and names those that fail."""

import inspect
from pathlib import Path

import pytest

from tests.rows import each_row


def test_every_row_runs_and_a_failure_names_its_row() -> None:
    seen: list[int] = []

    @each_row("number, double", [(1, 2), (2, 5), (3, 6)])
    def check(number: int, double: int) -> None:
        seen.append(number)
        assert 2 * number == double

    with pytest.raises(AssertionError) as caught:
        check()

    assert seen == [1, 2, 3]
    assert caught.value.__notes__ == ["row 2 of 3: (2, 5)"]


def test_several_failures_are_all_reported() -> None:
    @each_row("text", ["a", "b", ""])
    def check(text: str) -> None:
        assert not text

    with pytest.raises(ExceptionGroup, match="2 of 3 rows failed") as caught:
        check()

    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["row 1 of 3: 'a'"],
        ["row 2 of 3: 'b'"],
    ]


@each_row("name", ["one", "two"])
def test_a_table_may_use_fixtures(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()

    assert (tmp_path / "one").exists()


def test_only_fixtures_are_left_as_arguments() -> None:
    assert [*inspect.signature(test_a_table_may_use_fixtures).parameters] == ["tmp_path"]


def test_a_table_without_rows_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="without rows"):
        each_row("name", [])
