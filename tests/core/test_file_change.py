"""`FileChange`: structured diffs in the data of tool results."""

import pytest

from clew.core.file_change import ChangedLine, FileChange, Hunk, read_file_change

HUNK = Hunk.of(2, 2, [" two", "-three", "+3", "+3b\n\\ No newline at end of file"])


def test_a_change_counts_its_lines_and_writes_the_diff() -> None:
    change = FileChange.of("/src/a.txt", [HUNK], created=True)

    assert (change.added, change.removed, change.created) == (2, 1, True)
    assert HUNK.header == "@@ -2,2 +2,3 @@"
    assert change.diff.splitlines()[:4] == [
        "--- a/src/a.txt",
        "+++ b/src/a.txt",
        "@@ -2,2 +2,3 @@",
        " two",
    ]
    assert FileChange.of("a", []).diff == ""


def test_lines_are_numbered_as_in_the_file_they_belong_to() -> None:
    assert list(HUNK.number_lines()) == [
        ChangedLine(" ", 2, "two"),
        ChangedLine("-", 3, "three"),
        ChangedLine("+", 3, "3"),
        ChangedLine("+", 4, "3b", no_newline=True),
    ]


def test_a_change_is_read_back_from_tool_data_beside_other_facts() -> None:
    change = FileChange.of("a.txt", [HUNK])

    assert read_file_change({**change.data(), "replacements": 1}) == change


def test_data_of_an_older_release_is_read() -> None:
    old = {
        "path": "a",
        "added": 1,
        "removed": 0,
        "hunks": [
            {"old_start": 1, "old_lines": 0, "new_start": 1, "new_lines": 1, "lines": ["+x"]}
        ],
        "diff": "…",
    }

    found = read_file_change(old)

    assert found is not None
    assert [line.text for line in found.hunks[0].number_lines()] == ["x"]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"path": "a", "added": 0, "removed": 0, "hunks": []},
        {"path": "a", "added": 1, "removed": 0, "hunks": "many"},
        {"path": "a", "added": 1, "removed": 0, "hunks": [{"lines": ["+x"]}]},
        {"total": 7},
    ],
)
def test_data_without_a_change_gives_none(data: dict[str, object]) -> None:
    assert read_file_change(data) is None
