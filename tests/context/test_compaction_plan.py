"""A compaction keeps what matters, splits nothing, and accounts for every entry."""

import pytest
from hypothesis import given
from msgspec.structs import replace

from clew.context.calibration import make_prior
from clew.context.compaction_plan import (
    compact_by_rules,
    find_gain_fault,
    is_worth_a_call,
    summarise_by_rules,
)
from clew.context.cuts import batches, find_turn_start, legal_cuts
from clew.context.items import ItemKind
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Budget, Reduce, Stuck
from clew.context.policy import ContextPolicy
from clew.context.render import answer_missing_calls, render
from clew.context.strategies.tiered import Tiered
from clew.context.view import SUMMARY_HEADING, View, fold
from clew.core.entries import (
    Body,
    Cleared,
    Compacted,
    Entry,
    MessageAdded,
    PinChanged,
    Replacement,
    ResultsCleared,
)
from clew.core.ids import CallId, EntryId
from clew.core.messages import (
    Message,
    Reasoning,
    Role,
    Text,
    ToolCall,
    assistant,
    tool_result,
    user,
)
from tests.histories import SETUP, entries_of, histories, problems

BUDGET = Budget(limit=460, tail=300, words=80, summary=80, recent_turns=2)


def call(name: str = "Bash", arguments: str = '{"command":"ls"}', mark: str = "c1") -> ToolCall:
    return ToolCall(call_id=CallId(mark), name=name, arguments=arguments)


def added(*messages: Message) -> list[Body]:
    return [SETUP, *(MessageAdded(message=message) for message in messages)]


def entry_of(body: Body, number: int = 900) -> Entry:
    return Entry(id=EntryId(number), at=0.0, body=body)


def compacted(entries: list[Entry]) -> tuple[View, Compacted] | None:
    view = fold(entries)
    plan = Tiered().plan(view, BUDGET)
    if isinstance(plan, Stuck):
        return None
    summary = WrittenSummary(text="what happened" if plan.dropped else "", author="rules")
    body = build_compaction(view, plan, summary, trigger="manual", strategy="tiered")
    return fold([*entries, *entries_of([body], start=len(entries) + 1)]), body


@pytest.mark.req("CMP-4")
@given(histories(min_turns=1))
def test_every_legal_cut_leaves_a_valid_rest(entries: list[Entry]) -> None:
    items = fold(entries).items

    for cut in legal_cuts(items):
        rest = [item.message for item in items[cut:]]
        wrong = [text for text in problems(rest) if "first message" not in text]
        assert wrong == []


@pytest.mark.req("CMP-4")
def test_a_signed_loop_is_cut_only_where_a_signature_stands() -> None:
    signed = Reasoning(text="hm", provenance="anthropic", signature="sig")
    entries = entries_of(
        added(
            user("go"),
            assistant(signed, call(mark="a")),
            tool_result(call(mark="a"), "1"),
            assistant(call(mark="b")),
            tool_result(call(mark="b"), "2"),
            assistant(signed, call(mark="c")),
            tool_result(call(mark="c"), "3"),
            assistant("done"),
        )
    )

    assert legal_cuts(fold(entries).items) == [0, 1, 5, 8]
    assert legal_cuts(fold(entries).items, inside_loops=True) == [0, 1, 3, 5, 7, 8]


def test_a_rest_that_begins_with_a_result_can_only_be_kept_whole() -> None:
    items = fold(entries_of(added(tool_result(call(), "late"), user("hi")))).items

    assert legal_cuts(items) == [0, 1, 2]
    assert [list(batch) for batch in batches(items)] == [[0], [1]]


@pytest.mark.req("CMP-4", "STR-9")
@given(histories(min_turns=2))
def test_a_compacted_view_is_one_that_providers_accept(entries: list[Entry]) -> None:
    done = compacted(entries)
    if done is not None:
        assert problems(render(done[0])) == []


@pytest.mark.req("CMP-10")
@given(histories(min_turns=2))
def test_every_entry_of_the_view_is_in_exactly_one_list(entries: list[Entry]) -> None:
    done = compacted(entries)
    if done is None:
        return
    report = done[1].report
    lists = [*report.kept, *report.summarised, *report.cleared, *report.archived]

    assert sorted(lists) == sorted(item.entry_id for item in fold(entries).items)


