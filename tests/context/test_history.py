"""The history of a conversation: a digest that continues an earlier one equals a fresh one."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.clearing_plan import plan_squeeze
from clew.context.compaction_plan import compact_by_rules
from clew.context.digest.history import History, join_passages
from clew.context.digest.passages import collect_names, split_passages
from clew.context.items import Item
from clew.context.lazy_list import Memo
from clew.context.plan import Stuck
from clew.context.policy import ContextPolicy
from clew.context.strategies.tiered import Tiered
from clew.context.view import View, advance, fold
from clew.core.entries import Body, Cleared, Compacted, Entry, MessageAdded, PinChanged, Undone
from clew.core.ids import EntryId
from clew.core.messages import Message, assistant, tool_result, user
from tests.context.conversations import edit, items, run, use
from tests.histories import SETUP, turns

ENDED = "<task-notification><task-id>b1</task-id><status>completed</status></task-notification>"
WORK: Sequence[tuple[Message, ...]] = (
    (user("Fix the parser, and never touch the tests."), *run("pytest -q", "2 failed, 3 passed")),
    (*edit("src/a.py"), *run("git commit -am fix", "[main abc1234] fix"), assistant("All fixed.")),
    run("make watch", "running in background with ID: b1"),
    use("TaskOutput", {"task_id": "b1"}, "<status>running\ncompiled 3 files"),
    (user(ENDED),),
    (user("<bash-input>git push</bash-input>"), user("<bash-stdout>pushed</bash-stdout>")),
    (assistant("The root cause is the lexer."), user("[Request interrupted by user]")),
    use("Bash", {"command": "rm -r x"}, "The user doesn't want to proceed", failed=True),
    (*use("Read", {"file_path": "src/a.py"}, "1\tdef parse_everything(text): ...\n" * 30),),
    use("Write", {"file_path": "b.py", "content": "value = 1\n" * 40}, "ok"),
)
"""Pieces of an agent's work in which later messages change what earlier ones mean."""
MOVES = ("compact", "compact", "shorten", "undo", "clear", "pin", "go on")
works = st.sampled_from(WORK).map(
    lambda messages: [MessageAdded(message=message) for message in messages]
)


@given(st.lists(st.tuples(works | turns(), st.sampled_from(MOVES)), min_size=1, max_size=14))
def test_a_digest_that_continues_an_earlier_one_equals_a_fresh_one(
    steps: list[tuple[list[MessageAdded], str]],
) -> None:
    journal = [Entry(id=EntryId(1), at=0.0, body=SETUP)]
    view, memo = fold(journal), Memo()

    for said, move in steps:
        for body in said:
            view = _add(journal, view, body)
        continued = _compact(replace(view, memo=memo))

        assert continued == _compact(replace(view, memo=Memo()))

        change = _choose(view, move, continued)
        view = view if change is None else _add(journal, view, change)


def _add(journal: list[Entry], view: View, body: Body) -> View:
    journal.append(Entry(id=EntryId(len(journal) + 1), at=1.0, body=body))
    return advance(view, journal)


def _compact(view: View) -> Compacted | Stuck:
    return compact_by_rules(view, ContextPolicy(), Tiered(), trigger="manual")


def _choose(view: View, move: str, compacted: Compacted | Stuck) -> Body | None:
    match move:
        case "compact" if isinstance(compacted, Compacted):
            return compacted
        case "shorten":
            return plan_squeeze(view, excess=400)
        case "undo" if view.undoable:
            return Undone(target=view.undoable[-1])
        case "clear":
            return Cleared()
        case "pin" if view.items:
            return PinChanged(target=view.items[-1].entry_id, pinned=True)
        case _:
            return None


def test_a_history_reads_only_the_messages_since_the_last_time() -> None:
    first = items(user("Go on."), *run("pytest", "1 passed"))
    more = [*first, *items(user("And now?"))]
    history = History()
    history.follow(first)
    turns_before, steps_before = history.turns, history.state.steps.list_steps()

    history.follow(more)

    assert history.turns is turns_before
    assert history.state.steps.list_steps()[0] is steps_before[0]


