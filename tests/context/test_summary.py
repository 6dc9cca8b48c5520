"""Summaries: what a model is asked, and what rules say without one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.compaction_plan import compact_by_rules
from clew.context.digest.excerpts import Excerpts
from clew.context.digest.name_index import NameIndex
from clew.context.digest.passages import (
    make_passage,
    split_passages,
    strip_line_number,
    strip_wrapping,
)
from clew.context.digest.rule_summary import prepare_digest
from clew.context.estimate import text_units
from clew.context.items import Item, Items
from clew.context.policy import ContextPolicy
from clew.context.strategies.tiered import Tiered
from clew.context.summary_prompt import (
    build_summary_instruction,
    build_summary_prompt,
    format_facts,
    format_transcript,
    split_transcript,
)
from clew.context.view import fold
from clew.core.entries import Body, Compacted, Entry, MessageAdded
from clew.core.ids import CallId, EntryId
from clew.core.messages import (
    File,
    Image,
    Message,
    Native,
    Reasoning,
    Role,
    ToolCall,
    assistant,
    tool_result,
    user,
)
from clew.core.text import truncate_middle
from tests.context.conversations import items as ledger_items
from tests.context.conversations import use
from tests.histories import SETUP, entries_of, histories


def call(name: str, arguments: str, mark: str) -> ToolCall:
    return ToolCall(call_id=CallId(mark), name=name, arguments=arguments)


READ = call("Read", '{"file_path":"src/app.py"}', "r")
EDIT = call("Edit", '{"file_path":"src/app.py","old_string":"a"}', "e")
LIST = call("Bash", '{"command":"ls   -la"}', "b")
FAILED = call("Write", '{"file_path":"nope.py"}', "f")
ODD = call("Bash", "not json", "o")


def items(*messages: Message) -> list[Item]:
    bodies: list[Body] = [SETUP, *(MessageAdded(message=message) for message in messages)]
    return list(fold(entries_of(bodies)).items)


TOLD = "this line is told in another section"
WORK = items(
    user("Fix the login bug", Image(data=b"x")),
    assistant(Reasoning(text="hm"), "On it.", READ, EDIT, LIST, FAILED, ODD),
    tool_result(READ, "def login(): ..."),
    tool_result(EDIT, "done"),
    tool_result(LIST, "total 0"),
    tool_result(FAILED, "read-only", failed=True),
    tool_result(ODD, "ran it anyway"),
    assistant("Fixed it in src/app.py."),
)


@pytest.mark.req("CMP-3")
def test_facts_come_from_the_calls_and_leave_out_failed_ones() -> None:
    assert format_facts(WORK) == (
        "Repository:\n- no commit of the changed files was seen\n"
        "Files changed:\n- src/app.py (1 edit, last #3)"
    )
    assert format_facts([]) == ""
    assert format_facts(WORK, max_chars=5) == ""


@pytest.mark.req("CMP-6")
def test_the_summariser_sees_calls_with_arguments_and_the_earlier_notes() -> None:
    (transcript,) = split_transcript(WORK, max_chars=100_000)
    prompt = build_summary_prompt(
        transcript, max_units=500, previous="old notes", instructions="keep the API names"
    ).text

    for expected in (
        "old notes",
        "keep the API names",
        "src/app.py",
        "user: Fix",
        "failed of Write",
    ):
        assert expected in prompt
    assert "hm" not in "\n".join(format_transcript(WORK))
    assert "[image/png]" in prompt


@pytest.mark.req("CMP-6")
def test_the_summariser_knows_what_follows_its_notes_and_how_long_they_may_be() -> None:
    shared = build_summary_instruction(kept=6, max_units=500).text
    text = build_summary_prompt(["user: go"], max_units=500).text

    for prompt in (shared, text):
        assert "Below your notes a program quotes\nthe user's messages" in prompt
        assert "at most 250 words" in prompt
    assert "at most 50 words" in build_summary_prompt([], max_units=1).text, "never none"


@pytest.mark.req("CMP-8")
def test_a_transcript_larger_than_the_summarisers_window_is_read_in_chunks() -> None:
    long = items(*(user(f"request {number} " + "word " * 100) for number in range(40)))

    parts = list(split_transcript(long, max_chars=4_000))

    assert len(parts) > 3
    assert all(len("\n".join(part)) <= 4_000 for part in parts)
    assert [line for part in parts for line in part] == format_transcript(long)
    assert list(split_transcript([], max_chars=10)) == [[]]


@pytest.mark.req("STR-3")
def test_a_digest_says_what_was_asked_touched_and_answered() -> None:
    text = prepare_digest(WORK).write(500)

    for expected in ("Files changed:\n- src/app.py", "(#2 to #9)"):
        assert expected in text


@given(st.integers(70, 400))
def test_a_digest_keeps_to_its_size_and_prefers_what_is_new(size: int) -> None:
    many = items(*(user(f"request number {number} about some things") for number in range(100)))

    text = prepare_digest(many).write(size)

    assert text_units(text) <= size
    if "request" in text:
        assert "request number 99" in text


@given(histories(min_turns=1), st.integers(30, 2_000))
def test_a_digest_of_anything_keeps_to_its_size_and_is_the_same_twice(
    entries: list[Entry], size: int
) -> None:
    everything = list(fold(entries).items)

    assert text_units(prepare_digest(everything).write(size)) <= size
    assert prepare_digest(everything).write(size) == prepare_digest(everything).write(size)


def test_a_digest_quotes_a_file_that_was_read_twice_only_once() -> None:
    line = "def a_function_with_a_long_name(): return 1"
    twice = items(
        assistant(READ),
        tool_result(READ, f"1\t{line}"),
        assistant(EDIT),
        tool_result(EDIT, f"1\t{line}"),
    )

    assert prepare_digest(twice).write(300).count(line) == 1


def test_a_digest_lists_names_that_are_not_in_the_view_anyway() -> None:
    gone = items(
        user("go"),
        assistant(READ),
        tool_result(READ, "look at wonderful_identifier and other_long_identifier, " * 20),
    )
    staying = [Item.of(EntryId(9), user("wonderful_identifier stays"))]

    names = prepare_digest(gone, staying=staying).write(90).rpartition("Names that came up")[2]

    assert "other_long_identifier" in names
    assert "wonderful_identifier" not in names
    assert "implementation" not in names


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (r'{"x": "\tentireSessionID\n\notherValueOfIt"}', "entireSessionID otherValueOfIt"),
        (r'{"x": "C:\\temporary_folder_x\\new_file_of_it"}', "temporary_folder_x new_file_of_it"),
        (r"C:\temporary_folder_x\new_file_of_it", "temporary_folder_x new_file_of_it"),
    ],
)
def test_the_names_of_a_digest_have_no_letters_of_escapes(text: str, name: str) -> None:
    gone = items(user("go"), assistant(READ), tool_result(READ, f"{text}, " * 20))

    names = prepare_digest(gone).write(90).rpartition("Names that came up")[2]

    assert set(name.split()) <= set(names.replace(",", " ").split())


@pytest.mark.req("STR-7")
@given(st.text(max_size=400), st.integers(1, 300))
def test_an_excerpt_never_exceeds_its_limit(text: str, limit: int) -> None:
    short = truncate_middle(text, limit)

    assert len(short) <= limit
    assert len(text) > limit or short == text


def test_an_excerpt_shows_head_and_tail_and_where_the_rest_is() -> None:
    short = truncate_middle("begin" + "x" * 5_000 + "finish", 300, where="; entry #7 has it")

    assert short.startswith("begin")
    assert short.endswith("finish")
    assert "5,011 characters in all" in short
    assert "entry #7 has it" in short


def test_telling_lines_are_quoted_and_others_are_not() -> None:
    shown = "\n".join(
        [
            "/home/me/project/src/very/deep/path/app.py",
            "// a comment that explains what comes next here",
            "paragraph " * 60,
            "value = compute_the_answer(to_everything)",
            "short",
            "                      12345678",
        ]
    )
    odd = call("Notes", "not json at all, but words of some length", "n")
    deep = call("Many", '{"edits":[{"text":"a line inside of nested lists"},3]}', "m")
    grep = call("Grep", "{}", "g")
    work = items(
        user("go"),
        assistant(READ, odd, deep, grep),
        tool_result(READ, shown),
        tool_result(grep, "src/app.py:12: a line that a search has found somewhere"),
        assistant("  12                            x"),
    )

    excerpts = Excerpts(list(split_passages(work)))
    roomy = "\n".join(excerpts.choose(max_chars=5_000))
    tight = "\n".join(excerpts.choose(max_chars=110))

    assert "paragraph " * 59 in roomy
    assert "…" in "\n".join(excerpts.choose(max_chars=560))
    assert "not json at all" in roomy
    assert "a line inside of nested lists" in roomy
    assert "/home/me/project/src/very/deep/path/app.py" in tight
    assert "comment" not in tight
    assert len(tight) <= 110


def test_excerpts_stand_under_their_file_once() -> None:
    path = "/work/src/app.py"
    read = call("Read", f'{{"file_path":"{path}"}}', "r")
    edit = call(
        "Edit", f'{{"file_path":"{path}","new_string":"limit = find_the_limit(window)"}}', "e"
    )
    test = call("Bash", '{"command":"uv run pytest tests/limits -q"}', "t")
    work = items(
        user("go"),
        assistant(read, test),
        tool_result(read, "def find_the_limit(window):"),
        tool_result(test, '"github.com/one/quoted/import"'),
        assistant(edit),
        tool_result(edit, "this line is told in another section"),
    )

    written = Excerpts(list(split_passages(work))).choose(max_chars=500, told=f"{path}\n{TOLD}")

    assert written == [
        "#5 Bash uv run pytest tests/limits -q:",
        '"github.com/one/quoted/import"',
        "#6 src/app.py:",
        "def find_the_limit(window):",
        "limit = find_the_limit(window)",
    ]


def test_what_a_program_puts_around_a_result_is_not_quoted() -> None:
    wrapped = (
        "Chunk ID: a45e1d\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n"
        "the harbour gate closes at nine\n"
        "<system-reminder>\nthe to-do list was not used lately\n</system-reminder>"
    )
    talk = items(user("When does it close?"), assistant(LIST), tool_result(LIST, wrapped))

    text = prepare_digest(talk).write_chars(5_000)

    assert "the harbour gate closes at nine" in text
    assert "Wall time" not in text
    assert "to-do list" not in text


def test_an_excerpt_stands_under_the_entry_that_has_it() -> None:
    looks = [call("look", "{}", f"l{n}") for n in range(2)]
    told = call("Bash", '{"command":"make the whole thing again","description":"Make it"}', "b")
    work = items(
        user("go"),
        assistant(*looks),
        *(tool_result(look, f"what number {n} has to show us") for n, look in enumerate(looks)),
        assistant(told),
        tool_result(told, "done"),
    )

    written = Excerpts(list(split_passages(work))).choose(max_chars=500)

    assert written == [
        "#4 look:",
        "what number 0 has to show us",
        "#5 look:",
        "what number 1 has to show us",
        "#6 Bash make the whole thing again",
    ]


def test_only_lines_that_the_view_does_not_have_are_quoted() -> None:
    read = call("Read", '{"file_path":"src/app.py"}', "r")
    lines = ["limit = find_the_limit(window)", "return shorten_the_rest(limit)"]
    stretch = items(user("go"), assistant(read), tool_result(read, "\n".join(lines)))

    for known in ([], lines[:1], lines[1:], lines):
        excerpts = Excerpts(list(split_passages(stretch)), known=frozenset(known))
        quoted = excerpts.choose(max_chars=500)

        assert [line for line in lines if line in quoted] == [
            line for line in lines if line not in known
        ]


def test_lines_of_one_kind_come_after_those_of_others() -> None:
    alike = [f"return wrap(err, 'failed to read part {n}')" for n in range(9)]
    read = call("Read", '{"file_path":"src/app.py"}', "r")
    text = "\n".join(["limit = find_the_limit(window)", *alike])
    excerpts = Excerpts(
        list(split_passages(items(user("go"), assistant(read), tool_result(read, text))))
    )

    some = excerpts.choose(max_chars=250)

    assert "limit = find_the_limit(window)" in some
    assert sum(line in alike for line in some) >= 3
    assert set(alike) <= set(excerpts.choose(max_chars=2_000))


def test_a_line_that_only_begins_like_what_is_told_is_quoted() -> None:
    told = "alpha beta gamma delta epsilon"
    lines = [
        "alpha beta is the first of them",
        *(f"{n} bottles of something to drink" for n in range(120)),
    ]
    read = call("Read", '{"file_path":"src/app.py"}', "r")
    work = items(user("go"), assistant(read), tool_result(read, "\n".join([*lines, told])))

    written = Excerpts(list(split_passages(work))).choose(max_chars=20_000, told=told)

    assert lines[0] in written
    assert told not in written


def test_few_names_that_differ_in_a_number_are_listed() -> None:
    packs = [f"pack-{n:06x}aa.pack" for n in range(20)]
    hashes = [f"{n:06x}bb" for n in range(20)]
    index = NameIndex([make_passage(" ".join(f"objects/{name}" for name in [*packs, *hashes]))])

    names = index.choose(max_chars=5_000)

    assert len(set(names) & set(packs)) == 4
    assert set(hashes) <= set(names)


def test_lines_that_an_edit_replaced_come_last() -> None:
    old, new = "limit = guess_the_old_limit()", "limit = find_the_limit(window)"
    one = {"old_string": old, "new_string": new}
    edits = {"file_path": "src/app.py", "edits": [one]}
    edit = call("MultiEdit", msgspec.json.encode(edits).decode(), "e")
    odd = call("MultiEdit", '{"edits":3}', "o")
    work = items(user("go"), assistant(edit, odd), tool_result(edit, "done"))

    excerpts = Excerpts(list(split_passages(work)))

    assert old in "\n".join(excerpts.choose(max_chars=200))
    tight = "\n".join(excerpts.choose(max_chars=80))
    assert new in tight
    assert old not in tight


def test_a_digest_does_not_quote_the_files_that_follow_it() -> None:
    line = "limit = find_the_limit(window)"
    work = items(user("go"), assistant(READ), tool_result(READ, line))

    assert line in prepare_digest(work).write(300)
    assert line not in prepare_digest(work, beside=("", f"```\n{line}\n```")).write(300)


def test_a_bare_number_is_a_name_only_in_calls() -> None:
    reply = call("Bash", '{"command":"reply 2738999764"}', "b")
    work = items(assistant(READ), tool_result(READ, "1234567890 2738999764"), assistant(reply))

    assert NameIndex(list(split_passages(work))).choose(max_chars=90) == ["app.py", "2738999764"]


def test_names_in_recent_calls_come_first_and_room_is_kept() -> None:
    old = [tool_result(READ, f"some_identifier_number_{n} and more") for n in range(50)]
    recent = call("Edit", '{"file_path":"src/very_recent_file.py"}', "z")
    stretch = list(split_passages(items(*old, assistant(recent))))

    found = NameIndex(stretch).choose(max_chars=60)

    assert found[0] == "very_recent_file.py"
    assert len(", ".join(found)) <= 60


def test_numbers_before_lines_are_taken_off() -> None:
    assert strip_line_number("   12\tdef f():") == "def f():"
    assert strip_line_number("12→x = 1") == "x = 1"
    assert strip_line_number("2026 was a year") == "2026 was a year"


def test_files_and_private_blocks_are_told_in_a_line() -> None:
    message = Message(
        role=Role.ASSISTANT,
        parts=(
            File(media_type="application/pdf", url="https://example.com/a.pdf"),
            Native(provenance="anthropic", data="{}", note="[searched: marigold]"),
            Native(provenance="anthropic", data="{}"),
        ),
    )

    assert format_transcript([Item.of(EntryId(1), message)]) == [
        "assistant: [application/pdf]",
        "assistant: [searched: marigold]",
    ]


@pytest.mark.req("CMP-7")
def test_without_a_journal_a_digest_quotes_the_earlier_summary() -> None:
    bodies: list[Body] = [SETUP]
    for number in range(12):
        bodies.append(MessageAdded(message=user(f"question {number} " + "about it " * 40)))
        bodies.append(MessageAdded(message=assistant("words of an answer " * 40)))
    view = fold(entries_of(bodies))
    first = compact_by_rules(view, ContextPolicy(), Tiered(max_tokens=3_000))
    assert isinstance(first, Compacted)
    known = replace(first, summary="Keep the identifier frobnicate_the_widget_42 in mind.")
    shorter = view.apply(Entry(id=EntryId(90), at=0.0, body=known))
    alone = replace(shorter, archived=Items())
    for number, body in enumerate(bodies[1:], start=100):
        alone = alone.apply(Entry(id=EntryId(number), at=0.0, body=body))

    second = compact_by_rules(alone, ContextPolicy(), Tiered(max_tokens=1_000))

    assert isinstance(second, Compacted)
    assert "frobnicate_the_widget_42" in second.summary


def test_a_digest_of_messages_without_entries_names_no_numbers() -> None:
    alone = [Item.of(EntryId(-n), user("where is the report?")) for n in (2, 1)]

    text = prepare_digest(alone).write(200)

    assert text.startswith("2 earlier messages were set aside.")
    assert "#" not in text


@pytest.mark.req("CMP-8")
def test_the_instruction_at_the_end_of_a_conversation_says_what_stays_and_how_long() -> None:
    plain = build_summary_instruction(kept=6, max_units=500).text
    focused = build_summary_instruction(kept=6, max_units=500, instructions="Keep names.").text

    assert "The last 6 messages" in plain
    assert "at most 250 words" in plain
    assert focused.removeprefix(plain) == "\n\nAdditional focus:\nKeep names."


@given(max_chars=st.integers(-10, 400), turns=st.integers(1, 25), plan=st.booleans())
def test_a_digest_of_any_size_ends_and_fits(max_chars: int, turns: int, *, plan: bool) -> None:
    done = "The user approved the plan. Carry it out."
    steps = use("ExitPlanMode", {"plan": "1. Move it\n2. Test it"}, done) if plan else ()
    talk = ledger_items(
        *(user(f"请求 {n} do this") for n in range(turns)),
        *steps,
        *use("Edit", {"file_path": "a.py", "old_string": "one()", "new_string": "two()"}, "ok"),
    )
    earlier = prepare_digest(talk).write_chars(3_000)

    for digest in (prepare_digest(talk), prepare_digest(talk, previous=earlier)):
        assert len(digest.write_chars(max_chars)) <= max(0, max_chars)


def test_reminders_in_results_are_left_out() -> None:
    text = "one  <system-reminder>a</system-reminder>\ntwo\n<system-reminder>b</system-reminder>"

    assert strip_wrapping(text) == "one\ntwo"
    assert strip_wrapping("one <system-reminder>cut") == "one <system-reminder>cut"
    assert strip_wrapping("Command: ls\nChunk ID: 1\nOutput:\na.py") == "a.py"


RULE = "Never touch the files under billing/invoice without asking."
WORDY = f"""\
# What the user wants
- The rule of the user: {RULE}
- The user wants: fix the totals of the monthly report first.
- The tone of the messages should be friendly, and nobody may be blamed in them.
"""


def work_items() -> list[Item]:
    steps = [use("Read", {"file_path": f"src/part_{n}.py"}, f"value_{n} = {n}") for n in range(30)]
    asked = f"Fix the totals of the monthly report first. {RULE}"
    return ledger_items(user(asked), *(one for step in steps for one in step))


def test_long_notes_lose_only_what_the_digest_tells() -> None:
    digest = prepare_digest(work_items(), beside=(WORDY, ""))

    notes, told = digest.write_after(WORDY, max_notes=10, max_units=600, least=100)

    assert "fix the totals" not in notes
    assert "Fix the totals" in told
    assert RULE in notes, "a negation may be all that matters"
    assert "nobody may be blamed" in notes
    assert text_units(notes) + text_units(told) <= 600


def test_notes_of_the_length_that_was_asked_for_stay_whole() -> None:
    digest = prepare_digest(work_items(), beside=(WORDY, ""))

    notes, told = digest.write_after(WORDY, max_notes=1_000, max_units=600, least=100)

    assert notes == WORDY
    assert text_units(told) <= 600 - text_units(WORDY)


@given(max_units=st.integers(60, 900), max_notes=st.integers(0, 200))
def test_a_rule_is_in_the_notes_or_in_the_digest(max_units: int, max_notes: int) -> None:
    long = f"Fix the totals. {'Here is the log of the last run. ' * 400}{RULE}{' And more.' * 400}"
    talk = ledger_items(user(long), *use("Bash", {"command": "make"}, "ok"))
    digest = prepare_digest(talk, beside=(WORDY, ""))

    notes, told = digest.write_after(WORDY, max_notes=max_notes, max_units=max_units, least=50)

    assert RULE in notes or "billing/invoice without asking" in told
