"""Long views: what a compaction reads, measures and counts grows with what is new."""

from collections import Counter
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.context.compaction_plan import compact_by_rules
from clew.context.cuts import legal_cuts
from clew.context.digest.passages import count_names, find_names
from clew.context.digest.rule_summary import prepare_digest
from clew.context.digest.state.state_ledger import gather_state
from clew.context.digest.steps.step_log import list_steps
from clew.context.estimate import text_units
from clew.context.items import Items
from clew.context.plan import measure_words, sum_words
from clew.context.policy import ContextPolicy
from clew.context.strategies.selection import find_inner_cuts
from clew.context.strategies.tiered import Tiered
from clew.context.view import View, fold
from clew.core.entries import Body, Compacted, Entry, MessageAdded
from clew.core.ids import CallId, EntryId
from clew.core.messages import Message, Reasoning, ToolCall, assistant, tool_result, user
from tests.context.conversations import edit, items, run, use
from tests.histories import SETUP, entries_of, histories


def read(path: str) -> tuple[Message, ...]:
    return use("Read", {"file_path": path}, f"text of {path}\n" * 8)


@settings(max_examples=30)
@given(histories(max_turns=4), histories(max_turns=4))
def test_a_sequence_that_was_extended_equals_one_made_at_once(
    first: list[Entry], second: list[Entry]
) -> None:
    before, more = fold(first).items, list(fold(second).items)
    shorter = Items(before)

    longer = shorter.extend(more)

    assert longer == Items([*before, *more])
    assert longer.export_index() == Items([*before, *more]).export_index()
    assert longer.outgoing == Items([*before, *more]).outgoing
    assert shorter == before
    assert shorter.extend(more[:1]) == Items([*before, *more[:1]])
    assert sum_words(longer) == sum(map(measure_words, longer))


@given(histories(min_turns=1), st.integers(0, 4_000))
def test_cuts_that_are_read_from_the_end_are_those_of_the_whole_view(
    entries: list[Entry], limit: int
) -> None:
    whole = fold(entries).items

    cuts = find_inner_cuts(whole, limit=limit)

    assert whole.find_start(limit) == next(
        (n for n in range(len(whole)) if whole.units(n) <= limit), len(whole)
    )
    assert cuts[0] == 0 or cuts[0] < whole.find_start(limit)
    loose = whole.units(cuts[-1]) > limit or not set(cuts) <= set(legal_cuts(whole))
    legal = legal_cuts(whole, inside_loops=loose)
    assert cuts == [cut for cut in legal if cuts[0] <= cut <= cuts[-1]]


@given(histories(min_turns=2))
def test_a_report_counts_what_the_view_has_after_the_compaction(entries: list[Entry]) -> None:
    view = fold(entries)

    body = compact_by_rules(view, ContextPolicy(), Tiered(max_tokens=400), trigger="manual")

    if isinstance(body, Compacted):
        after = view.apply(Entry(id=EntryId(900), at=0.0, body=body))
        saved = round((view.units - after.units) * view.calibration.rate)
        report = body.report
        assert report.tokens_after == report.tokens_before - saved or saved >= report.tokens_before


def long_view(turns: int, meter: object = text_units) -> View:
    numbers = iter(count())
    said: list[Message] = []
    for turn in range(turns):
        said.append(user(f"request {turn}"))
        for _ in range(3):
            said += read(f"src/module_{next(numbers)}.py")
        said.append(assistant(f"Turn {turn} is done because the tests pass."))
    bodies: list[Body] = [SETUP, *(MessageAdded(message=one) for one in said)]
    return fold(entries_of(bodies), meter=meter)  # type: ignore[arg-type]


def test_a_compaction_measures_what_it_writes_and_not_the_conversation_again() -> None:
    measured = 0

    def meter(text: str) -> int:
        nonlocal measured
        measured += len(text)
        return text_units(text)

    view = long_view(150, meter)
    whole, measured = measured, 0

    body = compact_by_rules(view, ContextPolicy(), Tiered(max_tokens=4_000))

    assert isinstance(body, Compacted)
    assert measured < whole / 4


def test_files_that_were_only_read_long_ago_are_left_out_and_changes_are_not() -> None:
    old = [read("src/old.py"), edit("src/changed.py"), run("git commit", "[main abc1234] first")]
    later = [read(f"src/later_{number}.py") for number in range(600)]

    state = gather_state(items(user("go"), *old, *later))

    assert [file.path for file in state.files if file.changed_at >= 0] == ["src/changed.py"]
    assert "src/old.py" not in [file.path for file in state.files]
    assert "src/later_599.py" in [file.path for file in state.files]
    assert [commit.hash for commit in state.git.commits] == ["abc1234"]


def test_a_step_reads_its_arguments_and_its_command_once() -> None:
    (step,) = list_steps(items(user("go"), run("cd app && pytest -q | tail", "1 passed")))

    assert step.simple_commands == [("cd app", False), ("pytest -q", True), ("tail", False)]
    assert step.arguments is step.arguments
    assert step.simple_commands is step.simple_commands


def test_an_interruption_of_nothing_is_no_refusal() -> None:
    thought = assistant(Reasoning(text="hm"))

    state = gather_state(items(user("go"), thought, user("[Request interrupted by user]")))

    assert state.refusals == []


def test_a_command_that_prints_about_running_is_not_left_running() -> None:
    (step,) = list_steps(items(user("go"), run("make", "running the tests\n" * 90)))

    assert step.background_id == ""


def test_a_view_with_a_lost_call_is_cut_as_a_whole() -> None:
    stray = tool_result(ToolCall(call_id=CallId("gone"), name="Bash"), "late")
    whole = Items(items(user("go"), assistant("done"), stray, *[user("more " * 50)] * 9))

    assert not whole.is_matched
    assert find_inner_cuts(whole, limit=100)[0] == 0


@given(st.text(alphabet="ab1_/.@- é計\n\\:nt", max_size=60) | st.text(max_size=40))
def test_names_are_found_in_tokens_as_in_the_whole_text(text: str) -> None:
    assert count_names(text) == Counter(find_names(text))


def test_names_are_counted_in_a_text_with_more_words_than_are_remembered() -> None:
    words = [
        f"a_name_of_its_own_{number} src/{number}.py 00{number:07d}" for number in range(12_000)
    ]
    text = "\n".join([*words, *words[:10]])

    assert count_names(text) == Counter(find_names(text))


@pytest.mark.parametrize(
    "text",
    ["x" * 100_000, "ab/" * 30_000, "a.b-" * 25_000, "src/name_of_file.py " * 5_000],
)
def test_a_digest_of_a_text_without_lines_is_short_and_quotes_no_more_than_it_may(
    text: str,
) -> None:
    digest = prepare_digest(items(user("go"), run("cat dump", text), user(text))).write(500)

    assert digest
    assert text_units(digest) <= 500