def test_a_step_has_the_last_result_of_its_call() -> None:
    asked, first = run("pytest", "1 failed", failed=True)
    history = History()
    conversation = items(user("Go on."), asked)
    history.follow(conversation)
    waiting = history.state.steps.list_steps()
    later = [tool_result(asked.calls[0], text) for text in ("2 passed", "3 passed")]
    results = [list(conversation)]

    told = []
    for number, message in enumerate((first, *later), start=4):
        results.append([*results[-1], Item.of(EntryId(number), message)])
        history.follow(results[-1])
        told += [step.result for step in history.state.steps.list_steps()]

    assert not waiting[0].answered
    assert told == ["1 failed", "2 passed", "3 passed"]


def test_a_history_begins_anew_when_an_earlier_message_changed() -> None:
    history = History()
    history.follow(items(user("Go on."), *run("pytest", "1 failed")))
    other = items(user("Stop."))

    history.follow(other)

    assert [turn.request for turn in history.turns.list_turns()] == ["Stop."]
    assert history.state.steps.list_steps() == []


def test_a_history_follows_a_view_that_grows_without_listing_it_again() -> None:
    journal = [Entry(id=EntryId(1), at=0.0, body=SETUP)]
    view, history = fold(journal), History()
    listed = history.follow_view(view)

    for said in (user("Go on."), *run("pytest", "1 passed"), user("And now?")):
        view = _add(journal, view, MessageAdded(message=said))
        before, listed = listed, history.follow_view(view)

        assert listed == view.list_conversation()
        assert listed is before or len(listed) == 1
    assert [turn.request for turn in history.turns.list_turns()] == ["Go on.", "And now?"]


def test_a_history_of_a_view_lists_messages_in_the_order_of_their_entries() -> None:
    history = History()
    view = fold([Entry(id=EntryId(1), at=0.0, body=SETUP)])
    for number in (5, 9, 7):
        body = MessageAdded(message=user(f"Message {number}."))
        view = view.apply(Entry(id=EntryId(number), at=0.0, body=body))
        history.follow_view(view)

    assert [item.entry_id for item in history.follow_view(view)] == [5, 7, 9]


def test_the_text_of_a_message_is_split_once_while_it_is_selected() -> None:
    work = items(user("Go on."), *run("cat notes.txt", "a line that is long enough to quote"))
    history = History()
    first = join_passages(history.read_texts(work, [])[0])

    again = join_passages(history.read_texts(work[1:], [])[0])

    assert again == list(split_passages(work[1:]))
    assert all(one is other for one, other in zip(again, first[1:], strict=True))


def test_a_result_is_named_after_its_call_only_while_that_is_read_too() -> None:
    call, result = items(*run("cat notes.txt", "a line that is long enough to quote"))
    history = History()
    named = join_passages(history.read_texts([call, result], [])[0])[-1]

    (alone,) = join_passages(history.read_texts([result], [])[0])

    assert (named.label, alone.label) == ("Bash cat notes.txt", "Bash")


def test_the_names_of_a_digest_are_those_of_its_whole_text() -> None:
    history = History()
    plain = ["see src/app.py and compute_everything", "", "no names here"]
    escaped = [*plain, r"printf '\nformat_everything'"]
    windows = [*escaped, r"C:\work\notes.txt"]

    for parts in (plain, [*plain, "then src/other.py"], escaped, windows, plain):
        assert history.collect_names(parts) == collect_names("\n".join(parts))


def test_views_are_equal_whatever_was_asked_of_them() -> None:
    view, other = fold([]), fold([])
    view.memo.get(History)

    assert view == other
    assert view.memo.get(History) is view.memo.get(History)
    assert Memo() != 1
