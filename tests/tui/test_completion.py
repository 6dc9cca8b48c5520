"""What the menu below the input offers."""

from clew.sdk.client import CommandInfo
from clew.tui.completion import (
    CommandItem,
    Completion,
    complete_command,
    find_mention,
    make_menu,
)
from tests.rows import each_row

OFFERS = (
    CommandItem(
        "compact",
        "smaller",
        (CommandItem("preview"), CommandItem("undo", "back", (CommandItem("all"),))),
    ),
    CommandItem("context"),
)


@each_row(
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


def test_the_menu_describes_what_the_terminal_does_itself() -> None:
    menu = make_menu([CommandInfo(name="show", description="show an entry")])

    assert [item.name for item in menu] == ["show", "quit"]
    assert menu[0].meta.startswith("print a folded block")


@each_row(
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
