"""What the menu below the input offers."""

from pathlib import Path

import pytest

from clew.tui.completion import (
    CommandItem,
    Completion,
    complete_command,
    complete_mention,
    find_mention,
)

OFFERS = (
    CommandItem(
        "compact",
        "smaller",
        (CommandItem("preview"), CommandItem("undo", "back", (CommandItem("all"),))),
    ),
    CommandItem("context"),
)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/", ["/compact", "/context"]),
        ("/CO", ["/compact", "/context"]),
        ("/com", ["/compact"]),
        ("/x", []),
        ("/compact ", ["preview", "undo"]),
        ("/compact  u", ["undo"]),
        ("/Compact undo ", ["all"]),
        ("/context ", []),
        ("/nothing ", []),
    ],
)
def test_commands_and_subcommands_are_completed(line: str, found: list[str]) -> None:
    assert [one.text for one in complete_command(line, OFFERS)] == found


def test_a_completion_has_a_description() -> None:
    assert complete_command("/com", OFFERS) == [Completion("/compact", meta="smaller")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@", "@"),
        ("see @src/ma", "@src/ma"),
        ("line\n@x", "@x"),
        ('see @"a b', '@"a b'),
        ("mail me@home", ""),
        ("@done ", ""),
        ('@"closed"', ""),
        ("no", ""),
    ],
)
def test_a_mention_is_the_last_word_with_an_at_sign(text: str, found: str) -> None:
    assert find_mention(text) == found


def test_names_that_a_terminal_would_obey_or_that_are_hidden_are_not_offered(
    tmp_path: Path,
) -> None:
    for name in ("Plain", "with space", ".hidden", "bad\x1b[2J", "bad\nname", 'quo"te'):
        (tmp_path / name).touch()
    (tmp_path / "a folder").mkdir()

    assert complete_mention("@", tmp_path) == [
        ('@"a folder/', "a folder/"),
        ("@Plain", "Plain"),
        ('@"with space"', "with space"),
    ]
    assert complete_mention("@.", tmp_path) == [("@.hidden", ".hidden")]
    assert complete_mention("@pl", tmp_path) == [("@Plain", "Plain")]
    assert complete_mention("@nothing/", tmp_path) == []
    assert complete_mention("@~nobody-at-all/", tmp_path) == []
    assert complete_mention(f"@{tmp_path}/Pl", Path("/")) == [(f"@{tmp_path}/Plain", "Plain")]
