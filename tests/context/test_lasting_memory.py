"""What the user said stays in the view, word for word, after any number of compactions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.compaction_plan import compact_by_rules, limit_summary, summarise_by_rules
from clew.context.digest.name_index import add_names
from clew.context.digest.passages import render_text
from clew.context.digest.remarks import (
    Remark,
    choose_remarks,
    list_remarks,
    measure_rarity,
    render_remarks,
)
from clew.context.digest.rule_summary import prepare_digest
from clew.context.estimate import text_units
from clew.context.items import Item, ItemKind
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Budget, Reduce, Stuck
from clew.context.policy import ContextPolicy
from clew.context.shortened_items import shorten_items
from clew.context.strategies.tiered import Summarize, Tiered
from clew.context.view import View, fold
from clew.core.entries import Body, Compacted, Entry, MessageAdded, Replacement, SetupChanged
from clew.core.ids import CallId, EntryId
from clew.core.messages import Message, ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from tests.histories import entries_of

WINDOW = 4_000
SETUP = SetupChanged(model=ModelFacts(name="m", window=WINDOW), system="Be exact.")
requests = st.text(
    st.sampled_from("abc déf ghi\n#:-`.→ user 計算"), min_size=1, max_size=120
).filter(lambda text: bool(text.strip()))


def work(number: int, size: int) -> list[Message]:
    call = ToolCall(call_id=CallId(f"c{number}"), name="Read", arguments='{"file_path":"a/b.py"}')
    result = "\n".join(f"line {n} is in src/file_{number}.py" for n in range(size))
    return [assistant("Looking.", call), tool_result(call, result), assistant(f"Done {number}.")]


@pytest.mark.req("CMP-16", "CMP-7")
@given(
    st.lists(st.tuples(requests, st.integers(0, 60)), min_size=6, max_size=12, unique=True),
    st.sampled_from([Tiered(), Summarize()]),
)
def test_the_users_words_are_in_every_view_while_they_fit_into_a_quarter_of_the_window(
    turns: list[tuple[str, int]], strategy: Tiered | Summarize
) -> None:
    view = fold(entries_of([SETUP]))
    number = len(turns)
    said: list[str] = []
    for place, (request, size) in enumerate(turns):
        said.append(request.strip())
        for message in [user(request), *work(place, size)]:
            number += 1
            body: Body = MessageAdded(message=message)
            view = view.apply(Entry(id=EntryId(number), at=0.0, body=body))
        if place % 2:
            continue
        compacted = compact_by_rules(view, ContextPolicy(), strategy)
        if isinstance(compacted, Stuck):
            continue
        number += 1
        view = view.apply(Entry(id=EntryId(number), at=0.0, body=compacted))
        total = sum(i.units for i in (*view.archived, *view.items) if i.kind is ItemKind.USER)
        if total <= WINDOW // 4:
            shown = f"{view.summary}\n{render_text(view.items)}"
            assert [text for text in said if text not in shown] == []


def view_of(*messages: Message) -> View:
    return fold(entries_of([SETUP, *(MessageAdded(message=message) for message in messages)]))


@pytest.mark.req("CMP-15")
def test_the_notes_of_a_model_are_followed_by_the_digest_in_one_budget() -> None:
    turns = [m for n in range(12) for m in (user(f"Rule {n}: use tabs."), *work(n, 40))]
    view = view_of(*turns)
    budget = Budget.of(view, tokens=2_000, window=WINDOW)
    plan = Summarize().plan(view, budget)
    assert isinstance(plan, Reduce)
    room = limit_summary(view, plan, budget)

    summary = summarise_by_rules(view, plan, room, notes="The notes.")

    assert summary.text.startswith("The notes.\n\n")
    assert summary.notes == "The notes."
    assert summary.author == "model"
    for wanted in ("Rule 0: use tabs.", "a/b.py", "file_0.py"):
        assert wanted in summary.text
    assert view.meter(summary.text) <= room.summary + 5


def test_a_conversation_that_is_a_little_too_long_keeps_its_newest_answers_whole() -> None:
    answers = [
        f"Answer {n} about port {9000 + n}: " + f"it listens on {n}. " * 30 for n in range(9)
    ]
    talk = [m for n, text in enumerate(answers) for m in (user(f"Why {n}?"), assistant(text))]
    view = view_of(*talk, user("And now?"))
    tokens = next(n for n in range(100_000) if view.units_for(n) >= 0.97 * view.items.units())
    budget = Budget.of(view, tokens=tokens)

    plan = Summarize().plan(view, budget)

    assert isinstance(plan, Reduce)
    assert plan.replaced == ()


def test_a_request_that_stays_alone_gets_the_room_of_a_summary() -> None:
    view = view_of(user("Find it. " + "detail " * 4_000))
    budget = Budget.of(view, tokens=600)

    plan = Summarize().plan(view, budget)

    assert isinstance(plan, Reduce)
    assert plan.dropped == ()
    assert 0.9 * budget.limit < plan.count_staying(view) <= budget.limit


def choose(remarks: list[Remark], max_chars: int) -> list[Remark]:
    return choose_remarks(remarks, measure_rarity(remarks), max_chars=max_chars)


def test_what_names_nothing_gives_way_to_older_answers_that_do() -> None:
    telling, empty = "The server listens on port 8443.", "Let me look again."
    talk = [user("Find it."), assistant(telling), *[assistant(empty) for _ in range(5)]]
    chosen = choose(list_remarks(list(view_of(*talk).items)), 60)

    assert [remark.text for remark in chosen] == [telling]


def test_the_answer_that_ends_a_turn_stays_before_what_the_model_said_on_the_way() -> None:
    interim, answer = "It may be Rui, who lives in Porto.", "It was Ana, who works in Braga."
    talk = [user("Who?"), assistant(answer), user("Sure?"), assistant(interim), assistant("Yes.")]

    chosen = choose(list_remarks(list(view_of(*talk).items)), 50)

    assert answer in [remark.text for remark in chosen]
    assert interim not in [remark.text for remark in chosen]


def test_what_the_user_told_long_ago_stays_before_what_the_model_said_then() -> None:
    told, answer = "I met Rui there, as you know.", "So Eva met Ada of Faro in 2003."
    later = [user("And then? " + "And so on. " * 30) for _ in range(9)]
    talk = [user(told), assistant(answer), *later]

    chosen = choose(list_remarks(list(view_of(*talk).items)), 60)

    assert [remark.text for remark in chosen] == [told]


def test_whole_messages_stay_before_parts_of_a_long_one() -> None:
    parts = [f"Harbor{n} is not far from Quay{n} and Pier{n}." for n in range(20)]
    short = [f"Market{n} is on the left of the road to Street{n}." for n in range(5)]
    talk = [m for one in short for m in (user("Where?"), assistant(one))]
    remarks = list_remarks(list(view_of(assistant("\n\n".join(parts)), *talk).items))

    text = render_remarks(choose(remarks, 500))

    assert [one for one in short if one not in text] == []


def test_of_a_chat_that_nearly_fits_the_least_telling_messages_leave_not_the_oldest() -> None:
    facts = [
        f"The cousin Rui{n} moved to Porto{n} in {1950 + n}, and sells {n} kinds of bread there, "
        f"with the help of Ana{n}, who came from Faro{n} for it."
        for n in range(12)
    ]
    thanks = [assistant("You are welcome, it was a pleasure to help. " * 3) for _ in range(60)]
    view = view_of(user("Begin."), *map(assistant, facts), *thanks, user("Next?"))
    tokens = next(n for n in range(100_000) if view.units_for(n) >= 0.9 * view.items.units())
    budget = Budget.of(view, tokens=tokens)
    plan = Summarize().plan(view, budget)
    assert isinstance(plan, Reduce)

    summary = summarise_by_rules(view, plan, limit_summary(view, plan, budget))

    shown = f"{summary.text}\n{render_text(plan.list_staying(view))}"
    assert [fact for fact in facts if fact not in shown] == []


@pytest.mark.req("CMP-7")
@pytest.mark.parametrize(
    "notes",
    ["Because of the deadline.", "Analysis:\nLet me see.\n\nSummary:\nBecause of the deadline."],
)
def test_rules_keep_the_notes_that_a_model_wrote_before(notes: str) -> None:
    turns = [m for n in range(12) for m in (user(f"Rule {n}: use tabs."), *work(n, 40))]
    view = view_of(*turns)
    budget = Budget.of(view, tokens=2_000, window=WINDOW)
    plan = Summarize().plan(view, budget)
    assert isinstance(plan, Reduce)
    summary = summarise_by_rules(view, plan, budget, notes=notes)
    first = view.apply(entry(500, plan, summary.text, summary.notes))
    for place, message in enumerate(turns):
        first = first.apply(
            Entry(id=EntryId(600 + place), at=0.0, body=MessageAdded(message=message))
        )

    body = compact_by_rules(first, ContextPolicy(), Summarize())

    assert isinstance(body, Compacted)
    assert body.notes == "Because of the deadline."
    assert body.summary.startswith("Because of the deadline.\n\n")
    assert body.summary.count("Requests of the user") == 1


def entry(number: int, plan: Reduce, text: str, notes: str) -> Entry:
    written = WrittenSummary(text=text, author="model", notes=notes)
    body = build_compaction(fold([]), Reduce(), written, trigger="auto", strategy="t")
    body = replace(body, dropped=tuple(item.entry_id for item in plan.dropped))
    return Entry(id=EntryId(number), at=0.0, body=body)


def test_the_work_on_the_current_request_is_not_told_as_the_end_of_an_earlier_one() -> None:
    items = list(view_of(user("First."), *work(0, 3), user("Second."), *work(1, 3)).items)
    current = items[4]

    text = prepare_digest([item for item in items if item is not current], staying=[current]).write(
        500
    )

    turns = text.partition("\n\nFiles")[0]
    assert "First.\n→ #5: Done 0." in turns
    assert "Done 1." not in turns


def test_names_in_cleared_results_are_told_by_their_markers() -> None:
    view = view_of(
        user("go, see known_identifier"),
        *work(0, 1)[:1],
        tool_result(
            ToolCall(call_id=CallId("c0"), name="Read"),
            "known_identifier unknown_identifier implementation",
        ),
        *work(1, 1)[:1],
        tool_result(ToolCall(call_id=CallId("c1"), name="Read"), "nothing of note"),
    )
    markers = [Replacement(entry_id=EntryId(n), text="[cleared]") for n in (4, 6)]

    named, bare = add_names(view.items, markers)

    assert named.text == "[cleared; it names unknown_identifier]"
    assert bare.text == "[cleared]"


TALK = [
    user("Hi there!"),
    assistant("Hello! How can I help you today?"),
    user("My sister Ines moved to Porto in March 2023 and keeps 14 bees."),
    assistant("That is lovely. Thanks for telling me!"),
    user("Thanks!"),
    assistant("You are welcome! Thanks!"),
]


def test_of_a_conversation_names_numbers_and_dates_are_kept_before_greetings() -> None:
    remarks = list_remarks(list(view_of(*TALK).items))

    chosen = choose(remarks, 75)

    assert render_remarks(chosen) == f"#4 user: {TALK[2].text}"


def test_words_of_a_script_without_spaces_are_told_apart() -> None:
    talk = [
        user("我们明天去图书馆。"),
        user("我们明天去公园。"),
        user("我妹妹住在波尔图,养了14只蜜蜂。"),
    ]
    remarks = list_remarks(list(view_of(*talk).items))

    chosen = choose(remarks, 50)

    assert remarks[0].words.keys() & remarks[1].words.keys() == {"我们", "们明", "明天", "天去"}
    assert remarks[2].words["14"] > 1
    assert [remark.text for remark in chosen] == [talk[0].text, talk[2].text]


@given(st.integers(0, 400))
def test_chosen_remarks_keep_to_their_room(room: int) -> None:
    long = user("\n\n".join(f"Paragraph {n}. " + f"Word{n} " * 90 for n in range(6)))
    odd = Message(role=TALK[0].role, parts=())
    items = list(view_of(*TALK, long, odd, *work(0, 2)).items)
    remarks = list_remarks(items)

    text = render_remarks(choose(remarks, room))

    assert len(text) <= room


def test_a_heading_stays_with_the_paragraph_below_it() -> None:
    filler = "and so on " * 130
    said = assistant(f"{filler}\n\n## Result\n\nThe port is 8443.\n\n## Next steps\n\n---")
    [remark] = list_remarks(list(view_of(said).items))
    texts = [part.text for part in remark.parts]

    assert texts[1:] == ["## Result\nThe port is 8443.", "## Next steps\n---"]


def test_a_long_remark_is_split_and_gaps_are_marked() -> None:
    first = "Ines lives in Porto with Rui. " * 20
    filler = "and so on and so on. " * 70
    said = user(f"{first}\n\n{filler}\n\nAlbert plays the oboe.\n\n" + "x" * 1_300)
    remarks = list_remarks(list(view_of(said).items))

    text = render_remarks(choose(remarks, 700))

    assert " … " in text
    assert "Albert plays the oboe." in text


def test_a_conversation_that_is_digested_again_without_a_journal_keeps_what_the_user_said() -> None:
    items = [Item.of(EntryId(-1 - n), message) for n, message in enumerate(TALK)]
    first = prepare_digest(items).write(300)
    more = [Item.of(EntryId(-9), user("And Rui has 3 dogs."))]

    second = prepare_digest(more, previous=f"{first}\n\nAnd more.").write(300)

    assert "user: My sister Ines moved to Porto in March 2023 and keeps 14 bees." in second
    assert "user: And Rui has 3 dogs." in second


def test_requests_that_do_not_fit_are_truncated_and_the_rest_still_has_room() -> None:
    turns = [m for n in range(6) for m in (user(f"Task {n}: " + "detail " * 400), *work(n, 20))]
    items = list(view_of(*turns).items)

    text = prepare_digest(items).write(700)

    for wanted in ("Task 0", "Task 5", "Files read", "file_5.py"):
        assert wanted in text


def test_the_newest_messages_of_a_plain_conversation_stay_whole() -> None:
    said = [f"Answer {n}: it is all the same, all of it is the same as before." for n in range(60)]
    talk = [m for n, text in enumerate(said) for m in (user(f"Why {n}?"), assistant(text))]

    text = prepare_digest(list(view_of(*talk).items), keep_words=True).write(900)

    assert [one for one in said[-8:] if one not in text] == []
    assert "Why 0?" in text


def test_a_message_that_does_not_fit_is_quoted_in_parts() -> None:
    parts = [f"Part {n}. " + f"word{n} " * 60 for n in range(5)]
    remarks = list_remarks(list(view_of(assistant("\n\n".join(parts))).items))

    half = choose(remarks, 1_100)

    assert len(half) == 2
    assert {remark.text for remark in half} <= {part.strip() for part in parts}
    assert choose(remarks, 100) == []
    assert choose(remarks, 3_000) == remarks


def test_a_digest_of_which_all_would_be_a_little_too_long_fills_its_room() -> None:
    facts = [f"Rui{n} moved to Porto{n} in {1950 + n}." for n in range(40)]
    thanks = [assistant("You are welcome, it was a pleasure to help you!") for _ in range(20)]
    digest = prepare_digest(list(view_of(*map(assistant, facts), *thanks).items))
    whole = digest.write(100_000)

    text = digest.write(int(text_units(whole) * 0.97))

    assert len(text) >= 0.9 * len(whole)


def test_gaps_between_messages_without_numbers_are_marked() -> None:
    items = [Item.of(EntryId(-1 - n), message) for n, message in enumerate(TALK)]

    text = render_remarks([list_remarks(items)[n] for n in (0, 2, 3)])

    assert text.split("\n") == [
        f"user: {TALK[0].text}",
        "…",
        f"user: {TALK[2].text}",
        f"assistant: {TALK[3].text}",
    ]


def test_identifiers_weigh_as_much_as_names() -> None:
    [remark] = list_remarks(list(view_of(user("see user_id and userId of Ada at 14 here")).items))

    heaviest = max(remark.words.values())

    assert {word for word, weight in remark.words.items() if weight == heaviest} == {
        "user_id",
        "userid",
        "ada",
        "14",
    }


def chat_of_visits() -> list[Message]:
    said = [user("Plan the trip to Lagos with me."), user("Always give prices in euros.")]
    for n in range(120):
        said += [user(f"What about question{n}, is it any good?" + " Tell me more." * 5)]
        said += [assistant(f"We know the place Harbor{n // 2}, which is the one on page{n}.")]
    return said


def test_what_was_told_long_ago_stays_while_thanks_and_greetings_leave() -> None:
    facts = [f"My cousin Rui{n} moved to Porto{n} in {1950 + n}." for n in range(20)]
    thanks = "Thanks a lot, that is really kind of you!"
    talk = [m for one in facts for m in (user(one), assistant("Great to hear that!"))]
    talk += [m for _ in range(40) for m in (user(thanks), assistant("You are welcome, always!"))]

    text = prepare_digest(list(view_of(*talk).items)).write(500)

    assert [fact for fact in facts if fact not in text] == []


def test_the_message_before_the_next_one_stays() -> None:
    facts = [user(f"My cousin Rui{n} moved to Porto{n} in {1950 + n}.") for n in range(60)]
    last = assistant("It is as it was, and so it is. " * 9)

    text = prepare_digest(list(view_of(*facts, last).items)).write(300)

    assert last.text.strip() in text


def test_the_first_task_and_rules_of_a_plain_conversation_stay() -> None:
    text = prepare_digest(list(view_of(*chat_of_visits()).items)).write(900)

    assert "Plan the trip to Lagos with me." in text
    assert "Always give prices in euros." in text


def test_of_a_first_task_that_is_too_long_its_beginning_and_other_parts_stay() -> None:
    parts = [f"Step {n} concerns Harbor{n}. " + f"detail{n} " * 30 for n in range(9)]
    talk = [user("\n\n".join(parts)), assistant("I understand."), user("Begin with the first.")]

    text = prepare_digest(list(view_of(*talk).items)).write(500)

    assert "Step 0 concerns Harbor0." in text
    assert sum(part.strip() in text for part in parts[1:]) >= 4


def test_all_words_of_the_user_stay_where_they_may_take_the_room() -> None:
    talk = chat_of_visits()
    said = [message.text for message in talk if message.role == "user"]
    digest = prepare_digest(list(view_of(*talk).items), keep_words=True)

    text = digest.write(8_000)

    assert [one for one in said if one not in text] == []


def test_a_chat_without_requests_has_no_first_task() -> None:
    said = [assistant(f"Notice {n}: the line to Porto {n} is closed.") for n in range(40)]

    text = prepare_digest(list(view_of(user("ok"), *said).items)).write(300)

    assert "Notice 39" in text


def test_a_digest_with_no_requests_begins_with_its_other_sections() -> None:
    items = list(view_of(*work(0, 5)).items)

    assert "Requests of the user" not in prepare_digest(items).write(300)
    assert prepare_digest(items).write(1) == ""


def test_a_hard_limit_truncates_even_the_request_and_leaves_room_for_a_summary() -> None:
    view = view_of(user("Old."), *work(0, 400), user("New: " + "detail " * 900), *work(1, 5)[:2])
    budget = Budget.of(view, tokens=600)
    plan = Summarize().plan(view, budget)
    assert isinstance(plan, Reduce)

    room = limit_summary(view, plan, budget)

    assert view.items[4].entry_id in {change.entry_id for change in plan.replaced}
    assert 60 < room.summary < budget.limit


def test_arguments_of_many_short_strings_are_cut_to_the_shortest() -> None:
    call = ToolCall(
        call_id=CallId("m"),
        name="Many",
        arguments="[" + ",".join(f'"{"word " * 20}{n}"' for n in range(90)) + "]",
    )
    view = view_of(user("go"), assistant(call), tool_result(call, "done"))

    (change,) = shorten_items(view.items, frozenset(), room=100)

    assert change.text == ""
    assert len(change.arguments[CallId("m")]) < len(call.arguments)


def test_a_digest_of_a_very_long_past_of_work_reads_only_the_newest_lines() -> None:
    turns = [m for n in range(60) for m in (user(f"Task {n}."), *work(n, 300))]

    text = prepare_digest(list(view_of(*turns).items)).write(2_000)

    assert "Task 0." in text
    assert "line 299 is in src/file_59.py" in text