@pytest.mark.req("CMP-3", "CMP-11")
@given(histories(min_turns=2))
def test_pins_and_the_current_request_survive_ten_compactions(entries: list[Entry]) -> None:
    view = fold(entries)
    pinned = view.items[0].entry_id
    start = find_turn_start(view.items)
    assert start is not None
    request = view.items[start]
    entries = [
        *entries,
        *entries_of([PinChanged(target=pinned, pinned=True)], start=len(entries) + 1),
    ]
    for _ in range(10):
        done = compacted(entries)
        if done is None:
            break
        entries += entries_of([done[1]], start=len(entries) + 1)

    after = {item.entry_id: item.message for item in fold(entries).items}
    assert after[pinned] == view.items[0].message
    assert after[request.entry_id] == request.message


@pytest.mark.req("CMP-3", "CMP-16")
def test_the_users_words_are_quoted_in_the_summary_word_for_word() -> None:
    turns: list[Message] = []
    for number in range(12):
        turns += [
            user(f"rule {number}: always use tabs,\n\n  never spaces"),
            assistant("word " * 300),
        ]
    view = fold(entries_of(added(*turns)))

    body = compact_by_rules(view, ContextPolicy(), Tiered())

    assert isinstance(body, Compacted)
    kept = {item.entry_id for item in view.apply(entry_of(body)).items}
    for item in view.items:
        if item.kind is ItemKind.USER:
            assert item.message.text in body.summary or item.entry_id in kept


@pytest.mark.req("CMP-2")
def test_the_summary_comes_first_and_goes_out_as_the_users() -> None:
    turns = [message for _ in range(6) for message in (user("ask"), assistant("word " * 300))]

    done = compacted(entries_of(added(*turns)))

    assert done is not None
    view, _ = done
    assert view.items[0].message == assistant(f"{SUMMARY_HEADING}\nwhat happened")
    assert view.summary == "what happened"
    assert render(view)[0].role is Role.USER
    assert fold(entries_of([SETUP])).summary == ""


@pytest.mark.req("CMP-7")
def test_a_second_compaction_replaces_the_first_summary() -> None:
    turns = [message for _ in range(6) for message in (user("ask"), assistant("word " * 300))]
    entries = entries_of(added(*turns))
    first = compacted(entries)
    assert first is not None
    entries += entries_of([first[1]], start=len(entries) + 1)
    entries += entries_of(added(*turns)[1:], start=len(entries) + 1)

    second = compacted(entries)

    assert second is not None
    assert [item.kind for item in second[0].items].count(ItemKind.SUMMARY) == 1
    assert all(item.kind is not ItemKind.SUMMARY for item in second[0].archived)
    assert len(second[0].archived) > len(first[0].archived)


@pytest.mark.req("CMP-8")
def test_a_huge_recent_output_is_shortened_rather_than_dropped() -> None:
    entries = entries_of(
        added(user("look"), assistant(call()), tool_result(call(), "line\n" * 4_000))
    )

    done = compacted(entries)

    assert done is not None
    view, body = done
    assert body.dropped == ()
    assert body.report.cleared == (EntryId(4),)
    assert "entry #4 has it" in view.items[2].message.results[0].text
    assert view.items.units() < 400
    assert body.summary == ""


def test_a_pinned_output_is_not_shortened() -> None:
    entries = entries_of(
        [
            *added(user("look"), assistant(call()), tool_result(call(), "line\n" * 4_000)),
            PinChanged(target=EntryId(4), pinned=True),
        ]
    )

    assert compacted(entries) is None


def test_a_conversation_of_one_message_has_nothing_to_drop() -> None:
    plan = Tiered().plan(fold(entries_of(added(user("hi")))), BUDGET)
    assert isinstance(plan, Stuck)
    assert "recent" in plan.why


