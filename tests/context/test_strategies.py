"""Every strategy: deterministic, keeps pairs, reaches its budget or says why not."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.cleared_results import (
    MARKER,
    choose_worthwhile,
    find_consumed,
    make_marker,
)
from clew.context.clearing_plan import plan_clearing, plan_squeeze
from clew.context.compaction_plan import compact_by_rules
from clew.context.cuts import batches
from clew.context.digest.rule_summary import prepare_digest
from clew.context.economy import CachePrices
from clew.context.items import Item, ItemKind, Items
from clew.context.plan import Budget, Strategy, Stuck
from clew.context.policy import ContextPolicy
from clew.context.render import LOST_RESULT, render, repair
from clew.context.render import find_problems as spoken_problems
from clew.context.shortened_items import shorten_items
from clew.context.strategies import STRATEGIES, make_strategy
from clew.context.strategies.compact import Compact
from clew.context.strategies.custom import Custom, compact_to
from clew.context.strategies.sliding_window import SlidingWindow
from clew.context.strategies.tiered import Summarize, Tiered
from clew.context.view import View, fold
from clew.core.entries import (
    Body,
    Compacted,
    Entry,
    MessageAdded,
    PinChanged,
    ResultsCleared,
    SetupChanged,
)
from clew.core.errors import ConfigError
from clew.core.ids import CallId, EntryId
from clew.core.messages import Message, Role, Text, ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from tests.histories import entries_of, histories, problems

ALL: list[Strategy] = [
    Tiered(),
    SlidingWindow(max_turns=2),
    Summarize(max_tokens=900),
    Compact(max_tokens=900, preserve_recent_turns=1),
]
WINDOW = SetupChanged(model=ModelFacts(name="m", window=2_000), system="Be exact.")
POLICY = ContextPolicy()


def step(
    number: int, chars: int = 1_500, *, name: str = "Read", failed: bool = False
) -> list[Body]:
    call = ToolCall(call_id=CallId(f"c{number}"), name=name, arguments='{"file_path":"a.py"}')
    result = tool_result(call, "x" * chars, failed=failed)
    return [MessageAdded(message=assistant(call)), MessageAdded(message=result)]


def view_of(*bodies: Body, setup: SetupChanged = WINDOW) -> View:
    return fold(entries_of([setup, *bodies]))


def after(view: View, body: Body) -> View:
    return view.apply(Entry(id=EntryId(10_000), at=0.0, body=body))


def talk(turns: int, words: int = 120) -> list[Body]:
    said: list[Body] = []
    for number in range(turns):
        said.append(MessageAdded(message=user(f"question {number}")))
        said.append(MessageAdded(message=assistant("word " * words)))
    return said


@pytest.mark.req("STR-9", "CMP-4")
@pytest.mark.parametrize("strategy", ALL, ids=lambda strategy: strategy.name)
@given(histories(min_turns=1))
def test_whatever_it_does_the_request_is_valid_and_every_entry_accounted_for(
    strategy: Strategy, entries: list[Entry]
) -> None:
    view = fold(entries)
    body = compact_by_rules(view, POLICY, strategy)
    if isinstance(body, Stuck):
        assert body.why
        return
    shown = after(view, body)

    assert problems(render(shown)) == []
    assert compact_by_rules(view, POLICY, strategy) == body
    lists = [
        *body.report.kept,
        *body.report.summarised,
        *body.report.cleared,
        *body.report.archived,
    ]
    assert sorted(lists) == sorted(item.entry_id for item in view.items)
    assert body.report.tokens_after < body.report.tokens_before


@pytest.mark.req("STR-9")
@pytest.mark.parametrize("strategy", ALL, ids=lambda strategy: strategy.name)
def test_it_reaches_its_budget(strategy: Strategy) -> None:
    bodies = talk(3)
    for number in range(12):
        bodies += step(number)
    view = view_of(*bodies, MessageAdded(message=user("and now?")))
    budget = Budget.of(view, tokens=strategy.target(2_000))

    body = compact_by_rules(view, POLICY, strategy)

    assert isinstance(body, Compacted)
    assert after(view, body).items.units() <= budget.limit * 1.2


@pytest.mark.req("CMP-3")
def test_a_summary_gets_the_room_that_no_message_can_use() -> None:
    setup = SetupChanged(model=ModelFacts(name="m", window=20_000))
    bodies: list[Body] = [MessageAdded(message=user("Rename the stores"))]
    for number in range(120):
        text = "\n".join(f"store_{number}_{line} = open_store({line})" for line in range(20))
        call = ToolCall(call_id=CallId(f"r{number}"), name="Read", arguments='{"path":"a.py"}')
        bodies += [MessageAdded(message=assistant(f"I look at part {number}.", call))]
        bodies += [MessageAdded(message=tool_result(call, text))]
    large = {"path": "b.py", "content": "y = list_of_words()\n" * 3_000}
    call = ToolCall(
        call_id=CallId("w"), name="Write", arguments=msgspec.json.encode(large).decode()
    )
    bodies += [MessageAdded(message=assistant(call)), MessageAdded(message=tool_result(call, "ok"))]
    view = view_of(*bodies, *step(999, chars=100), setup=setup)
    budget = Budget.of(view, tokens=Tiered().target(20_000), window=20_000)

    body = compact_by_rules(view, POLICY, Tiered())

    assert isinstance(body, Compacted)
    assert 0.85 * budget.limit <= after(view, body).items.units() <= budget.limit


@pytest.mark.req("STR-1")
def test_a_sliding_window_keeps_the_last_turns_and_says_so() -> None:
    view = view_of(*talk(9, words=5))
    window = SlidingWindow(max_turns=4)

    assert window.due(view, used=10, threshold=None)
    body = compact_by_rules(view, POLICY, window)

    assert isinstance(body, Compacted)
    shown = after(view, body)
    said = [item.message.text for item in shown.items if item.kind is ItemKind.USER]
    assert said == [f"question {number}" for number in range(5, 9)]
    assert shown.summary == "10 earlier messages were set aside."
    assert not SlidingWindow(max_turns=9).due(view, used=10, threshold=None)
    assert SlidingWindow(max_turns=9).due(view, used=10, threshold=10)


def test_a_sliding_window_of_no_turns_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_turns"):
        SlidingWindow(max_turns=0)


def test_a_sliding_window_with_nothing_to_drop_says_so() -> None:
    view = view_of(MessageAdded(message=user("hi")))

    assert isinstance(SlidingWindow().plan(view, Budget.of(view, tokens=500)), Stuck)


@pytest.mark.req("STR-2")
def test_summarize_is_due_at_its_own_limit() -> None:
    view = view_of(*talk(2))

    assert Summarize(max_tokens=100).due(view, used=100, threshold=None)
    assert not Summarize(max_tokens=100).due(view, used=99, threshold=None)
    assert Summarize().due(view, used=99, threshold=90)


@pytest.mark.req("STR-3")
def test_compact_shortens_old_answers_and_results_before_it_drops_anything() -> None:
    bodies: list[Body] = [MessageAdded(message=user("begin"))]
    bodies += [MessageAdded(message=assistant("word " * 900)), *step(1, 900)]
    bodies += [MessageAdded(message=assistant("short")), *talk(4, words=5)]
    view = view_of(*bodies)

    body = compact_by_rules(view, POLICY, Compact(max_tokens=2_000))

    assert isinstance(body, Compacted)
    assert body.dropped == ()
    assert len(body.report.cleared) == 2
    texts = [item.message.text for item in after(view, body).items]
    assert any("shortened from 4,500 characters" in text for text in texts)


@pytest.mark.req("STR-5")
def test_the_default_clears_answered_results_first_oldest_first() -> None:
    bodies: list[Body] = [MessageAdded(message=user("go"))]
    for number in range(8):
        bodies += step(number, 900)
    setup = SetupChanged(model=ModelFacts(name="m", window=2_500))
    view = view_of(*bodies, MessageAdded(message=assistant("done")), setup=setup)

    body = compact_by_rules(view, POLICY, Tiered())

    assert isinstance(body, Compacted)
    assert body.dropped == ()
    assert body.summary == ""
    shown = after(view, body)
    markers = [m.results[0].text.startswith(MARKER) for m in render(shown) if m.results]
    assert markers == sorted(markers, reverse=True)
    assert not markers[-1]
    assert problems(render(shown)) == []


def test_a_message_with_several_results_is_not_cleared() -> None:
    calls = [ToolCall(call_id=CallId(f"c{n}"), name="Read", arguments="{}") for n in range(2)]
    parts = [part for call in calls for part in tool_result(call, "word " * 1_000).parts]
    both = Message(role=Role.TOOL, parts=tuple(parts))
    bodies = [user("go"), assistant(*calls), both, assistant("done"), user("more")]
    view = view_of(*(MessageAdded(message=message) for message in bodies), *step(1))
    policy = ContextPolicy(compress_tool_results=True)

    assert plan_clearing(view, policy, Summarize(), now=0.0) is None


@pytest.mark.req("STR-6")
def test_a_pinned_step_stays_where_nobody_has_asked_anything() -> None:
    steps = [body for number in range(40) for body in step(number)]
    view = view_of(*steps, PinChanged(target=EntryId(2), pinned=True))

    compacted = compact_by_rules(view, POLICY, Tiered())

    assert isinstance(compacted, Compacted)
    assert {EntryId(2), EntryId(3)}.isdisjoint(compacted.dropped)
    assert EntryId(4) in compacted.dropped


def test_what_may_be_compressed() -> None:
    pinned = step(4)
    view = view_of(
        MessageAdded(message=user("go")),
        *step(1),
        *step(2, 500),
        *step(3, failed=True),
        *pinned,
        *step(5, name="Agent"),
        *step(6),
        PinChanged(target=EntryId(10), pinned=True),
    )
    policy = ContextPolicy(compress_tool_results=True)

    body = plan_clearing(view, policy, Summarize(), now=0.0)

    assert isinstance(body, ResultsCleared)
    assert [change.entry_id for change in body.replaced] == [EntryId(4)]
    shown = after(view, body)
    assert "entry #4 has them" in shown.items[2].message.results[0].text
    assert plan_clearing(shown, policy, Summarize(), now=0.0) is None
    assert (body.trigger, body.kept) == ("option", len(view.items) - 1)
    assert body.tokens_before > body.tokens_after > 0
    shorter = plan_clearing(view, ContextPolicy(compress_tool_results=400), Summarize(), now=0.0)
    assert shorter is not None
    assert shorter.replaced == (*body.replaced, make_marker(view.items[4]))


def test_a_nonsensical_length_is_refused() -> None:
    with pytest.raises(ConfigError, match="compress_tool_results"):
        ContextPolicy(compress_tool_results=0)


def loop(calls: int, chars: int = 3_000) -> View:
    bodies: list[Body] = [MessageAdded(message=user("go"))]
    for number in range(calls):
        call = ToolCall(call_id=CallId(f"c{number}"), name="Read")
        usage = Usage(input_tokens=1_000 + number)
        bodies.append(MessageAdded(message=assistant(call), usage=usage))
        last = number == calls - 1
        size = chars * calls // 3 if last else chars
        bodies.append(MessageAdded(message=tool_result(call, "x" * size)))
    return view_of(*bodies, setup=SetupChanged(model=ModelFacts(name="m", window=4_000)))


@pytest.mark.req("STR-8")
def test_clearing_waits_until_it_pays_or_the_cache_is_cold() -> None:
    few, many = loop(6, 600), loop(60)
    dear = ContextPolicy(prices=CachePrices(write_price=100.0, least_calls=1))

    assert plan_clearing(few, dear, Tiered(), now=1.0) is None
    assert plan_clearing(many, ContextPolicy(), Tiered(), now=1.0) is not None
    assert plan_clearing(view_of(*talk(2)), ContextPolicy(), Tiered(), now=1.0) is None
    cold = plan_clearing(many, dear, Tiered(), now=10_000.0)
    assert cold is not None
    assert cold.why == "the cache is cold"
    assert plan_clearing(many, ContextPolicy(), SlidingWindow(), now=1.0) is None


@pytest.mark.req("STR-8")
@given(st.integers(2, 30), st.integers(0, 200), st.integers(600, 4_000))
def test_what_is_cleared_always_pays_by_the_stated_rule(
    calls: int, expected: int, chars: int
) -> None:
    items = loop(calls, chars).items
    prices = CachePrices(least_calls=1)
    places = find_consumed(items, excluded=frozenset(), min_chars=500)

    chosen = choose_worthwhile(items, places, prices, calls=expected, cold=False)

    if chosen:
        suffix = items.units(chosen[0])
        reclaimed = sum(items[p].units for p in chosen)
        once = (suffix - reclaimed) * prices.write_price - suffix * prices.read_price
        assert max(1, expected) * reclaimed * prices.read_price > once
        assert chosen == places[-len(chosen) :]


def test_strategies_are_known_by_name() -> None:
    assert [make_strategy(name).name for name in STRATEGIES] == list(STRATEGIES)
    with pytest.raises(ConfigError, match="use one of tiered"):
        make_strategy("magic")


def test_a_plan_that_gains_too_little_is_not_worth_doing() -> None:
    huge = MessageAdded(message=user("word " * 2_000))
    view = view_of(*talk(3, words=40), huge)

    body = compact_by_rules(view, POLICY, Tiered())

    assert isinstance(body, Stuck)
    assert "too little" in body.why


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([assistant("hi")], "first message is not the user's"),
        ([Message(role=Role.USER, parts=())], "is empty"),
    ],
)
def test_what_is_wrong_with_a_conversation_is_said_in_words(
    messages: list[Message], complaint: str
) -> None:
    assert complaint in " ".join(spoken_problems(messages))


def test_calls_and_results_that_do_not_match_are_named() -> None:
    call = ToolCall(call_id=CallId("a"), name="Read")

    assert "missing" in spoken_problems([user("x"), assistant(call)])[0]
    assert "not waiting" in spoken_problems([user("x"), tool_result(call, "1")])[0]
    assert "twice" in spoken_problems([user("x"), assistant(call, call)])[0]
    assert "belong" in spoken_problems([user("x"), assistant(call), user("y")])[0]
    assert spoken_problems([user("x"), assistant(call), tool_result(call, "1")]) == []


@given(histories(), st.data())
def test_the_judges_of_validity_agree(entries: list[Entry], data: st.DataObject) -> None:
    items = [item for item in fold(entries).items if data.draw(st.integers(0, 6))]
    messages = [item.message for item in items]

    assert bool(spoken_problems(messages)) == bool(problems(messages))
    assert Items(items).is_valid == (not spoken_problems(messages))


def test_a_quick_look_finds_what_is_wrong() -> None:
    call = ToolCall(call_id=CallId("a"), name="Read")
    other = ToolCall(call_id=CallId("b"), name="Read")
    done = tool_result(call, "1")
    asked_twice = [user("x"), assistant(call, call), done]
    results = Message(role=Role.TOOL, parts=(*done.parts, *done.parts))
    answered_twice = [user("x"), assistant(call, other), results, tool_result(other, "2")]
    without_result = [user("x"), Message(role=Role.TOOL, parts=(Text("1"),))]
    wrong = [[assistant("x")], [user("x"), assistant(call)]]

    for messages in (*wrong, asked_twice, answered_twice, without_result):
        items = [Item.of(EntryId(n), message) for n, message in enumerate(messages)]
        assert not Items(items).is_valid
    assert Items().is_valid


@given(histories(min_turns=1), st.data())
def test_a_conversation_with_holes_is_repaired(entries: list[Entry], data: st.DataObject) -> None:
    messages = [item.message for item in fold(entries).items]
    kept = [message for message in messages if data.draw(st.integers(0, 4))]

    wrong = [text for text in problems(repair(kept)) if "first message" not in text]

    assert wrong == []
    assert repair(messages) == messages


def test_a_repaired_call_has_a_failed_result() -> None:
    call = ToolCall(call_id=CallId("a"), name="Read")

    fixed = repair([user("x"), assistant(call), user("y"), tool_result(call, "late")])

    assert [message.role for message in fixed] == ["user", "assistant", "tool", "user"]
    assert fixed[2].results[0].text == LOST_RESULT


def test_a_digest_longer_than_what_it_replaces_is_not_used() -> None:
    view = view_of(*talk(1, words=22), *talk(4, words=16))

    body = compact_by_rules(view, ContextPolicy(preserve_recent_turns=4), Compact(max_tokens=1_900))

    assert isinstance(body, Stuck)
    assert "save too little" in body.why


def test_a_digest_that_turns_out_too_long_is_not_used_even_if_somebody_asks() -> None:
    view = view_of(*talk(1, words=22), *talk(4, words=16))
    policy = ContextPolicy(preserve_recent_turns=4)

    body = compact_by_rules(view, policy, Compact(max_tokens=1_900), trigger="manual")

    assert isinstance(body, Stuck)
    assert "longer than the text it replaces" in body.why


def test_compact_is_due_at_its_limit() -> None:
    assert Compact(max_tokens=10).due(view_of(), used=10, threshold=None)


@pytest.mark.req("STR-7")
@given(histories(min_turns=1), st.integers(1, 9))
def test_results_are_truncated_first_and_requests_last(entries: list[Entry], tenths: int) -> None:
    view = fold(entries)
    room = view.items.units() * tenths // 10

    changes = shorten_items(view.items, frozenset(), room=room)
    shown = after(view, ResultsCleared(replaced=changes, why="room"))

    assert problems(render(shown)) == problems(render(view))
    by_id = {change.entry_id: change for change in changes}
    assert len(by_id) == len(changes)
    for before, now in zip(view.items, shown.items, strict=True):
        assert now.units <= before.units
        assert before.entry_id in by_id or before is now
        for old, new in zip(before.message.calls, now.message.calls, strict=True):
            assert old == new or msgspec.json.decode(new.arguments) is not None
    requests = [i for i in view.items if i.kind is ItemKind.USER and i.entry_id in by_id]
    results = [i for i in view.items if len(i.answers) == 1 and i.entry_id not in by_id]
    assert not requests or all(len(item.message.results[0].text) <= 200 for item in results)


def test_a_long_request_and_long_arguments_are_truncated_and_name_their_entry() -> None:
    call = ToolCall(
        call_id=CallId("w"),
        name="Write",
        arguments=msgspec.json.encode({"path": "a.py", "lines": ["y" * 9_000], "n": 3}).decode(),
    )
    odd = ToolCall(call_id=CallId("o"), name="Odd", arguments="not json " * 900)
    view = view_of(
        MessageAdded(message=user("Do this: " + "x" * 9_000 + " and be careful.")),
        MessageAdded(message=assistant("I will. " + "z" * 2_000, call, odd)),
        MessageAdded(message=tool_result(call, "written")),
        MessageAdded(message=tool_result(odd, "done")),
    )

    changes = shorten_items(view.items, frozenset(), room=900)
    shown = after(view, ResultsCleared(replaced=changes, why="room"))

    assert shown.items.units() <= 900
    request, answer = shown.items[0].message, shown.items[1].message
    assert request.text.startswith("Do this: xxx")
    assert request.text.endswith("and be careful.")
    assert "entry #2 has it" in request.text
    written = msgspec.json.decode(answer.calls[0].arguments)
    assert (written["path"], written["n"]) == ("a.py", 3)
    assert "entry #3 has it" in written["lines"][0]
    assert msgspec.json.decode(answer.calls[1].arguments)["arguments"].startswith("not json")
    assert shorten_items(view.items, frozenset(i.entry_id for i in view.items), room=9) == ()
    assert shorten_items(view.items, frozenset(), room=10**6) == ()


def test_a_batch_that_waits_for_its_results_is_a_batch_too() -> None:
    call = ToolCall(call_id=CallId("a"), name="Read")
    items = view_of(MessageAdded(message=user("x")), MessageAdded(message=assistant(call))).items

    assert [list(batch) for batch in batches(items)] == [[0], [1]]


def test_a_function_of_ones_own_is_asked_every_time_and_may_keep_all_or_nothing() -> None:
    custom = Custom(compress=lambda messages, tokens: messages)
    view = view_of(*talk(2, words=2))
    last = render(view)[-2:]

    assert custom.due(view, used=0, threshold=None)
    assert custom.target(100) == 100
    assert isinstance(custom.plan(view, Budget(limit=9, tail=9, words=9, summary=9)), Stuck)
    assert isinstance(compact_to(view, render(view)), Stuck)
    fresh = compact_to(view, [user("new"), assistant("words"), *last])
    assert isinstance(fresh, Compacted)
    assert [message.text for message in fresh.inserted] == ["new", "words"]
    shorter = compact_to(view, last)
    assert isinstance(shorter, Compacted)
    assert shorter.inserted == ()


def test_a_digest_of_a_very_long_past_reads_only_the_newest_of_it() -> None:
    view = view_of(*talk(300, words=500), *talk(1))

    text = prepare_digest(list(view.items)).write(500)

    assert text.startswith("602 earlier messages")


def test_the_largest_results_are_truncated_when_a_request_is_still_too_large() -> None:
    view = view_of(*talk(1), *step(1, 6_000), *step(2, 300))

    body = plan_squeeze(view, excess=200)

    assert body is not None
    (change,) = body.replaced
    assert change.entry_id == view.items[3].entry_id
    assert after(view, body).units < view.units - 150
    assert plan_squeeze(view_of(*talk(2)), excess=200) is None
    assert plan_squeeze(view_of(*talk(2)), excess=200, only_results=False) is not None


@pytest.mark.req("CMP-3")
@pytest.mark.parametrize(
    ("pick", "why"),
    [
        (lambda messages: "text", "must return a list of messages"),
        (lambda messages: [], "invalid history: it is empty"),
        (lambda messages: messages[2:], "left out message #2, which must stay"),
    ],
)
def test_a_custom_strategy_that_breaks_its_rules_is_refused(
    pick: Callable[[tuple[Message, ...]], list[Message]], why: str
) -> None:
    view = view_of(*talk(3), PinChanged(target=EntryId(2), pinned=True))
    messages = render(view)

    with pytest.raises(ConfigError, match=why):
        compact_to(view, pick(messages))
