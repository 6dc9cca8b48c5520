"""Findings: the sentences of a conversation that a new reader needs."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.digest.prose.agent_prose import read_prose
from clew.context.digest.prose.findings import (
    choose_findings,
    drop_told,
    fit_statements,
    list_statements,
    rank_statements,
    render_findings,
)
from clew.context.digest.prose.sentence_cues import Topic, classify_sentence
from clew.context.digest.rule_summary import prepare_digest
from clew.context.items import Item, ItemKind
from clew.context.view import fold
from clew.core.entries import Entry
from clew.core.ids import CallId
from clew.core.messages import Reasoning, ToolCall, assistant, tool_result, user
from clew.core.text import shorten_links
from clew.importers.journal import build_journal
from clew.importers.reader import read_session
from tests.context.conversations import items, run, use
from tests.histories import histories
from tests.rows import each_row

READ = ToolCall(call_id=CallId("r"), name="Read")
SESSIONS = Path(__file__).parents[3] / "shared" / "data" / "sessions"


def show(work: list[Item], size: int = 5_000) -> str:
    return render_findings(choose_findings(work, max_chars=size))


@each_row(
    ("sentence", "topic"),
    [
        ("I chose `sqlite` over a file because writers must not block readers.", Topic.DECISION),
        ("The migration still fails on empty tables, so I reverted it.", Topic.FAILURE),
        ("The root cause is that `close()` runs twice.", Topic.DISCOVERY),
        ("The same bug is in `reader.py` and `writer.py`.", Topic.DISCOVERY),
        ("All 12 tests pass and the fix is committed as 1a2b3c4.", Topic.OUTCOME),
        ("Next steps: update the docs for `load()`.", Topic.OPEN),
        ("Which of the two formats do you need?", Topic.OPEN),
        ("Wir nehmen `sqlite`, weil Leser nicht warten sollen.", Topic.DECISION),
        ("Le test `load` échoue encore avec deux fichiers.", Topic.FAILURE),
        ("Encontrada la fuga de memoria en reader.py.", Topic.DISCOVERY),
        ("Der Fehler in reader.py ist behoben.", Topic.OUTCOME),
        ("我们选择 `sqlite`,因为读者不应等待。", Topic.DECISION),
        ("テスト `load` は失敗しました。", Topic.FAILURE),
        ("아직 reader.py 문서가 없습니다.", Topic.OPEN),
        ("要用哪种格式\uff1f", Topic.OPEN),
    ],
)
def test_a_sentence_is_classified_by_its_cues(sentence: str, topic: Topic) -> None:
    classified = classify_sentence(sentence)

    assert classified is not None
    assert classified[0] is topic


@pytest.mark.parametrize(
    "sentence",
    [
        "Let me look at the failing test because it broke.",
        "Now I'll fix the root cause in `a.py`.",
        "I’m just pulling exact references from `a.py` so that the findings are precise.",
        "I am now reviewing the commit because it broke `a.py`.",
        "The sky over the harbour has a nice colour today.",
        "The user wants me to fix the failing tests in `a.py`.",
        "sessions, err := store.List(failed)",
        "if the cache is missing, err != nil is returned (",
    ],
)
def test_narration_and_code_are_no_findings(sentence: str) -> None:
    assert classify_sentence(sentence) is None


def test_an_introduction_without_a_cue_leaves_the_topic_to_the_sentence() -> None:
    classified = classify_sentence("The root cause is in `a.py`.", lead="About the harbour")

    assert classified is not None
    assert classified[0] is Topic.DISCOVERY


def test_an_earlier_summary_is_no_prose_of_the_agent() -> None:
    said = items(assistant("The root cause was found in `gate.py`."))
    summary = [replace(item, kind=ItemKind.SUMMARY) for item in said]

    assert choose_findings(said, max_chars=1_000)
    assert not choose_findings(summary, max_chars=1_000)


def test_short_sentences_of_dense_scripts_are_read() -> None:
    said = "缓存失败的原因是 `reader.py` 里的锁。文档还没有写,因此下一步是更新说明。好。"

    text = show(items(user("go"), assistant(said)))

    assert "缓存失败的原因是 `reader.py` 里的锁。" in text
    assert "下一步是更新说明。" in text
    assert "好。" not in text


def test_words_in_code_are_no_cues() -> None:
    named = classify_sentence("The list `failed_because` has four members in it.")
    cued = classify_sentence("The list `members` is short because it failed to load.")

    assert named is not None
    assert cued is not None
    assert named[0] is Topic.DISCOVERY
    assert named[1] < cued[1]


def test_causes_in_the_thinking_are_quoted_but_not_its_questions() -> None:
    thinking = Reasoning(
        text="The root cause is that `list_states` looks for the old name. "
        "Why does `b.py` not do the same?"
    )
    hidden = Reasoning(redacted="opaque")
    work = items(user("Fix it."), assistant(thinking, hidden, "Done."))

    text = show(work)

    assert "The root cause is that `list_states` looks for the old name." in text
    assert "Why does" not in text


def test_names_and_numbers_make_a_sentence_worth_more_and_intentions_less() -> None:
    def score(sentence: str) -> float:
        classified = classify_sentence(sentence)
        assert classified is not None
        return classified[1]

    plain = score("It failed because of the cache.")
    assert score("It failed because of the cache in `store.py` line 12.") > plain
    assert score("It failed because of the cache, so I'll clear it.") < plain
    assert score("It failed because of the cache." + " And so on." * 60) < plain
    assert score("It probably failed because of the cache.") < plain


def test_findings_are_grouped_quoted_and_carry_their_entry() -> None:
    work = items(
        user("why is it slow?"),
        assistant(
            "## Root cause\n\nThe root cause is `scan()` in store.py, which reads 40 files. "
            "This happens because the index is missing.\n\n"
            "Remaining callers of `scan()`:\n- `load()` in reader.py:12 calls it\n"
            "- `sync()` in writer.py:30 calls it\n- short\n\n"
            "| file | change made |\n|---|---|\n| store.py | added the missing index `by_name` |\n"
            "```\nthe root cause is not quoted from code\n```\n"
            "Next steps: measure [store.py](/home/me/app/store.py:40) again.\n"
        ),
    )

    assert show(work) == (
        "What was found:\n"
        "- #3 The root cause is `scan()` in store.py, which reads 40 files. "
        "This happens because the index is missing.\n"
        "- #3 Remaining callers of `scan()`:\n"
        "  - `load()` in reader.py:12 calls it\n"
        "  - `sync()` in writer.py:30 calls it\n"
        "- #3 store.py | added the missing index `by_name`\n"
        "Open items and next steps:\n"
        "- #3 Next steps: measure store.py:40 again."
    )


def test_of_similar_sentences_the_newest_is_kept() -> None:
    work = items(
        user("go"),
        assistant("The fix for `parse()` in reader.py is complete and committed."),
        user("check again"),
        assistant("The fix for `parse()` in reader.py is complete, committed and pushed."),
    )

    assert show(work) == (
        "Outcomes:\n- #5 The fix for `parse()` in reader.py is complete, committed and pushed."
    )


def test_questions_that_the_user_has_replied_to_are_dropped() -> None:
    question = "Should I also change the format of `store.py` to JSON?"
    old = items(user("a"), assistant(question), user("yes"), user("more"), assistant("ok"))

    assert question in show(items(user("a"), assistant(question)))
    assert show(old) == ""


def test_old_open_items_are_settled_unless_they_were_put_off() -> None:
    work = items(
        user("a"),
        assistant("Still missing: the docs of `load()`.\n\nStill open as a follow-up: `save()`."),
        *(user(f"request {n}") for n in range(3)),
        assistant("Still missing: the tests of `sync()`."),
    )

    assert show(work) == (
        "Open items and next steps:\n- #3 Still open as a follow-up: `save()`.\n"
        "- #7 Still missing: the tests of `sync()`."
    )


def test_reports_of_subagents_are_read() -> None:
    report = "The root cause is the lock in `pool.py`, which is never released."
    done = json.dumps({"agent_path": "x", "status": {"completed": report}})
    busy = json.dumps({"agent_path": "x", "status": "running"})
    wrapped = "<subagent_notification>\n{}\n</subagent_notification>"
    notified = (
        f"<task-notification><task-id>b</task-id><result>{report}</result></task-notification>"
    )

    assert report in show(items(use("Task", {"prompt": "look"}, report)))
    assert report in show(items(user(wrapped.format(done))))
    assert report in show(items(user(notified)))
    polled = f"<task_id>b</task_id>\n<task_type>local_agent</task_type>\n<output>\n{report}"
    assert report in show(items(use("TaskOutput", {"task_id": "b"}, polled)))
    plan = f"User has approved your plan.\n\n## Approved Plan:\n{report}"
    assert report in show(items(use("ExitPlanMode", {"plan": report}, plan)))
    assert show(items(use("Task", {"prompt": "look"}, report, failed=True))) == ""
    assert show(items(use("Read", {"file_path": "a"}, report))) == ""
    for other in (busy, "{not json}", json.dumps({"status": {}})):
        assert show(items(user(wrapped.format(other)))) == ""


def test_old_narration_is_skipped_and_old_answers_are_shortened() -> None:
    early = "The root cause is `first()` in early.py."
    filler = "Plain words about nothing in particular. " * 250
    work = items(
        user("go"),
        assistant(f"{early} It is called from late.py.", READ),
        tool_result(READ, "y"),
        assistant(f"{early}\n\n{filler}"),
        *(assistant(filler) for _ in range(25)),
    )

    assert show(work) == f"What was found:\n- #5 {early}"


def test_introductions_that_only_announce_are_not_repeated() -> None:
    work = items(
        user("go"),
        assistant(
            "Let me list what failed in the build:\n"
            "- the linker failed on `libfoo.so` with code 1\n\n"
            f"{'A very long introduction ' * 9}:\n"
            "- the parser failed on `input.txt` with code 2\n"
        ),
    )

    assert show(work) == (
        "What failed or was rejected:\n- #3 the linker failed on `libfoo.so` with code 1\n"
        "- #3 the parser failed on `input.txt` with code 2"
    )


def test_each_topic_has_a_share_and_the_rest_goes_to_the_best() -> None:
    reasons = " ".join(f"We use `part{n}` because `reason{n}` needs it." for n in range(40))
    work = items(user("go"), assistant(f"{reasons}\n\nThe root cause is `lock()` in pool.py."))

    ranked = rank_statements(map(read_prose, work))
    groups = fit_statements(ranked, max_chars=700)

    assert set(groups) == {Topic.DECISION, Topic.DISCOVERY}
    assert len(render_findings(groups)) > 500
    assert fit_statements(ranked, max_chars=10) == {}


def test_what_a_conclusion_quotes_is_not_listed_again() -> None:
    work = items(user("go"), assistant("The root cause is `lock()` in pool.py."))
    ranked = rank_statements(map(read_prose, work))

    assert fit_statements(ranked, max_chars=700)
    assert not fit_statements(ranked, max_chars=700, told=f"→ #3: {ranked[0].text} Done.")


def test_what_the_notes_of_a_model_tell_is_not_listed_again() -> None:
    told = "The root cause of the crash is the cache in reader.py."
    new = "The root cause of the leak is the pool in writer.py."
    work = items(user("go"), assistant(f"{told} {new}"), run("make", "ok"), assistant("OK."))
    notes = "Found so far: the root cause of the crash is that cache in reader.py, as we thought."

    ranked = rank_statements(map(read_prose, work))
    assert {said.text for said in ranked} == {told, new}
    assert [said.text for said in drop_told(ranked, notes)] == [new]
    quoted = prepare_digest(work, beside=(notes, "")).write(1_000).partition("What was found")[2]
    assert new in quoted
    assert told not in quoted.partition("Excerpts")[0]


def test_a_single_item_of_a_list_follows_its_introduction() -> None:
    said = "Remaining callers:\n- `load()` in reader.py still uses the old name"

    assert "- #3 Remaining callers: `load()` in reader.py" in show(
        items(user("go"), assistant(said))
    )


def test_logged_calls_and_json_are_no_findings() -> None:
    logged = '[Tool: Read] {"file_path": "/src/reader.py", "reason": "it was fixed and committed"}'
    data = '{"fixed": "the bug in reader.py", "done": true}'
    report = f"{logged}\n{data}\nThe root cause of the bug is in reader.py."

    assert show(items(user("go"), assistant(report))).splitlines()[1:] == [
        "- #3 The root cause of the bug is in reader.py."
    ]


def test_links_to_files_are_shortened() -> None:
    assert shorten_links("see [a.py](/x/a.py:3) and [b](https://b.c)") == (
        "see a.py:3 and [b](https://b.c)"
    )


@given(histories(max_turns=4), st.integers(0, 1_500))
def test_findings_never_exceed_their_size_and_are_deterministic(
    history: list[Entry], size: int
) -> None:
    view = fold(history)

    text = render_findings(choose_findings(view.items, max_chars=size))

    assert len(text) <= size
    assert text == render_findings(choose_findings(list(view.items), max_chars=size))


_CLAUSES = [
    "because of `a.py`", "the root cause is", "tests pass", "still fails", "next steps:",
    "- item `x`", "## Found", "Let me see.", "|a|b|", "\n\n", "\n", ". ", "? ", "該当。",
    "**bold**:",
]  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(_CLAUSES), max_size=30), max_size=4), st.integers(0, 900))
def test_any_prose_is_quoted_within_its_size(texts: list[list[str]], size: int) -> None:
    work = items(user("go"), *(assistant(" ".join(text) or "x") for text in texts))

    assert len(render_findings(choose_findings(work, max_chars=size))) <= size
    assert all(said.order == n for n, said in enumerate(list_statements(map(read_prose, work))))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("claude_code/03a1382e-ecd5-42c4-b3d4-5c659e165904.jsonl.gz", "root cause"),
        ("codex/019d7e36-577c-7d90-9f1c-a447ba2254b4.jsonl.gz", "Findings"),
    ],
)
def test_findings_of_recorded_sessions_have_the_usual_topics(path: str, expected: str) -> None:
    if not (SESSIONS / path).exists():
        pytest.skip("the recordings are absent")
    view = fold(build_journal(read_session(SESSIONS / path)))

    groups = choose_findings([*view.archived, *view.items], max_chars=6_000)

    assert {Topic.DECISION, Topic.FAILURE, Topic.DISCOVERY, Topic.OUTCOME} <= set(groups)
    assert expected.lower() in render_findings(groups).lower()