def test_a_summary_left_out_by_the_plan_is_replaced_all_the_same() -> None:
    turns = [message for _ in range(6) for message in (user("ask"), assistant("word " * 300))]
    entries = entries_of(added(*turns))
    first = compacted(entries)
    assert first is not None
    view = first[0]
    plan = Reduce(dropped=(view.items[1],), why="test")

    body = build_compaction(
        view, plan, WrittenSummary(text="new", author="rules"), trigger="manual", strategy="t"
    )

    assert view.items[0].entry_id in body.dropped


def test_what_is_dropped_without_words_is_reported_as_archived() -> None:
    view = fold(entries_of(added(user("one"), assistant("two"), user("three"))))
    plan = Reduce(dropped=(view.items[0], view.items[1]))

    body = build_compaction(
        view, plan, WrittenSummary(text="", author="rules"), trigger="auto", strategy="t"
    )

    assert body.report.archived == (EntryId(2), EntryId(3))
    assert body.report.summarised == ()


def test_calls_without_results_get_a_failed_one() -> None:
    items = fold(
        entries_of(
            added(
                user("go"),
                assistant(call(mark="a"), call(mark="b")),
                tool_result(call(mark="a"), "1"),
            )
        )
    ).items

    (message,) = answer_missing_calls(items)

    assert message.results[0].call_id == "b"
    assert message.results[0].failed
    assert answer_missing_calls(items[:1]) == []
    assert answer_missing_calls(()) == []


def test_a_budget_follows_the_models_rate() -> None:
    plain = fold(entries_of(added(user("hi"))))
    dear = replace(plain, calibration=make_prior(2.0, 1.0))

    assert Budget.of(plain, tokens=100_000).limit > 1.8 * Budget.of(dear, tokens=100_000).limit
    assert Budget.of(plain, tokens=0).limit == 0


def test_a_call_that_waits_for_its_result_cannot_be_cut_off() -> None:
    items = fold(entries_of(added(user("go"), assistant(call())))).items

    assert legal_cuts(items) == [0, 1]


def test_a_shortened_answer_keeps_its_calls_and_thoughts() -> None:
    thought = Reasoning(text="hm", signature="s")
    view = fold(entries_of(added(user("go"), assistant(thought, "long words", call()))))
    plan = Reduce(dropped=(), replaced=(Replacement(entry_id=EntryId(3), text="short"),))

    body = build_compaction(
        view, plan, WrittenSummary(text="", author="rules"), trigger="auto", strategy="t"
    )
    after = view.apply(Entry(id=EntryId(9), at=0.0, body=body))

    assert after.items[1].message == assistant(thought, "short", call())


def test_nothing_is_cut_behind_a_call_that_was_never_answered() -> None:
    items = fold(entries_of(added(user("go"), assistant(call()), user("hello?")))).items

    assert legal_cuts(items) == [0, 1]


@pytest.mark.req("CMP-10")
def test_a_result_that_was_cleared_is_archived_in_its_original_text() -> None:
    call = ToolCall(call_id=CallId("c"), name="Read", arguments='{"file_path":"a.py"}')
    said = [user("go"), assistant(call), tool_result(call, "the whole file")]
    bodies: list[Body] = [SETUP, *(MessageAdded(message=message) for message in said)]
    marker = Replacement(entry_id=EntryId(4), text="[cleared]")
    view = fold(entries_of([*bodies, ResultsCleared(replaced=(marker,), why="room")]))
    plan = Reduce(dropped=tuple(view.items[1:]))
    summary = WrittenSummary(text="what happened", author="rules")

    body = build_compaction(view, plan, summary, trigger="auto", strategy="t")
    after = view.apply(Entry(id=EntryId(6), at=0.0, body=body))

    assert view.items[2].message.results[0].text == "[cleared]"
    assert after.archived[1].message.results[0].text == "the whole file"
    assert list(view.originals) == [EntryId(4)]
    assert list(after.originals) == []


@pytest.mark.req("CMP-7")
def test_the_notes_of_a_model_are_known_apart_from_the_rest_of_the_summary() -> None:
    view = fold(entries_of([SETUP, MessageAdded(message=user("go"))]))
    plan = Reduce(dropped=tuple(view.items))

    def compact(author: str = "model", notes: str = "") -> View:
        written = WrittenSummary(text="notes and facts", author=author, notes=notes)
        body = build_compaction(view, plan, written, trigger="auto", strategy="t")
        return view.apply(Entry(id=EntryId(6), at=0.0, body=body))

    assert compact(notes="notes").notes == "notes"
    assert compact().notes == "notes and facts", "written by an older release"
    assert compact(author="rules").notes == ""
    assert compact(notes="notes").apply(Entry(id=EntryId(7), at=0.0, body=Cleared())).notes == ""


