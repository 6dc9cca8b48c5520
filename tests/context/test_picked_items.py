"""A request that picks items of a list is quoted with these items."""

import pytest

from clew.context.digest.turns.conclusion import quote_conclusion
from clew.context.digest.turns.picked_items import find_labels, find_picked
from clew.context.digest.turns.turn_ledger import render_turns
from clew.context.digest.turns.turn_log import list_turns
from clew.core.messages import assistant, user
from tests.context.conversations import items

LIST = """Remaining items:

1. Move the parser
2. **Rename the store**
3) Fix the flaky test
| # | what | effort |
|---|---|---|
| 5 | Cache the index | large |
- **A.** Do it now
- B: Do it later

Which should I do?"""


@pytest.mark.req("CMP-3")
def test_the_items_that_the_user_picked_survive() -> None:
    detail = "\n".join(f"Some detail about item {n} that takes a lot of room." for n in range(60))
    talk = items(
        user("What is left to do?"),
        assistant(
            LIST.replace("1. Move", f"{detail}\n\n1. Move").replace("Which", f"{detail}\n\nWhich")
        ),
        user("skip 2 and 5, do the rest"),
        assistant("I will."),
        *[
            one
            for name in "ijklmnopq"
            for one in (user(f"And then {name}, please"), assistant("ok"))
        ],
    )

    text = render_turns(list_turns(talk), max_chars=900)

    assert "2. Rename the store; 5. Cache the index, large" in text
    assert "Move the parser" not in text


@pytest.mark.parametrize(
    ("request_", "labels"),
    [
        ("1", ["1"]),
        ("b", ["B"]),
        ("Option C.", ["C"]),
        ("A. works, but write it down", ["A"]),
        ("I prefer B), it is shorter", ["B"]),
        ("please repair 3 too", ["3"]),
        ("now take 2,4,9,11", ["2", "4", "9", "11"]),
        ("do ideas 1-4 first", ["1", "2", "3", "4"]),
        ("build #4 and #5 please", ["4", "5"]),
        ("do 1-99, then stop", [str(n) for n in range(1, 13)]),
        ("wait 5 minutes", []),
        ("sleep 5, then go on", []),
        ("Increase the timeout to 5", []),
        ("Rewrite the parser in C", []),
        ("Merge PR #3 please", []),
        ("at 10:30, x=5, or $5, please", []),
        ("write a test for 2", ["2"]),
        ("go with C", ["C"]),
        ("Here you are.\n\nA) on Mondays\nB) never", ["A", "B"]),
        ("there are 4 open windows", []),
        ("use version 1.2 of v3", []),
        ("A test is missing", []),
        ("1. water the plants\n2. feed the cat", []),
        (f"do 1 and 2 {'of these ' * 40}", []),
        ("yes, go on", []),
    ],
)
def test_numbers_and_letters_of_a_request_are_found(request_: str, labels: list[str]) -> None:
    assert find_labels(request_) == labels


def test_items_are_found_in_lists_and_tables() -> None:
    assert find_picked(["1", "3", "5", "A", "B"], LIST) == [
        *("1. Move the parser", "3. Fix the flaky test", "5. Cache the index, large"),
        *("A. Do it now", "B. Do it later"),
    ]
    assert find_picked(["7", "8", "1"], LIST) == []
    assert find_picked(["1"], "") == []


def test_picking_items_never_hides_the_answer_with_the_list() -> None:
    few = [
        one for n in range(20) for one in (user(f"Do part {n}x of it"), assistant("Done. " * 30))
    ]
    long = "\n".join(f"{n}. {'A long item about something ' * 9}" for n in range(1, 9))
    talk = [user("What else?"), assistant(f"Here it is:\n\n{long}")]

    for asked in ("Do them all", "Do 1, 2, 3, 5 and 7"):
        told = render_turns(list_turns(items(*few, *talk, user(asked))), max_chars=4_000)
        assert "Here it is" in told


def test_an_older_list_is_found_and_picks_add_up() -> None:
    talk = items(
        *(user("What is left to do?"), assistant(LIST), user("why 3 then"), assistant("It flakes")),
        *(user("do 1 please"), assistant("Done."), user("and 2 now"), assistant("Done.")),
    )

    assert list_turns(talk)[0].picked == (
        "3. Fix the flaky test", "1. Move the parser", "2. Rename the store",
    )  # fmt: skip


def test_picked_items_stand_where_the_conclusion_has_its_gap() -> None:
    answer = "Here is all that is left." + "\n\nDetail. " * 50 + "\n\nWhich one?"

    assert quote_conclusion(answer, 80, ["2. Rename the store"]) == (
        "Here is all that is left. Detail. Detail. … 2. Rename the store … Which one?"
    )
    told = quote_conclusion(answer + "\n\n2. Rename the store", 80, ["2. Rename the store"])
    assert told.count("Rename") == 1
    assert (
        quote_conclusion("word " * 50, 40, ["2. Rename it"])
        == "word word word word word… … 2. Rename it"
    )
    assert quote_conclusion("word " * 50, 12, ["2. Rename the store"]) == "2. Renam…"
