"""The requirement ledger and its table agree with the tests."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.requirements import PARTLY, TABLE, report, table_ids, unknown_ids

TESTS = Path(__file__).parent
IDS = table_ids(TABLE.read_text(encoding="utf-8"))


def named_ids(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)) if "mark.req" in source else ():
        match node:
            case ast.Call(func=ast.Attribute(attr="req")) if (
                ast.unparse(node.func) == "pytest.mark.req"
            ):
                yield from (ast.literal_eval(argument) for argument in node.args)


@cache
def ids_of_tests() -> tuple[tuple[Path, str], ...]:
    """Return the ids that test files name, with the file."""
    return tuple(
        (path, id_)
        for path in sorted(TESTS.rglob("*.py"))
        for id_ in named_ids(path.read_text(encoding="utf-8"))
    )


def test_every_id_in_the_table_is_well_formed() -> None:
    assert [id_ for id_ in IDS if not re.fullmatch(r"[A-Z]{3}-[1-9]\d*", id_)] == []


def test_every_id_in_the_table_is_there_once() -> None:
    assert IDS
    assert len(IDS) == len(set(IDS))


def test_tests_name_only_ids_of_the_table() -> None:
    unknown = [f"{path}: {id_}" for path, id_ in ids_of_tests() if id_ not in IDS]

    assert unknown == []


def test_marks_are_found_on_functions_modules_and_parameters() -> None:
    source = """
pytestmark = pytest.mark.req("AAA-1")

@pytest.mark.req("BBB-1", "BBB-2")
@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.req("CCC-1"))])
def test(n): ...
"""

    assert sorted(named_ids(source)) == ["AAA-1", "BBB-1", "BBB-2", "CCC-1"]


def test_the_report_lists_what_is_shown_in_part_and_not_at_all() -> None:
    ids = ["AAA-1", "AAA-2", "AAA-3", "BBB-1", "BBB-2"]
    shown = {"AAA-1": 2, "AAA-3": 1, "BBB-2": 3}
    lines = list(report(ids, shown, {"BBB-2": "half of it is missing"}))

    assert lines == [
        "AAA",
        "  shown:         AAA-1 (2), AAA-3 (1)",
        "  not shown yet: AAA-2",
        "BBB",
        "  not shown yet: BBB-1",
        "  in part:       BBB-2: half of it is missing",
        "",
        "2 of 5 requirements shown by tests",
    ]


def test_requirements_shown_in_part_are_in_the_table_and_marked() -> None:
    named = {id_ for _, id_ in ids_of_tests()}

    assert set(PARTLY) <= set(IDS) & named


def test_an_id_that_only_a_test_knows_is_reported() -> None:
    assert unknown_ids(["AAA-1"], {"AAA-1": 1, "ZZZ-9": 1}) == ["ZZZ-9"]


def test_the_table_is_read_row_by_row() -> None:
    text = "| id | what |\n|---|---|\n| AAA-1 | one `|` two |\n\n| BBB-1 | see AAA-1 |\n"

    assert table_ids(text) == ["AAA-1", "BBB-1"]