def test_notes_that_are_longer_than_asked_for_lose_their_code() -> None:
    asked = [user(f"request {n}: " + "word " * 200) for n in range(9)]
    view = fold(entries_of([SETUP, *added(*asked)]))
    plan = Reduce(dropped=tuple(view.items[:6]))
    room = Budget.of(view, tokens=8_000, window=100_000)
    code = "\n".join(f"value_{n} = {n}" for n in range(60))
    notes = f"They count.\n```\n{code}\n```\nNext: stop."

    long = summarise_by_rules(view, plan, replace(room, summary=500), notes=notes)
    short = summarise_by_rules(view, plan, replace(room, summary=5_000), notes=notes)

    assert long.notes == "They count.\nNext: stop."
    assert short.notes == notes


def test_a_replacement_shortens_text_and_arguments_and_nothing_else() -> None:
    call = ToolCall(call_id=CallId("c"), name="Write", arguments='{"content":"very long"}')
    other = ToolCall(call_id=CallId("d"), name="Read", arguments="{}")
    said = assistant("first", Text("second"), call, other)
    bodies: list[Body] = [SETUP, MessageAdded(message=user("go")), MessageAdded(message=said)]
    change = Replacement(
        entry_id=EntryId(3), text="short", arguments={CallId("c"): '{"content":"…"}'}
    )

    view = fold(entries_of([*bodies, ResultsCleared(replaced=(change,), why="room")]))

    shorter = replace(call, arguments='{"content":"…"}')
    assert view.items[1].message.parts == (Text("short"), shorter, other)


@pytest.mark.req("CMP-9")
def test_a_summary_longer_than_what_it_replaces_is_never_worth_it() -> None:
    view = fold(entries_of(added(user("one"), assistant("two"), user("three"))))
    plan = Reduce(dropped=(view.items[0], view.items[1]))
    words = WrittenSummary(text="many words " * 50, author="rules")
    body = build_compaction(view, plan, words, trigger="overflow", strategy="t")

    assert find_gain_fault(body, must=True).endswith("longer than the text it replaces")
    assert find_gain_fault(body, must=False) == "it would save too little"


@pytest.mark.req("CMP-9")
def test_shortening_only_the_summary_is_not_worth_a_call() -> None:
    view = fold(entries_of(added(user("one"), assistant("two"), user("three"))))
    words = WrittenSummary(text="many words " * 50, author="rules")
    plan = Reduce(dropped=(view.items[0], view.items[1]))
    body = build_compaction(view, plan, words, trigger="auto", strategy="t")
    after = view.apply(Entry(id=EntryId(6), at=0.0, body=body))

    assert after.items[0].kind is ItemKind.SUMMARY
    assert not is_worth_a_call(after, Reduce(dropped=(after.items[0],)), BUDGET)


def test_messages_that_one_entry_inserted_leave_together() -> None:
    view = fold(entries_of(added(user("go"), assistant("done"))))
    talk = tuple(make(f"{n} {'word ' * 60}") for n in range(8) for make in (user, assistant))
    everything = Reduce(dropped=tuple(view.items))
    summary = WrittenSummary(text="earlier", author="rules")
    body = build_compaction(
        view, everything, summary, trigger="auto", strategy="custom", inserted=talk
    )
    view = view.apply(entry_of(body)).apply(entry_of(MessageAdded(message=user("next")), 901))

    plan = Tiered().plan(view, BUDGET)
    assert isinstance(plan, Reduce)
    assert 1 < len(plan.dropped) < 1 + len(talk)
    body = build_compaction(view, plan, summary, trigger="auto", strategy="tiered")
    after = view.apply(entry_of(body, 902))

    assert body.report.kept == (EntryId(901),)
    assert [item.entry_id for item in after.items] == [EntryId(902), EntryId(901)]
