"""Search in the journal for what left the view: words, names, filters, snippets, files."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.recall import RECALL
from clew.context.recall.answer import (
    EntryRange,
    Hints,
    format_entries,
    format_found,
    parse_references,
)
from clew.context.recall.documents import make_documents, make_mark
from clew.context.recall.entry_text import (
    entry_text,
    format_call,
    format_diff,
    strip_boilerplate,
)
from clew.context.recall.file_version import find_latest_version, format_version
from clew.context.recall.folded_text import FoldedText
from clew.context.recall.occurrences import Matcher, cut_snippets, excerpt_around
from clew.context.recall.query import RecallQuery, parse_query, parse_time, stem
from clew.context.recall.search import Found, Hit
from clew.context.recall.units import Unit, read_units, read_user_words
from clew.context.recall.word_index import WordIndex, search_entries
from clew.context.recall.words import fold, split_terms
from clew.core.context_state import LossReport
from clew.core.entries import Cleared, Compacted, Entry, MessageAdded, Noted, TaskChanged
from clew.core.errors import SessionError
from clew.core.ids import CallId
from clew.core.messages import (
    Image,
    Message,
    Reasoning,
    Role,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from clew.core.messages import tool_result as result_of
from clew.core.tasks import TaskKind, TaskState, TaskStatus
from tests.histories import SETUP, entries_of
from tests.rows import each_row

READ = ToolCall(call_id=CallId("a"), name="Read", arguments='{"path":"notes.txt"}')
LOOK = ToolCall(call_id=CallId("b"), name=RECALL, arguments='{"query":"marigold"}')
PICTURE = Message(role=Role.USER, parts=(Image(data=b"x"),))
JOURNAL: list[Entry] = entries_of(
    [
        SETUP,
        MessageAdded(message=user("The code word is MARIGOLD-7.")),
        MessageAdded(message=assistant(Reasoning(text="a flower"), "Noted.", READ)),
        MessageAdded(message=result_of(READ, "short"), full_text="the whole marigold garden"),
        MessageAdded(message=assistant(LOOK)),
        MessageAdded(message=result_of(LOOK, "marigold")),
        MessageAdded(message=PICTURE),
        Noted(topic="tool", text="marigold read"),
        Cleared(),
    ]
)
HINTS = Hints(read="read {id} from {offset}", around="{first}-{last}")

pytestmark = pytest.mark.req("CMP-10")


def call(name: str, arguments: str, call_id: str = "c") -> ToolCall:
    return ToolCall(call_id=CallId(call_id), name=name, arguments=arguments)


def find(entries: Sequence[Entry], query: str, **options: int) -> list[int]:
    found = search_entries(entries, parse_query(query), limit=options.get("limit", 20))
    return [hit.unit.entry_id for hit in found.hits]


def talk(*messages: Message) -> list[Entry]:
    return entries_of([MessageAdded(message=message) for message in messages])


def reader(entries: Sequence[Entry]) -> dict[int, Entry]:
    return {int(entry.id): entry for entry in entries}


# What is found, and in which order


def test_messages_come_before_notes_and_the_tools_own_results_are_not_found() -> None:
    assert find(JOURNAL, "Marigold") == [2, 4, 8]
    assert find(JOURNAL, "marigold", limit=1) == [2]
    assert [one.entry_id for one in make_documents(talk(user("?!"), user("x")))] == [2]
    assert [one.entry_id for one in make_documents(JOURNAL, after=4)] == [8]
    assert find(JOURNAL, "tulip") == find(JOURNAL, "?!") == []


def test_an_entry_with_all_words_is_found_before_those_with_some() -> None:
    assert find(JOURNAL, "marigold code")[0] == 2


def test_a_call_without_a_result_is_found_too() -> None:
    run = call("Bash", '{"command":"make zeppelin"}')
    for entries in (talk(assistant(run)), talk(assistant(run), user("stop"))):
        (hit,) = search_entries(entries, parse_query("zeppelin")).hits

        assert (hit.unit.entry_id, hit.unit.status, hit.unit.called_in) == (1, "no result", None)


def test_a_result_whose_call_is_unknown_is_found_by_itself() -> None:
    lost = result_of(call("Bash", "{}", "gone"), "zeppelin landed")
    noted = entries_of([Noted(topic="t", text="x"), MessageAdded(message=lost)])
    (hit,) = search_entries(noted, parse_query("zeppelin")).hits

    assert (hit.unit.tool, hit.unit.called_in, hit.unit.files) == ("Bash", None, ())
    assert hit.unit.text == "Bash\nzeppelin landed"


def test_results_of_one_message_are_found_with_their_own_calls() -> None:
    one, other = (call("Bash", f'{{"command":"run {name}"}}', name) for name in ("ox", "elk"))
    results = (ToolResult(call_id=CallId(n), name="Bash", text=f"{n} done") for n in ("ox", "elk"))
    both = Message(role=Role.TOOL, parts=tuple(results))
    entries = talk(assistant("two animals", one, other), both)

    hits = search_entries(entries, parse_query("animals ox elk done")).hits

    assert {hit.unit.text for hit in hits} == {
        "two animals",
        "$ run ox\nox done",
        "$ run elk\nelk done",
    }


def test_a_call_is_found_behind_other_entries_and_answers() -> None:
    one, other = (call("Bash", f'{{"command":"run {name}"}}', name) for name in ("ox", "elk"))
    entries = entries_of(
        [
            MessageAdded(message=assistant(one, other)),
            Noted(topic="t", text="hm"),
            MessageAdded(message=result_of(other, "late")),
            MessageAdded(message=assistant("in between")),
            MessageAdded(message=result_of(one, "later")),
        ]
    )

    assert [unit.called_in for unit in read_units(5, reader(entries).get)] == [1]
    assert find(entries, "run elk late")[0] == 3


def test_an_exact_phrase_is_checked_in_the_text() -> None:
    entries = talk(user("alpha beta gamma"), user("beta alpha gamma"), user("Alpha\n Beta"))

    assert sorted(find(entries, '"alpha beta"')) == [1, 3]
    assert find(entries, "alpha role:user tool:Bash") == find(entries, '"gamma beta"') == []


def test_a_result_far_behind_its_call_is_not_looked_for() -> None:
    run = call("Bash", '{"command":"make zeppelin"}')
    notes = [Noted(topic="t", text="hm")] * 70
    entries = entries_of([MessageAdded(message=assistant(run)), *notes])

    assert [unit.status for unit in read_units(1, reader(entries).get)] == ["no result"]


def test_every_word_can_be_common() -> None:
    entries = talk(*[user(f"two thousand {number}") for number in range(2_010)], user("x"))

    assert len(find(entries, "two thousand", limit=3)) == 1
    assert find(entries, "x two")[0] == 2_011


def test_of_many_entries_those_with_more_of_a_word_come_first() -> None:
    texts = [f"gadget {chr(97 + n % 26) * 5} {chr(97 + n // 26) * 7}" for n in range(60)]
    entries = talk(user("gadget gadget gadget"), *map(user, texts))

    assert find(entries, "gadget")[0] == 1


def test_filters_alone_list_the_newest_first() -> None:
    entries = talk(user("a b c d"), assistant("x"), user("something else entirely"))

    assert find(entries, "role:user") == [3, 1]
    assert find(entries, "tool:Bash role:user") == []


@given(st.lists(st.text(alphabet="ab cd", min_size=1), min_size=1, max_size=8))
def test_every_text_with_a_word_is_found_by_that_word(texts: list[str]) -> None:
    entries = talk(*map(user, texts))

    for word in {word for text in texts for word in text.split()}:
        found = search_entries(entries, parse_query(f'"{word}"'), limit=100)
        ids = {one for hit in found.hits for one in (hit.unit.entry_id, *hit.same)}
        assert ids >= {n for n, text in enumerate(texts, 1) if word in text.split()}


LETTERS = (
    "aBſßẞﬁŒéÉe\u0301İıΣσςＡａ１½²™…℡\u0345ᾳЖйअि्नक्षไก้ำعَةㄱ\u1100\u1161\u11a8한ｶﾞが計算Ꭰꭰ_-.\u20dd"
)


@given(st.text(alphabet=LETTERS + "  \n\xa0", min_size=1), st.text(alphabet=LETTERS))
@example("xa.a.a", "")
def test_any_word_is_found_as_it_was_written(text: str, more: str) -> None:
    entries = talk(user(f"{more} {text}"))

    for word in filter(split_terms, text.split()):
        (hit,) = search_entries(entries, parse_query(word)).hits
        assert hit.snippets


@given(st.text(), st.text(alphabet=LETTERS))
def test_a_folded_text_is_folded_like_its_words_and_knows_where_they_are(a: str, b: str) -> None:
    text = f"{a}{b} needle"
    folded = FoldedText(text)

    assert folded.text == fold(text)
    assert folded.find_origin(folded.text.rindex("needle")) == text.rindex("needle")


def test_a_word_starts_at_letters_and_not_inside_of_one_that_folds_to_more() -> None:
    folded = FoldedText("aßb 5℃x")

    assert folded.text == "assb 5°cx"
    assert not folded.starts_word(folded.text.index("sb"))
    assert folded.starts_word(folded.text.index("x"))


def test_a_passage_is_cut_where_the_word_is_behind_letters_that_fold_to_more() -> None:
    text = "ß…ﬁ e\u0301 " * 400 + "\nthe Maßstab is 3\n" + "ß" * 400

    (hit,) = search_entries(talk(user(text)), parse_query("Maßstab")).hits

    assert [one.text.count("the Maßstab is 3") for one in hit.snippets] == [1]
    assert all(text[one.offset :].startswith(one.text) for one in hit.snippets)
    assert find(talk(user(text)), "aßstab") == find(talk(user("ßtrich ﬁx")), "strich ix") == []


@pytest.mark.parametrize("query", ["2.3.1", "2.3.1-rc4", "v2.3.1", "V2.3"])
def test_a_version_is_found_with_and_without_its_letter(query: str) -> None:
    entries = talk(user("v2 is out"), user("Release v2.3.1-rc4 broke"), user("dev2.3.1 12.3.1"))

    assert find(entries, query)[0] == 2


def test_a_name_behind_an_escape_is_found() -> None:
    entries = talk(user(r'{"x": "\tentireSessionID\nnewer"}'), user(r"C:\temp\notes"))

    assert find(entries, "entireSessionID") == find(entries, "newer") == [1]
    assert find(entries, "notes") == find(entries, "temp") == [2]


def test_what_the_user_said_in_a_result_is_found_with_their_role() -> None:
    run = call("Bash", '{"command":"tox"}')
    refused = result_of(run, "Permission denied: the user said no: use nox.", failed=True)
    entries = entries_of(
        [
            MessageAdded(message=user("go")),
            Noted(topic="t", text="nox"),
            MessageAdded(message=refused),
            SETUP,
        ]
    )

    assert find(entries, "nox role:user") == [3]
    assert find(entries, "role:user") == [3, 1]
    assert find(entries, "role:tool nox") == [3]
    assert read_user_words(2, reader(entries).get) == read_user_words(9, reader(entries).get) == []


def test_a_file_is_found_by_a_pattern_or_a_part_of_its_name() -> None:
    entries = talk(assistant(READ), result_of(READ, "short"))

    assert find(entries, "file:*.txt") == find(entries, "file:OTE") == find(entries, "short") == [2]
    assert find(entries, "file:*.py") == find(entries, "file:short") == []


def test_a_session_can_be_removed_from_an_index() -> None:
    index = WordIndex()
    for number in (1, 2):
        index.add(number, make_documents(JOURNAL))
    index.remove(1)

    assert {session for session, _ in index.find_all(["marigold*"])} == {2}
    assert index.find_all(["mari*", "gard*"]) == {(2, 4)}
    index.remove(2)
    assert index.find_all(["marigold*"]) == index.find_all(()) == set()


# Text


def test_the_text_of_an_entry_is_all_that_was_said_called_and_returned() -> None:
    texts = ["", *map(entry_text, JOURNAL)]

    assert texts[3] == 'a flower\nNoted.\nRead {"path":"notes.txt"}'
    assert texts[4] == "the whole marigold garden"
    assert (texts[7], texts[9]) == ("", "")


@each_row(
    ("made", "expected"),
    [
        (call("Bash", '{"command":"ls -l","x":1}'), "$ ls -l"),
        (call("Grep", '{"pattern":"x","-n":true}'), "Grep\npattern: x\n-n: true"),
        (call("Odd", "not json"), "Odd\nnot json"),
        (call("Deploy", '{"command":"make up"}'), "$ make up"),
        (call("Deploy", '{"script":"make up"}'), "Deploy\nscript: make up"),
        (
            call("str_replace_editor", '{"command":"view","path":"a.py"}'),
            "str_replace_editor a.py\ncommand: view",
        ),
        (call("Odd", "[1]"), "Odd\n[1]"),
        (call("Nothing", ""), "Nothing"),
        (
            call("edit", '{"path":"a.py","oldText":"x\\ny\\nz","newText":"x\\nY\\nz"}'),
            "edit a.py\n  x\n- y\n+ Y\n  z",
        ),
        (
            call("MultiEdit", '{"file_path":"a","edits":[{"old_string":"1","new_string":"2"}]}'),
            "MultiEdit a\n- 1\n+ 2",
        ),
        (call("MultiEdit", '{"file_path":"a","edits":[{},"?"]}'), 'MultiEdit a\nedits: [{},"?"]'),
        (
            call("edit", '{"filePath":"a.ts","oldString":"1","newString":"2"}'),
            "edit a.ts\n- 1\n+ 2",
        ),
        (
            call("apply_patch", '{"input":"*** Update File: b.py\\n+x"}'),
            "apply_patch b.py\ninput: *** Update File: b.py\n+x",
        ),
    ],
)
def test_a_call_is_shown_as_command_diff_or_arguments(made: ToolCall, expected: str) -> None:
    assert format_call(made) == expected


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_a_diff_has_the_lines_that_differ(old: list[str], new: list[str]) -> None:
    lines = format_diff("\n".join(old), "\n".join(new)).splitlines()
    removed = [line[2:] for line in lines if line.startswith("- ")]
    added = [line[2:] for line in lines if line.startswith("+ ")]

    assert len(new) - len(old) == len(added) - len(removed)
    assert (old == new) == (not removed and not added)


@pytest.mark.parametrize(
    ("output", "failed", "status"),
    [
        ("done", False, "exit 0"),
        ("boom\n[exit code 3]", True, "exit 3"),
        ("Exit code 2\nboom", True, "exit 2"),
        ('{"output":"x","metadata":{"exit_code":1}}', True, "exit 1"),
        ("refused", True, "failed"),
    ],
)
def test_commands_carry_their_exit_status(output: str, *, failed: bool, status: str) -> None:
    run = call("Bash", '{"command":"x"}')
    entries = talk(assistant(run), result_of(run, output, failed=failed))

    (unit,) = read_units(2, reader(entries).get)

    assert unit.status == status


def test_boilerplate_is_left_out() -> None:
    text = "hi <system-reminder>\nzebra\n</system-reminder>there <command-name>/x</command-name>"

    assert strip_boilerplate(text) == "hi there /x"
    assert make_mark("file", "/a/B.py") == make_mark("file", "b.py") != make_mark("tool", "b.py")


def test_summaries_and_notes_are_units_and_other_entries_are_none() -> None:
    report = LossReport(
        kept=(),
        summarised=(),
        cleared=(),
        archived=(),
        tokens_before=2,
        tokens_after=1,
        author="rules",
        why="",
    )
    bodies = [
        Compacted(trigger="auto", strategy="s", summary=text, dropped=(), report=report)
        for text in ("the gist of it", "")
    ]
    entries = entries_of([*bodies, Noted(topic="t", text="gist noted"), Cleared()])
    read = reader(entries).get

    assert [[unit.role for unit in read_units(n, read)] for n in range(1, 6)] == [
        ["summary"],
        [],
        ["note"],
        [],
        [],
    ]
    assert find(entries, "gist") == [1, 3]
    assert entry_text(entries[0]) == "the gist of it"
    assert [one.repeat_words()[:8] for one in make_documents(entries)] == ["the gist", "gist not"]


# Queries


def test_a_question_is_reduced_to_its_telling_words() -> None:
    assert [term.text for term in parse_query("What was the port of fooBar?").terms] == [
        "port",
        "foobar",
    ]
    assert [term.text for term in parse_query("what was it").terms] == ["what", "was", "it"]


def test_filters_are_read_from_the_text_or_given() -> None:
    query = parse_query('role:user TOOL:Bash "two words" since:1h before:1970-01-02 x', now=9_999.0)

    assert (query.role, query.tool, query.since, query.until) == ("user", "Bash", 6_399.0, 86_400.0)
    assert query.phrases == ("two words",)
    assert parse_query("role:user", role="tool", file="").role == "tool"
    assert parse_query("file:b.py") == RecallQuery(file="b.py")
    assert parse_query("latest:a/b.py") == RecallQuery(file="a/b.py", latest=True)
    assert parse_query("").is_empty
    with pytest.raises(SessionError, match="there is no role 'boss'"):
        parse_query("role:boss")
    with pytest.raises(SessionError, match="is not a time"):
        parse_query("since:noon")
    assert parse_time("1970-01-01T01:00:00+01:00", now=0.0) == 0.0


@each_row(
    ("word", "expected"),
    [
        *(("caching", "cach"), ("caches", "cach"), ("cache", "cach"), ("cached", "cach")),
        *(("entries", "entr"), ("entry", "entr"), ("running", "run"), ("class", "class")),
        *(("string", "string"), ("status", "statu")),
    ],
)
def test_forms_of_a_word_share_a_stem(word: str, expected: str) -> None:
    assert stem(word) == expected
    assert word.startswith(stem(word))


# Snippets


def test_snippets_show_the_words_together_with_their_offset() -> None:
    text = "common " * 200 + "\nrare and common near\n" + "common " * 400 + "rare"
    query = parse_query("rare common")
    found = Matcher(query).find(text)

    snippets = cut_snippets(text, found, [5.0, 0.1], size=200)

    assert len(snippets) == 2
    assert "rare and common near" in snippets[0].text
    assert all(text[one.offset :].startswith(one.text) for one in snippets)
    assert cut_snippets("", (), [], size=10) == ()
    assert cut_snippets(text, (), [], size=10)[0].text == text[:10]


def test_a_passage_ends_with_the_end_of_its_line_or_of_the_text() -> None:
    text = "alpha " + "x" * 100 + " the answer is 42\n" + "y" * 400
    found = Matcher(parse_query("alpha")).find(text)

    assert cut_snippets(text, found, [1.0], size=60)[0].text.endswith("42")
    assert cut_snippets(text[:-400], found, [1.0], size=60)[0].text.endswith("42")


def test_passages_that_overlap_are_joined() -> None:
    text = "x" * 500 + " alpha " + "y" * 120 + " beta " + "z" * 500
    found = Matcher(parse_query("alpha beta")).find(text)

    (joined,) = cut_snippets(text, found, [1.0, 1.0], size=150)

    assert "alpha" in joined.text
    assert "beta" in joined.text


def test_words_are_found_without_accents_inside_names_and_in_any_form() -> None:
    query = parse_query("cafe user fail 計算")
    texts = ["Le Café İs", "ẞ ŉ İİ café", "getUserName", "HTTPUser", "failing", "大計算機"]

    assert [len(Matcher(query).find(text)) for text in texts] == [1, 1, 1, 1, 1, 1]
    assert Matcher(query).find("decafe superuser") == []
    assert Matcher(parse_query("")).find("x") == []
    assert len(Matcher(parse_query("x")).find("x " * 600)) == 200


def test_an_excerpt_shows_the_words_of_the_query() -> None:
    text = "common " * 50 + "rare " + "common " * 50

    excerpt = excerpt_around(text, parse_query("rare"), chars=60)

    assert excerpt.startswith("…")
    assert excerpt.endswith("…")
    assert "rare" in excerpt
    assert excerpt_around("short text", parse_query("absent")) == "short text"
    assert excerpt_around("", parse_query("absent")) == ""


# Answers


@each_row(
    ("text", "expected"),
    [
        ("#12", [(12, 12)]),
        ("382-390", [(382, 390)]),
        ("382 - 390", [(382, 390)]),
        ("12~2", [(10, 14)]),
        ("#2 ~ 3", [(1, 5)]),
        ("1..2", [(1, 2)]),
        ("#27 #65", [(27, 27), (65, 65)]),
        ("27, 60-65", [(27, 27), (60, 65)]),
        ("27 65", None),
        ("#27 failed", None),
        ("x", None),
        ("", None),
    ],
)
def test_entries_are_named_by_numbers_or_ranges(
    text: str, expected: list[tuple[int, int]] | None
) -> None:
    found = parse_references(text)

    assert (found and [(one.first, one.last) for one in found]) == expected
    for wrong in ("9-2", "1-200", "1-60, 100-160"):
        with pytest.raises(SessionError, match="is not a range"):
            parse_references(wrong)


def test_a_range_shows_each_call_once_and_pages_through_long_text() -> None:
    read = reader(JOURNAL).get

    text = format_entries([EntryRange(first=1, last=8)], read, page=10_000)

    assert text.count("marigold garden") == 1
    assert [line[:2] for line in text.splitlines() if line.startswith("#")] == [
        *("#2", "#3", "#4", "#8"),
    ]
    assert "called in #3" in text
    short = format_entries([EntryRange(first=2, last=8)], read, offset=4, page=8)
    assert short.splitlines()[1:3] == ["code wor", "[16 more characters of #2: offset=12]"]
    assert short.endswith("[the rest starts at #3]")
    both = format_entries(
        [EntryRange(first=8, last=8), EntryRange(first=2, last=2)], read, page=900
    )
    assert [line[:2] for line in both.splitlines() if line.startswith("#")] == ["#8", "#2"]
    with pytest.raises(SessionError, match="no text under #5-7"):
        format_entries([EntryRange(first=5, last=7)], read, page=10)
    with pytest.raises(SessionError, match="no text under #5"):
        format_entries([EntryRange(first=5, last=5)], read, page=10)
    with pytest.raises(SessionError, match="past the end"):
        format_entries([EntryRange(first=2, last=2)], read, offset=99, page=10)


def test_in_a_range_a_long_entry_leaves_room_for_the_others() -> None:
    read = reader(talk(user("a" * 9_000), user("b" * 500), user("c" * 9_000))).get

    text = format_entries([EntryRange(first=1, last=4)], read, page=5_000)

    assert [text.count(letter * 400) for letter in "abc"] == [5, 1, 5]
    assert "[6,750 more characters of #1: offset=2250]" in text
    assert "[6,750 more characters of #3: offset=2250]" in text


def test_an_answer_leads_from_the_best_hit_to_what_is_around_it() -> None:
    run = call("Bash", '{"command":"make all"}')
    failed = result_of(run, "zeppelin error\n" + "line\n" * 400, failed=True)
    entries = talk(
        user("build it"),
        assistant("I will.", run),
        failed,
        assistant("The zeppelin is broken."),
        *[user(f"zeppelin {chr(97 + number) * 9} {'word ' * number}") for number in range(6)],
    )
    found = search_entries(entries, parse_query("zeppelin error unheard"), limit=7)

    text = format_found(found, hints=HINTS, read=reader(entries).get)
    tight = format_found(found, hints=HINTS, read=reader(entries).get, room=300)
    wide = format_found(found, hints=HINTS)

    assert text.startswith("No entry contains: unheard\n\n#3 Bash $ make all → failed (2,")
    assert "\n@0 …$ make all\nzeppelin error" in text
    assert "(Request before it, #1: build it)" in text
    assert "(Said after it, #4: The zeppelin is broken.)" in text
    assert "read 3 from 0; 1-5]" in text
    assert "more hits; add words" in tight
    assert len(tight) < 600
    assert "Request before" not in wide


def test_an_answer_names_near_identical_entries_and_the_session() -> None:
    unit = Unit(entry_id=JOURNAL[1].id, at=86_400.0, role="user", text="x")
    same = tuple(entry.id for entry in JOURNAL)
    hit = Hit(session=1, unit=unit, score=1.0, same=same)

    text = format_found(Found(hits=(hit,), total=1), hints=HINTS)

    assert "#2 user (1970-01-02 00:00, 1 characters)" in text
    assert "(nearly the same text: #1, #2, #3, #4, #5 and 4 more)" in text


def test_an_answer_about_a_request_does_not_look_for_the_request_before() -> None:
    entries = talk(user("first"), user("zeppelin"))
    found = search_entries(entries, parse_query("zeppelin"))

    assert "Request before" not in format_found(found, hints=HINTS, read=reader(entries).get)


def test_nothing_was_said_around_a_lonely_hit() -> None:
    entries = talk(assistant("zeppelin"), user("next"), assistant("later"))
    found = search_entries(entries, parse_query("zeppelin"))

    assert "Said after" not in format_found(found, hints=HINTS, read=reader(entries).get)


# Files


def units_of(*calls: tuple[ToolCall, str]) -> list[Unit]:
    messages = [m for made, output in calls for m in (assistant(made), result_of(made, output))]
    read = reader(talk(*messages)).get
    numbers = range(2, len(messages) + 1, 2)
    return [unit for number in reversed(numbers) for unit in read_units(number, read)]


WRITE = call("Write", '{"file_path":"src/a.py","content":"x = 1\\ny = 2\\n"}', "1")
EDIT = call("Edit", '{"file_path":"src/a.py","old_string":"y = 2","new_string":"y = 3"}', "2")
LOST = call("Edit", '{"file_path":"src/a.py","old_string":"q","new_string":"r"}', "3")
PART = call("Read", '{"file_path":"src/a.py","offset":5}', "4")
WHOLE = call("Read", '{"file_path":"src/a.py"}', "5")


def test_the_latest_version_of_a_file_has_its_later_edits() -> None:
    version = find_latest_version(
        units_of((WRITE, "ok"), (EDIT, "ok"), (LOST, "ok"), (PART, "part")), "a.py"
    )

    assert version is not None
    assert (version.text, version.source, version.applied) == ("x = 1\ny = 3\n", 2, (4,))
    text = format_version(version)
    assert text.startswith("src/a.py as of #2, with the edits of #4:\nx = 1\ny = 3\n")
    assert text.endswith("#6 Edit:\nEdit src/a.py\n- q\n+ r")


def test_a_file_that_was_read_comes_without_line_numbers() -> None:
    numbered = find_latest_version(units_of((WHOLE, "     1→x = 1\n     2→y = 2")), "src/a.py")
    plain = find_latest_version(units_of((WHOLE, "x = 1")), "/src/a.py")

    assert numbered is not None
    assert numbered.text == "x = 1\ny = 2"
    assert plain is not None
    assert format_version(plain) == "src/a.py as of #2:\nx = 1"


def test_a_file_that_was_never_read_as_a_whole_is_shown_in_parts() -> None:
    version = find_latest_version(units_of((PART, "tail"), (EDIT, "ok")), "a.py")

    assert version is not None
    assert format_version(version) == (
        "src/a.py was never read or written as a whole; what is known of it:\n"
        "#2 Read:\nRead src/a.py\noffset: 5\ntail\n#4 Edit:\nEdit src/a.py\n- y = 2\n+ y = 3\nok"
    )


EDIT_A = '{"file_path":"a.py","old_string":"v = 0","new_string":"v = +"}'


def test_the_latest_version_has_every_edit_also_those_that_look_alike() -> None:
    edits = [
        call(
            "Edit",
            f'{{"file_path":"a.py","old_string":"v = {n}","new_string":"v = {n + 1}"}}',
            f"{n}",
        )
        for n in range(60)
    ]
    write = call("Write", '{"file_path":"a.py","content":"v = 0"}', "w")
    messages = [m for made in (write, *edits) for m in (assistant(made), result_of(made, "ok"))]
    found = search_entries(talk(*messages), RecallQuery(file="a.py", latest=True), limit=200)

    version = find_latest_version([hit.unit for hit in found.hits], "a.py")

    assert version is not None
    assert version.text == "v = 60"


def test_failed_calls_and_other_files_do_not_count() -> None:
    made = assistant(WRITE)
    failed = result_of(WRITE, "no", failed=True)
    units = read_units(2, reader(talk(made, failed)).get)

    assert find_latest_version(units, "a.py") is None
    assert find_latest_version(units_of((WRITE, "ok")), "b.py") is None


@pytest.mark.req("BGT-5")
def test_the_end_of_a_background_task_is_found_with_its_result() -> None:
    task = TaskState(task_id="task-1", kind=TaskKind.PROCESS, label="make test")
    ended = replace(task, status=TaskStatus.FAILED, error="exit code 2", result="the lathe broke")
    entries = entries_of(
        [
            SETUP,
            TaskChanged(state=task),
            TaskChanged(state=ended),
            TaskChanged(state=ended, closed=True),
            TaskChanged(state=ended, reported=True),
        ]
    )

    texts = [entry_text(entry) for entry in entries]
    (document,) = make_documents(entries)
    units = [
        unit for number in (2, 3, 4, 5) for unit in read_units(number, lambda n: entries[n - 1])
    ]

    wanted = "background task task-1 (make test): failed\nexit code 2\nthe lathe broke"
    assert texts == ["", "", wanted, "", ""]
    assert (document.entry_id, "lathe" in document.words) == (3, True)
    assert [(unit.entry_id, unit.role, unit.text) for unit in units] == [(3, "note", wanted)]
