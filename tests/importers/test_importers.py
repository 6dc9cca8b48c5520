"""Recordings of other tools become valid conversations, and journals with the same view."""

import base64
import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from clew.context.render import render
from clew.context.view import fold
from clew.core.context_state import LossReport
from clew.core.entries import Cleared, Compacted, Entry, MessageAdded, SetupChanged, Undone
from clew.core.errors import ConfigError, StoreUnavailable
from clew.core.ids import EntryId, SessionId
from clew.core.messages import Image, Native, Reasoning, Role, Text, assistant, user
from clew.core.usage import Usage
from clew.importers import claude_code, clew_jsonl, codex, gemini_cli, pi
from clew.importers.journal import build_journal, import_session
from clew.importers.reader import read_session
from clew.importers.recorded_session import RecordedSession
from clew.importers.repair import NO_BEGINNING, NO_RESULT
from clew.session.journal import Journal
from clew.stores.memory import MemoryStore
from clew.stores.protocol import Store
from clew.stores.sqlite import SqliteStore
from tests.histories import SETUP, entries_of, histories, problems

pytestmark = [pytest.mark.anyio, pytest.mark.req("STO-5")]

Json = dict[str, Any]
RECORDINGS = Path(__file__).parents[3] / "shared" / "data" / "sessions"
PIXEL = base64.b64encode(b"a picture").decode()
AT = "2026-01-02T03:04:05.000Z"


def lines(*rows: Json) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


def shape(session: RecordedSession) -> list[str]:
    """One word a message: who, and what."""
    marks = {Role.USER: "user", Role.ASSISTANT: "model", Role.TOOL: "tool"}
    return [
        f"{marks[message.role]}: "
        + (
            ",".join(result.text for result in message.results)
            or ",".join([message.text, *(call.call_id for call in message.calls)]).strip(",")
        )
        for message in session.messages
    ]


def said(session: RecordedSession, words: str) -> bool:
    return any(words in problem for problem in session.problems)


# --- Claude Code -------------------------------------------------------------------------


def cc(kind: str, name: str, parent: str | None, content: object = None, **more: object) -> Json:
    message: Json = {"role": kind, "content": content}
    for key in ("id", "usage", "model", "stop_reason"):
        if key in more:
            message[key] = more.pop(key)
    row: Json = {"type": kind, "uuid": name, "parentUuid": parent, "sessionId": "s1"}
    row |= {"cwd": "/work", "timestamp": AT, **more}
    return row | ({"message": message} if content is not None else {})


def use(call_id: str) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "Read", "input": {"path": call_id}}


def answer_to(call_id: str, content: object = "done", **more: object) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def test_the_lines_of_one_answer_become_one_message_with_its_last_usage() -> None:
    early = {"input_tokens": 3, "output_tokens": 1}
    late = {
        "input_tokens": 3,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 7,
        "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 5},
        "output_tokens": 40,
    }
    session = claude_code.parse(
        lines(
            cc("user", "u", None, "hello"),
            cc("assistant", "a", "u", [text("Let me see.")], id="m", model="claude-x", usage=early),
            cc("assistant", "b", "a", [use("c1")], id="m", usage=late, stop_reason="tool_use"),
            cc("user", "r", "b", [answer_to("c1")]),
        )
    )

    assert shape(session) == ["user: hello", "model: Let me see.,c1", "tool: done"]
    assert session.steps[1].usage == Usage(
        input_tokens=20,
        output_tokens=40,
        cache_read_tokens=10,
        cache_write_tokens=7,
        cache_write_1h_tokens=5,
    )
    assert session.steps[1].message.calls[0].decode_arguments() == {"path": "c1"}
    assert session.steps[2].message.results[0].name == "Read"
    assert (session.id, session.cwd, session.model) == ("s1", "/work", "claude-x")
    assert session.steps[0].at == 1767323045.0
    assert session.problems == ()


def test_text_beside_a_result_becomes_a_user_message_after_all_results() -> None:
    session = claude_code.parse(
        lines(
            cc("user", "u", None, "go"),
            cc("assistant", "a", "u", [use("c1"), use("c2")], id="m"),
            cc("user", "r1", "a", [text("and now stop"), answer_to("c2", is_error=True)]),
            cc("user", "r2", "r1", [answer_to("c1", [text("one"), text("two")])]),
        )
    )

    assert shape(session)[1:] == [
        "model: c1,c2",
        "tool: one\ntwo",
        "tool: done",
        "user: and now stop",
    ]
    assert [step.message.results[0].failed for step in session.steps[2:4]] == [False, True]


def test_reasoning_and_images_are_kept_byte_for_byte() -> None:
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/jpeg", "data": PIXEL},
    }
    broken = {"type": "image", "source": {"type": "base64", "data": "?"}}
    far = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    session = claude_code.parse(
        lines(
            cc("user", "u", None, [text("look"), picture, broken, far]),
            cc(
                "assistant",
                "a",
                "u",
                [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "b3BhcXVl"},
                    use("c1"),
                ],
                id="m",
            ),
            cc("user", "r", "a", [answer_to("c1", [text("shot"), picture, {"type": "odd"}])]),
        )
    )
    jpeg = Image(media_type="image/jpeg", data=b"a picture")

    assert session.messages[0].parts == (Text("look"), jpeg, Image(url="https://example.org/a.png"))
    assert session.messages[1].parts[:2] == (
        Reasoning(text="hm", provenance="anthropic", signature="c2ln"),
        Reasoning(provenance="anthropic", redacted="b3BhcXVl"),
    )
    assert session.messages[2].results[0].images == (jpeg,)
    assert said(session, "block image 1, block odd in a result 1")


def test_lines_without_a_message_are_counted() -> None:
    session = claude_code.parse(
        lines(
            {"type": "summary", "summary": "Old title", "leafUuid": "elsewhere"},
            {"type": "summary", "summary": "A title", "leafUuid": "a"},
            {"type": "file-history-snapshot", "snapshot": {}},
            cc("user", "u", None, "go"),
            cc("user", "x", "u", "a skill's text", isMeta=True),
            cc("user", "y", "u", "another agent", isSidechain=True),
            cc("assistant", "e", "x", [text("API Error")], id="e", isApiErrorMessage=True),
            cc("progress", "p", "e"),
            cc("system", "s", "p", subtype="microcompact_boundary"),
            cc("assistant", "a", "s", [text("hi")], id="m", model="<synthetic>"),
            {"type": "novelty", "uuid": "n", "parentUuid": "a"},
        )
    )

    assert shape(session) == ["user: go", "model: hi"]
    assert (session.name, session.model) == ("A title", "")
    assert session.problems == (
        "skipped 1 line of a sub-agent",
        "skipped 1 text that Claude Code added itself (a skill, a caveat)",
        "skipped 1 error message",
        "1 microcompaction cleared tool results; they are complete here",
        "skipped, of unknown kind: novelty 1",
        "without a message: summary 2, file-history-snapshot 1, progress 1, "
        "system microcompact_boundary 1",
    )


def test_the_file_of_a_sub_agent_is_read() -> None:
    session = claude_code.parse(lines(cc("user", "u", None, "search", isSidechain=True)))

    assert shape(session) == ["user: search"]
    assert said(session, "sub-agent")


def test_only_the_branch_of_the_last_message_counts_with_all_parallel_results() -> None:
    session = claude_code.parse(
        lines(
            cc("user", "u", None, "go"),
            cc("assistant", "old", "u", [text("abandoned")], id="m0"),
            cc("user", "old2", "old", "abandoned too"),
            cc("assistant", "a1", "u", [use("c1")], id="m1"),
            cc("user", "r1", "a1", [answer_to("c1", "first")]),
            cc("assistant", "a2", "a1", [use("c2")], id="m1"),
            cc("user", "r2", "a2", [answer_to("c2", "second")]),
            cc("assistant", "b", "r2", [text("end")], id="m2"),
        )
    )

    assert shape(session) == [
        "user: go",
        "model: c1,c2",
        "tool: first",
        "tool: second",
        "model: end",
    ]
    assert session.problems == ("skipped 2 messages on other branches",)


def test_a_missing_parent_is_replaced_by_the_previous_line() -> None:
    session = claude_code.parse(
        lines(
            cc("user", "u", "in another file", "go"),
            cc("assistant", "a", "u", [text("one")], id="m1"),
            cc("user", "v", "lost", "more"),
            cc("assistant", "b", "v", [text("two")], id="m2"),
        )
    )

    assert shape(session) == ["user: go", "model: one", "user: more", "model: two"]
    assert said(session, "starts in the middle")
    assert said(session, "1 parent is missing; file order")


def test_a_cycle_of_parents_is_harmless() -> None:
    session = claude_code.parse(lines(cc("user", "u", "v", "a"), cc("user", "v", "u", "b")))

    assert shape(session) == ["user: a", "user: b"]


@pytest.mark.parametrize("logical", ["a", "not in the file", None])
def test_a_compaction_is_a_summary_step_that_replaces_all_steps_before_it(
    logical: str | None,
) -> None:
    session = claude_code.parse(
        lines(
            cc("user", "u", None, "go"),
            cc("assistant", "a", "u", [text("one")], id="m1"),
            cc("system", "x", None, subtype="compact_boundary", logicalParentUuid=logical),
            cc("user", "s", "x", "What happened so far.", isCompactSummary=True),
            cc("user", "v", "s", "more"),
        )
    )
    view = fold(build_journal(session))

    assert shape(session)[2] == "user: What happened so far."
    assert [step.compacts and step.is_summary for step in session.steps] == [0, 0, 1, 0]
    assert view.summary == "What happened so far."
    assert [item.message.text for item in view.items[1:]] == ["more"]
    assert [item.message.text for item in view.archived] == ["go", "one"]


def test_a_compaction_without_its_summary_still_compacts() -> None:
    session = claude_code.parse(
        lines(
            cc("user", "u", None, "go"),
            cc("system", "x", None, subtype="compact_boundary", logicalParentUuid="u"),
            cc("assistant", "a", "x", [text("one")], id="m1"),
        )
    )

    assert [step.compacts for step in session.steps] == [False, True, False]
    assert said(session, "no summary in the file")
    assert problems(render(fold(build_journal(session)))) == []


def queue(operation: str, content: object = None, **more: object) -> Json:
    row: Json = {"type": "queue-operation", "operation": operation, "timestamp": AT, **more}
    return row | ({} if content is None else {"content": content})


def attachment(name: str, parent: str, prompt: object, mode: str = "prompt") -> Json:
    inner = {"type": "queued_command", "prompt": prompt, "commandMode": mode}
    return cc("attachment", name, parent, attachment=inner)


RUN = (cc("user", "u", None, "go"), cc("assistant", "a", "u", [use("c1")], id="m1"))


def test_a_prompt_that_was_delivered_during_a_run_is_said_after_the_result() -> None:
    session = claude_code.parse(
        lines(
            *RUN,
            queue("enqueue", "and add a test"),
            queue("remove", timestamp="2026-01-02T03:05:00.000Z"),
            cc("user", "r", "a", [answer_to("c1")]),
            cc("assistant", "b", "r", [text("I will.")], id="m2"),
        )
    )

    assert shape(session) == [
        "user: go", "model: c1", "tool: done", "user: and add a test", "model: I will.",
    ]  # fmt: skip
    assert session.steps[3].at == session.steps[0].at + 55


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("content", ["and add a test", None])
@pytest.mark.parametrize("prompt", ["and add a test", [text("and add a test")]])
def test_a_prompt_with_an_attachment_is_said_once(
    prompt: object, content: str | None, *, before: bool
) -> None:
    remove = queue("remove", content)
    session = claude_code.parse(
        lines(
            *RUN,
            queue("enqueue", "and add a test"),
            *([remove] if before else []),
            cc("user", "r", "a", [answer_to("c1")]),
            attachment("q", "r", prompt),
            *([] if before else [remove]),
            cc("assistant", "b", "q", [text("I will.")], id="m2"),
        )
    )

    assert shape(session)[2:] == ["tool: done", "user: and add a test", "model: I will."]


def parse_rows(*rows: Json) -> RecordedSession:
    return claude_code.parse(lines(*rows))


def list_said(session: RecordedSession) -> list[str]:
    """What the user said."""
    return [one.removeprefix("user: ") for one in shape(session) if one.startswith("user: ")]


@pytest.mark.parametrize(
    ("typed", "delivered"),
    [
        ("see [Pasted text #1 +3 lines]", "see a\nb\nc\nd"),
        ("[Pasted text #1 +2 lines] and [Pasted text #2] end", "a\nb\nc and more end"),
        ("[...Truncated text #1 +5 lines...]", "1\n2\n3\n4\n5\n6"),
        ("look [Image #1] here", "look\nhere"),
        ("[Image #1]", "[Image #1]"),
        ("x\n", "x"),
        ([{"type": "text", "text": "from a list"}], "from a list"),
    ],
)
@pytest.mark.parametrize("removed_first", [True, False])
def test_a_queued_prompt_that_is_delivered_expanded_is_said_once(
    typed: object, delivered: str, *, removed_first: bool
) -> None:
    remove, said_there = queue("remove", typed), attachment("q", "r", delivered)
    between = [remove, said_there] if removed_first else [said_there, remove]
    session = parse_rows(
        *RUN,
        queue("enqueue", "something else"),
        queue("enqueue", typed),
        cc("user", "r", "a", [answer_to("c1")]),
        *between,
        cc("assistant", "b", "q", [text("ok")], id="m2"),
    )

    assert list_said(session) == ["go", delivered]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("one\ntwo", ["go", "one\ntwo", "three"]),
        ("one\n\nsee a\nb", ["go", "one\n\nsee a\nb", "three"]),
        ("something else", ["go", "two", "something else", "three"]),
    ],
)
def test_prompts_that_start_a_run_together_are_said_once(message: str, expected: list[str]) -> None:
    second = "see [Pasted text #1 +1 lines]" if "see" in message else "two"
    session = parse_rows(
        *RUN,
        queue("enqueue", "one"),
        queue("enqueue", second),
        cc("user", "r", "a", [answer_to("c1")]),
        cc("assistant", "b", "r", [text("ok")], id="m2"),
        queue("dequeue"),
        queue("dequeue"),
        cc("user", "v", "b", message),
        cc("assistant", "c", "v", [text("ok")], id="m3"),
        queue("enqueue", "three"),
        queue("dequeue"),
    )

    assert list_said(session) == expected


def test_a_prompt_in_blocks_that_only_the_queue_has_is_said() -> None:
    picture: Json = {"type": "image", "source": {}}
    session = parse_rows(
        *RUN,
        queue("enqueue", [{"type": "text", "text": "and this"}, picture]),
        queue("enqueue", [picture]),
        queue("enqueue", ["odd"]),
        queue("remove"),
        queue("remove"),
        queue("remove"),
        cc("user", "r", "a", [answer_to("c1")]),
    )

    assert list_said(session) == ["go", "and this", "[image]"]


def test_an_attachment_without_a_queue_is_a_prompt_and_keeps_its_images() -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": PIXEL}}
    session = claude_code.parse(
        lines(
            *RUN,
            cc("user", "r", "a", [answer_to("c1")]),
            attachment("q", "r", [text("look"), picture]),
            attachment("q2", "q", [picture]),
            attachment("n", "q2", "<task-notification>done</task-notification>"),
            attachment("n2", "n", "a task is done", mode="task-notification"),
            cc("attachment", "t", "n2", attachment={"type": "todo", "prompt": 7}),
            cc("assistant", "b", "t", [text("ok")], id="m2"),
        )
    )

    assert shape(session)[3:] == ["user: look", "user: ", "model: ok"]
    assert [len(message.parts) for message in session.messages[3:]] == [2, 1, 1]
    assert said(session, "without a message: attachment queued_command 2, attachment 1")


def test_a_prompt_that_starts_the_next_run_is_said_once() -> None:
    session = claude_code.parse(
        lines(
            cc("user", "u", None, "go"),
            queue("enqueue", "go on"),
            queue("enqueue", "see [Pasted text #1]"),
            queue("enqueue", "/clear"),
            queue("enqueue", "go on"),
            cc("assistant", "a", "u", [text("Done.")], id="m1"),
            queue("dequeue"),
            cc("user", "v", "a", "go on"),
            cc("assistant", "b", "v", [text("Done again.")], id="m2"),
            queue("dequeue"),
            cc("user", "w", "b", "see a long text"),
            cc("assistant", "c", "w", [text("I see.")], id="m3"),
            queue("dequeue"),
            queue("dequeue"),
            cc("assistant", "d", "c", [text("Last.")], id="m4"),
        )
    )

    assert shape(session) == [
        "user: go", "model: Done.",
        "user: go on", "model: Done again.",
        "user: see a long text", "model: I see.",
        "user: go on", "model: Last.",
    ]  # fmt: skip


def test_prompts_that_were_taken_back_or_are_no_prompts_are_not_said() -> None:
    session = claude_code.parse(
        lines(
            *RUN,
            queue("enqueue", "wait"),
            queue("popAll", "wait"),
            queue("enqueue", "one"),
            queue("enqueue", "two"),
            queue("popAll", "one\ntwo"),
            queue("enqueue", "<task-notification>x</task-notification>"),
            queue("enqueue", "three"),
            queue("enqueue", "four"),
            queue("enqueue", "five"),
            queue("remove"),
            queue("remove", "four", reason="absorbed_mid_turn"),
            queue("remove", "three", reason="cancelled"),
            queue("remove", "never typed"),
            cc("user", "r", "a", [answer_to("c1")]),
            cc("assistant", "b", "r", [text("ok")], id="m2"),
        )
    )

    assert shape(session) == ["user: go", "model: c1", "tool: done", "user: four", "model: ok"]


def test_a_run_may_start_with_a_queued_prompt_without_saying_so() -> None:
    session = claude_code.parse(
        lines(
            *RUN,
            queue("enqueue", "<task-notification>x</task-notification>"),
            cc("user", "r", "a", [answer_to("c1")]),
            cc("assistant", "b", "r", [text("ok")], id="m2"),
            cc("user", "n", "b", "<task-notification>x</task-notification>"),
            queue("enqueue", "try again"),
            queue("remove"),
            cc("assistant", "c", "n", [text("yes")], id="m3"),
        )
    )

    assert shape(session)[-2:] == ["user: try again", "model: yes"]


def test_a_prompt_of_an_abandoned_branch_is_skipped() -> None:
    session = claude_code.parse(
        lines(
            cc("user", "u", None, "go"),
            cc("assistant", "old", "u", [use("c0")], id="m0"),
            queue("enqueue", "no, stop"),
            queue("remove"),
            cc("user", "r0", "old", [answer_to("c0")]),
            attachment("q0", "r0", "stop!"),
            cc("user", "v", "u", "go elsewhere"),
            cc("assistant", "a", "v", [text("ok")], id="m1"),
        )
    )

    assert shape(session) == ["user: go", "user: go elsewhere", "model: ok"]


# --- every format ------------------------------------------------------------------------


def test_calls_and_results_that_do_not_match_are_repaired_and_reported() -> None:
    session = claude_code.parse(
        lines(
            cc("assistant", "a", None, [use("c1"), use("c2"), use("c1")], id="m1"),
            cc("user", "r", "a", [answer_to("c1", "first"), answer_to("c1", "again")]),
            cc("user", "r2", "r", [answer_to("who?")]),
            cc("assistant", "b", "r2", [use("c2")], id="m2"),
            cc("user", "v", "b", "next"),
        )
    )

    assert shape(session) == [
        f"user: {NO_BEGINNING}",
        "model: c1,c2",
        "tool: first",
        f"tool: {NO_RESULT}",
        "user: next",
    ]
    assert session.steps[3].message.results[0].failed
    assert session.problems == (
        "1 repeated result was dropped",
        "call c1 was recorded again and dropped",
        "call c2 was recorded again and dropped",
        "1 call had no result and was given a failed one",
        "1 result without a call was dropped",
        "1 empty message was dropped",
        "the recording starts with a response; a user message was added before it",
    )


def test_torn_lines_are_reported_and_skipped() -> None:
    rows = lines(cc("user", "u", None, "go"), cc("assistant", "a", "u", [text("hi")], id="m"))
    bad = [b"garbage", b'{"type": "user", "uuid": 7}', b"\xff\xfe", b""] * 10
    session = claude_code.parse([rows[0], *bad, rows[1], rows[1][:-9]])

    assert shape(session) == ["user: go", "model: hi"]
    assert session.problems[0].startswith("line 2 is torn or not JSON and was skipped")
    assert session.problems[1].startswith("line 3 has an unexpected shape")
    assert said(session, "11 more lines could not be read")


def test_a_lone_surrogate_does_not_lose_the_line() -> None:
    row = json.dumps(cc("user", "u", None, "a \ud83d b \\\\ud83d \U0001f642 \ude42")).encode()
    session = claude_code.parse([row])

    assert shape(session) == ["user: a \ufffd b \\\\ud83d \U0001f642 \ufffd"]


# --- Codex -------------------------------------------------------------------------------


def cx(kind: str, **payload: object) -> Json:
    return {"timestamp": AT, "type": kind, "payload": payload}


def item(kind: str, **payload: object) -> Json:
    return cx("response_item", type=kind, **payload)


def speech(role: str, words: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": words}])


def tokens(*, total: int, used: int, cached: int = 0, out: int = 5) -> Json:
    last = {"input_tokens": used, "cached_input_tokens": cached, "output_tokens": out}
    info = {"last_token_usage": last, "total_token_usage": {"input_tokens": total}}
    return cx("event_msg", type="token_count", info=info)


META = cx("session_meta", id="x1", cwd="/work", base_instructions={"text": "Be brief."})


def test_the_items_between_two_token_counts_are_one_response() -> None:
    session = codex.parse(
        lines(
            META,
            speech("developer", "Sandboxed."),
            cx("turn_context", model="gpt-x"),
            speech("user", "go"),
            cx("event_msg", type="token_count", info=None),
            item("reasoning", summary=[{"text": "plan"}], encrypted_content="gAAA"),
            item("reasoning", summary=[], content=None),
            speech("assistant", "Let me see."),
            item("function_call", name="sh", arguments='{"cmd": "ls"}', call_id="c1"),
            item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
            item("local_shell_call", action={"command": ["ls"]}, call_id="c3"),
            tokens(total=100, used=100, cached=60),
            item("function_call_output", call_id="c1", output="Process exited with code 1\nno"),
            item(
                "custom_tool_call_output",
                call_id="c2",
                output='{"output":"ok","metadata":{"exit_code":0}}',
            ),
            item("function_call_output", call_id="c3", output={"content": "x", "success": False}),
            speech("user", "a notice"),
            tokens(total=100, used=100, cached=60),
            speech("assistant", "end"),
            tokens(total=250, used=150),
            item("ghost_snapshot"),
            {"timestamp": AT, "type": "novelty", "payload": {}},
        )
    )
    first, last = session.steps[1], session.steps[-1]

    assert [step.message.role.value for step in session.steps] == [
        "user",
        "assistant",
        *["tool"] * 3,
        "user",
        "assistant",
    ]
    assert first.message.parts[0] == Reasoning(text="plan", provenance="openai", signature="gAAA")
    assert first.usage == Usage(input_tokens=100, output_tokens=5, cache_read_tokens=60)
    assert [call.decode_arguments() for call in first.message.calls] == [
        {"cmd": "ls"},
        {"input": "*** Begin"},
        {"command": ["ls"]},
    ]
    assert [step.message.results[0].failed for step in session.steps[2:5]] == [True, False, True]
    assert last.usage == Usage(input_tokens=150, output_tokens=5)
    assert (session.id, session.cwd, session.model) == ("x1", "/work", "gpt-x")
    assert session.system == "Be brief.\n\nSandboxed."
    assert said(session, "skipped, of unknown kind: response_item ghost_snapshot 1, novelty 1")


def test_a_web_search_of_codex_is_kept_with_what_it_looked_for() -> None:
    search = {"type": "search", "query": "uv lock file"}
    page = {"type": "open_page", "url": "https://example.org/uv"}
    session = codex.parse(
        lines(
            META,
            speech("user", "go"),
            item("web_search_call", status="completed", action=search),
            item("web_search_call", status="completed", action=page),
            cx("event_msg", type="web_search_end", call_id="ws_1", query="an older version"),
            item("web_search_call", status="completed"),
            item("web_search_call", status="completed"),
            speech("assistant", "Here it is."),
        )
    )
    found = [part for part in session.messages[1].parts if isinstance(part, Native)]

    assert [part.note for part in found] == [
        "[web_search: uv lock file]",
        "[web_search: https://example.org/uv]",
        "[web_search: an older version]",
        "[web_search]",
    ]
    assert json.loads(found[0].data)["action"] == search
    # OpenAI gets its own items back, but none without an action.
    assert [part.provenance for part in found] == ["openai"] * 3 + ["codex"]
    assert session.messages[1].text == "Here it is."


def test_a_token_count_after_the_results_belongs_to_the_response_before_them() -> None:
    session = codex.parse(
        lines(
            speech("user", "go"),
            item("function_call", name="sh", arguments="{}", call_id="c1"),
            item(
                "function_call_output",
                call_id="c1",
                output=[
                    {"type": "input_text", "text": "seen"},
                    {"type": "input_image", "image_url": f"data:image/gif;base64,{PIXEL}"},
                ],
            ),
            tokens(total=9, used=9),
            tokens(total=9, used=0),
        )
    )

    assert session.steps[1].usage == Usage(input_tokens=9, output_tokens=5)
    assert session.steps[2].message.results[0].text == "seen"
    assert session.steps[2].message.results[0].images == (
        Image(media_type="image/gif", data=b"a picture"),
    )


def test_a_codex_compaction_lists_the_kept_messages() -> None:
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
    session = codex.parse(
        lines(
            speech("user", "go"),
            speech("assistant", "one"),
            cx(
                "compacted",
                message="So far.",
                replacement_history=[kept, {"type": "compaction", "encrypted_content": "gAAA"}],
            ),
            speech("assistant", "two"),
            cx("compacted", message=""),
            {"timestamp": AT, "type": "compacted", "payload": {"message": 7}},
            item("message", role="developer", content="late rule"),
        )
    )

    assert [step.compacts for step in session.steps] == [False, False, True, False, True, False]
    assert session.messages[2].text == (
        "[user]\ngo\n\nSo far.\n\n(The rest of the summary is encrypted.)"
    )
    assert shape(session)[-1] == "user: late rule"
    assert said(session, "no readable summary")
    assert said(session, "line 6 has an unexpected shape")
    assert problems(render(fold(build_journal(session)))) == []


async def test_a_session_is_listed_by_the_first_words_of_the_user() -> None:
    store = MemoryStore()
    context = "<environment_context>\n  <cwd>/work</cwd>\n</environment_context>"
    rules = "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>"
    rollout = [cx("session_meta", id="x", cwd="/work"), speech("user", rules)]
    rollout += [speech("user", context), speech("user", "Fix the login"), speech("assistant", "ok")]
    rollout += [speech("user", "<turn_aborted>\nstopped\n</turn_aborted>")]

    record = await store.record(await import_session(store, codex.parse(lines(*rollout))))

    assert (record.title, record.last_words) == ("Fix the login", "ok")


def test_forks_and_sub_agents_are_noted() -> None:
    meta = cx(
        "session_meta", id="x2", forked_from_id="x1", source={"subagent": "review"}, cwd="/work"
    )
    session = codex.parse(lines(meta, META, speech("user", "go")))

    assert (session.id, session.system) == ("x2", "")
    assert said(session, "copy of x1")
    assert said(session, "sub-agent")


# --- Gemini CLI --------------------------------------------------------------------------


def gem(kind: str, name: str, content: object, **more: object) -> Json:
    return {"id": name, "timestamp": AT, "type": kind, "content": content, **more}


def gem_call(call_id: str, **more: object) -> Json:
    return {"id": call_id, "name": "read_file", "args": {"path": call_id}, **more}


def response(**fields: object) -> list[Json]:
    return [{"functionResponse": {"id": "x", "name": "read_file", "response": fields}}]


GEMINI_HEAD = {"sessionId": "g1", "projectHash": "ab12", "startTime": AT, "lastUpdated": AT}
GEMINI = (
    gem("info", "i", "Update available"),
    gem("user", "u", [{"text": "look"}, {"inlineData": {"mimeType": "image/png", "data": PIXEL}}]),
    gem(
        "gemini",
        "a",
        "Let me see.",
        thoughts=[{"subject": "Plan", "description": "I read it."}, {"subject": ""}],
        toolCalls=[
            gem_call("c1", status="success", result=response(output="text")),
            gem_call("c2", status="error", result=response(error="no such file")),
            gem_call("c3", status="cancelled", resultDisplay="cancelled by you"),
            gem_call("c4", status="success", result=response(output="a", code=1)),
            gem_call("c5", status="executing"),
        ],
        model="gemini-x",
        tokens={"input": 100, "output": 7, "cached": 60, "thoughts": 5, "tool": 3, "total": 115},
    ),
    gem("gemini", "b", "Done.", model="gemini-y", tokens=None),
)


@pytest.mark.parametrize("form", ["document", "one line", "lines"])
def test_a_gemini_session_is_read_in_each_of_its_formats(form: str, tmp_path: Path) -> None:
    head = {**GEMINI_HEAD, "summary": "A look", "directories": ["/work"]}
    whole = {**head, "messages": GEMINI}
    rows = [json.dumps(row) for row in (head, *GEMINI)]
    texts = {"document": json.dumps(whole, indent=2), "one line": json.dumps(whole)}
    path = tmp_path / "session.json"
    path.write_text(texts.get(form, "\n".join(rows)), encoding="utf-8")
    session = read_session(path)
    asked, answer = session.steps[:2]

    assert shape(session) == [
        "user: look",
        "model: Let me see.,c1,c2,c3,c4,c5",
        "tool: text",
        "tool: no such file",
        "tool: cancelled by you",
        'tool: {"output":"a","code":1}',
        f"tool: {NO_RESULT}",
        "model: Done.",
    ]
    assert asked.message.parts[1] == Image(media_type="image/png", data=b"a picture")
    assert answer.message.parts[0] == Reasoning(text="**Plan**\n\nI read it.", provenance="gemini")
    assert answer.message.calls[0].arguments == '{"path":"c1"}'
    assert answer.usage == Usage(input_tokens=103, output_tokens=12, cache_read_tokens=60)
    failed = [step.message.results[0].failed for step in session.steps[2:7]]
    assert failed == [False, True, True, False, True]
    assert (session.source, session.id, session.cwd) == ("gemini_cli", "g1", "/work")
    assert (session.name, session.model) == ("A look", "gemini-y")
    assert said(session, "without a message: info 1")


def test_the_changes_of_a_gemini_session_are_applied() -> None:
    session = gemini_cli.parse(
        [
            *lines(
                {**GEMINI_HEAD, "kind": "subagent"},
                gem("user", "u", "go"),
                gem("gemini", "a", "Let me"),
                gem("gemini", "a", "Let me see."),
                gem("user", "v", "wrong"),
                gem("gemini", "b", "wrong too"),
                {"$rewindTo": "v"},
                {"$set": {"summary": "A title", "lastUpdated": AT}},
                gem("user", "w", "right"),
                gem("novelty", "n", "?"),
            ),
            b'{"torn',
            b'{"$set": {"summary": 7}}',
        ]
    )

    assert shape(session) == ["user: go", "model: Let me see.", "user: right"]
    assert session.name == "A title"
    assert [problem.partition(":")[0] for problem in session.problems] == [
        "line 11 is torn or not JSON and was skipped",
        "line 12 has an unexpected shape and was skipped",
        "skipped 2 messages that were rewound",
        "this is the recording of a sub-agent",
        "skipped, of unknown kind",
    ]


def test_odd_content_of_a_gemini_session_is_harmless() -> None:
    picture = {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}}
    rest = [{"text": 7}, 7, {"inlineData": {"mimeType": "audio/wav"}}, {"functionResponse": {}}]
    session = gemini_cli.parse(
        lines(
            GEMINI_HEAD,
            gem("user", "u", {"text": "go"}),
            gem("gemini", "a", [{"text": "hm", "thought": True}, "Yes.", picture, *rest]),
            gem(
                "gemini",
                "b",
                None,
                toolCalls=[gem_call("c1", result=["plain", picture, *rest]), {"id": "c2"}],
            ),
            {"$rewindTo": "unknown"},
            {"$set": {"messages": [gem("user", "u", "all gone"), gem("gemini", "z", "Yes.")]}},
        )
    )

    assert shape(session) == ["user: all gone", "model: Yes."]
    assert said(session, "skipped 3 messages that were rewound")


# --- pi ----------------------------------------------------------------------------------


def pm(role: str, *content: Json, **more: object) -> Json:
    message = {"role": role, "content": list(content), **more}
    return {"type": "message", "timestamp": AT, "message": message}


HEAD: Json = {"type": "session", "id": "p1", "cwd": "/work", "modelId": "claude-y", "timestamp": AT}


def test_a_pi_session_is_read_with_usage_and_interruptions() -> None:
    usage = {"input": 1, "output": 2, "cacheRead": 30, "cacheWrite": 400, "cost": {"total": 0.1}}
    thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"}
    session = pi.parse(
        lines(
            HEAD,
            {"type": "thinking_level_change", "thinkingLevel": "high"},
            pm("user", text("go"), {"type": "image", "data": PIXEL, "mimeType": "image/png"}),
            pm(
                "assistant",
                thought,
                {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}},
                api="anthropic-messages",
                model="claude-y",
                usage=usage,
                stopReason="toolUse",
            ),
            pm("toolResult", text("no such file"), toolCallId="c1", toolName="read", isError=True),
            pm("assistant", text("I w"), model="claude-y", stopReason="aborted", usage={}),
            pm("assistant", model="claude-y", stopReason="aborted"),
            pm("bashExecution", command="ls", output="a.py"),
            pm("oracle"),
            {"type": "custom_message", "content": "from an extension"},
            {"type": "session_info", "name": "A name"},
        )
    )

    assert shape(session) == [
        "user: go",
        "model: c1",
        "tool: no such file",
        "model: I w",
        "user: Ran `ls`\n\na.py",
        "user: from an extension",
    ]
    assert session.messages[0].parts[1] == Image(data=b"a picture")
    assert session.messages[1].parts[0] == Reasoning(
        text="hm", provenance="anthropic", signature="c2ln"
    )
    assert session.steps[1].usage == Usage(
        input_tokens=431, output_tokens=2, cache_read_tokens=30, cache_write_tokens=400
    )
    assert session.messages[2].results[0].failed
    assert (session.messages[3].interrupted, session.steps[3].usage) == (True, None)
    assert (session.id, session.name, session.model) == ("p1", "A name", "claude-y")
    assert said(session, "1 empty message")
    assert said(session, "message of oracle 1")


def test_a_pi_tree_is_read_along_its_last_branch_and_a_compaction_keeps_what_it_kept() -> None:
    def node(name: str, parent: str | None, row: Json) -> Json:
        return {**row, "id": name, "parentId": parent, "timestamp": AT}

    usage = {"input": 50, "output": 1}
    session = pi.parse(
        lines(
            HEAD,
            node("1", None, pm("user", text("go"))),
            node("2", "1", pm("assistant", text("abandoned"))),
            node("3", "1", pm("assistant", text("one"))),
            node("4", "3", pm("user", text("kept"))),
            node("5", "4", pm("assistant", text("kept too"), usage=usage)),
            node("6", "5", {"type": "compaction", "summary": "So far.", "firstKeptEntryId": "4"}),
            node("7", "6", {"type": "branch_summary", "summary": "Another way failed."}),
            node("8", "7", {"type": "compaction", "summary": "More.", "firstKeptEntryId": "1"}),
            node("9", "8", {"type": "compaction", "summary": "All.", "firstKeptEntryId": "?"}),
            node("10", "9", pm("user", text("next"))),
        )
    )

    assert shape(session) == [
        "user: go",
        "model: one",
        "user: So far.",
        "user: More.",
        "user: kept",
        "model: kept too",
        "user: Another way failed.",
        "user: All.",
        "user: next",
    ]
    assert [step.compacts for step in session.steps] == [0, 0, 1, 1, 0, 0, 0, 1, 0]
    assert session.steps[6].is_summary
    assert session.steps[5].usage is None
    assert said(session, "skipped 1 message on another branch")
    assert said(session, "that a compaction kept is missing")


# --- Clew --------------------------------------------------------------------------------


def as_lines(entries: Sequence[Entry]) -> list[bytes]:
    return clew_jsonl.export_jsonl(entries).split(b"\n")


def squeezed(*dropped: int, summary: str = "So far.") -> Compacted:
    nothing = LossReport(
        kept=(), summarised=(), cleared=(), archived=(), tokens_before=0, tokens_after=0,
        author="rules", why="",
    )  # fmt: skip
    return Compacted(
        trigger="auto",
        strategy="s",
        summary=summary,
        dropped=tuple(map(EntryId, dropped)),
        report=nothing,
    )


def test_a_clew_compaction_keeps_the_view_and_every_message() -> None:
    counted = MessageAdded(message=assistant("two"), usage=Usage(input_tokens=9))
    with_words = replace(squeezed(2), inserted=(user("mine"),))
    entries = entries_of(
        [SETUP, MessageAdded(message=user("one")), counted, with_words, squeezed(3, summary="")]
    )
    session = clew_jsonl.parse(as_lines(entries))

    assert shape(session) == ["user: one", "model: two", "user: So far.", "user: mine"]
    assert (session.model, session.system) == ("m", "Be exact.")
    assert [i.message for i in fold(build_journal(session)).items] == [
        i.message for i in fold(entries).items
    ]


def test_clears_and_undos_in_a_clew_journal_are_applied() -> None:
    one, two = MessageAdded(message=user("one")), MessageAdded(message=user("two"))
    counted = MessageAdded(message=assistant("yes"), usage=Usage(input_tokens=9))
    taken_back = entries_of([SETUP, one, squeezed(2), counted, Undone(target=EntryId(3))])
    cleared = entries_of([SETUP, one, Cleared(), two])
    bare = entries_of([one, two, squeezed(1, 2, summary="")])

    assert shape(clew_jsonl.parse(as_lines(taken_back))) == ["user: one", "model: yes"]
    assert clew_jsonl.parse(as_lines(taken_back)).steps[1].usage is None
    assert shape(clew_jsonl.parse(as_lines(cleared))) == ["user: two"]
    assert said(clew_jsonl.parse(as_lines(cleared)), "1 message before a clear")
    assert said(clew_jsonl.parse(as_lines(bare)), "without a summary")


def test_damaged_and_unknown_entries_in_a_clew_journal_are_reported() -> None:
    rows = as_lines(entries_of([SETUP, MessageAdded(message=user("one"))]))
    newer = b'{"id":3,"at":1.0,"schema":1,"body":{"kind":"dream"}}'
    session = clew_jsonl.parse([*rows, newer, b"{", b'"\xff"'])

    assert shape(session) == ["user: one"]
    assert said(session, "line 5 is torn")
    assert said(session, "line 6 is torn")
    assert said(session, "body 1")


@given(histories(min_turns=1))
def test_any_conversation_survives_export_and_import(entries: list[Entry]) -> None:
    session = clew_jsonl.parse(as_lines(entries))
    again = clew_jsonl.parse(as_lines(build_journal(session)))

    assert again == session
    assert problems([m for m in session.messages if m.role is not Role.USER or m.parts]) == []


# --- opening files -----------------------------------------------------------------------

SAMPLES: dict[str, list[bytes]] = {
    "claude_code": lines({"type": "summary", "leafUuid": "x"}, cc("user", "u", None, "go")),
    "codex": lines(META, speech("user", "go")),
    "pi": lines(HEAD, pm("user", text("go"))),
    "clew": as_lines(entries_of([SETUP, MessageAdded(message=user("go"))])),
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("source", SAMPLES)
def test_the_format_is_detected_from_the_content(
    tmp_path: Path, source: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "whatever.txt"
    path.write_bytes(pack(b"\n".join([b"garbage", *SAMPLES[source], b'{"torn'])))

    session = read_session(str(path))

    assert (session.source, shape(session)) == (source, ["user: go"])
    assert said(session, "line 1 is torn")


def test_a_pi_file_without_its_header_is_detected(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(lines(pm("user", text("go")))[0])

    assert read_session(tmp_path / "a").source == "pi"


def test_the_readable_part_of_a_truncated_archive_is_read(tmp_path: Path) -> None:
    row = b"\n".join(SAMPLES["codex"])
    whole = gzip.compress(row)
    (tmp_path / "a.gz").write_bytes(whole + whole[:-4])
    (tmp_path / "b.gz").write_bytes(whole + b"\x1f\x8b damaged")

    for name in ("a.gz", "b.gz"):
        session = read_session(tmp_path / name)
        assert shape(session)[0] == "user: go"
        assert said(session, "compressed file is truncated")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"just words\n", "Claude Code, Codex, Gemini CLI, pi and Clew"),
        (b'{"sessionId": "g", "messages": []}', "Claude Code, Codex, Gemini CLI, pi and Clew"),
        (b"[1, 2]", "Claude Code, Codex, Gemini CLI, pi and Clew"),
    ],
)
def test_the_error_names_a_file_with_an_unknown_format(
    tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=rf"odd\.jsonl .*{why}"):
        read_session(path)


def test_the_error_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*gone\.jsonl"):
        read_session(tmp_path / "gone.jsonl")


# --- into a store ------------------------------------------------------------------------


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    yield made
    await made.aclose()


def test_the_journal_contains_the_models_and_a_correct_loss_report() -> None:
    session = claude_code.parse(
        lines(
            cc("user", "u", None, "go " * 50),
            cc("assistant", "a", "u", [text("one")], id="m1", model="claude-opus-4-5-20251101"),
            cc("user", "s", "a", "So far.", isCompactSummary=True),
            cc(
                "assistant",
                "b",
                "s",
                [text("two")],
                id="m2",
                model="claude-sonnet-4-5",
                usage={"input_tokens": 21},
            ),
            cc("user", "t", "b", "And so on.", isCompactSummary=True),
            cc("user", "t2", "t", "And on.", isCompactSummary=True),
        )
    )
    bodies = [entry.body for entry in build_journal(session)]

    assert [type(body) for body in bodies] == [
        SetupChanged,
        MessageAdded,
        MessageAdded,
        Compacted,
        SetupChanged,
        MessageAdded,
        Compacted,
        Compacted,
    ]
    assert isinstance(bodies[0], SetupChanged)
    assert bodies[0].model.known
    assert isinstance(bodies[3], Compacted)
    assert (bodies[3].strategy, bodies[3].dropped) == ("imported", (2, 3))
    assert (bodies[3].report.summarised, bodies[3].report.kept) == ((2, 3), ())
    assert bodies[3].report.tokens_before > bodies[3].report.tokens_after == 21


async def test_an_empty_recording_is_an_empty_session(store: Store) -> None:
    session_id = await import_session(store, claude_code.parse(lines({"type": "summary"})))

    assert (await Journal.reopen(store, session_id)).view.items == fold([]).items


class FullStore(MemoryStore):
    """Has room for one batch."""

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        if entries[0].id > 1:
            raise StoreUnavailable("the disk is full")
        await super().append(session_id, entries)


async def test_an_import_that_fails_leaves_nothing_behind() -> None:
    store = FullStore()
    long = codex.parse(lines(*[speech("user", str(number)) for number in range(600)]))

    with pytest.raises(StoreUnavailable):
        await import_session(store, long)

    assert await store.sessions() == []


# --- the real recordings -----------------------------------------------------------------

real = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recordings are not here")


@cache
def recordings() -> tuple[RecordedSession, ...]:
    paths = sorted(path for path in RECORDINGS.rglob("*.json*") if path.is_file())
    read = tuple(read_session(path) for path in paths)
    # One of them was ended before anything was said.
    return tuple(session for session in read if not said(session, "contains no message"))


@real
@pytest.mark.slow("reads large recordings")
def test_every_recording_loads_and_is_counted() -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for session in recordings():
        results = [result for message in session.messages for result in message.results]
        counts[session.source] += Counter(
            files=1,
            messages=len(session.messages),
            calls=sum(len(message.calls) for message in session.messages),
            orphans=sum(result.text == NO_RESULT for result in results),
            counted=sum(step.usage is not None for step in session.steps),
            compactions=sum(step.compacts for step in session.steps),
            problems=len(session.problems),
        )
        assert session.steps
        assert not said(session, "line ")
    for source, count in counts.items():
        sys.stdout.write(f"{source}: {dict(count)}\n")

    assert set(counts) == {"claude_code", "codex", "gemini_cli", "pi"}


@real
@pytest.mark.parametrize("name", ["0cd9edf7", "545b45d4"])
def test_each_recorded_prompt_that_was_queued_is_said_once(name: str) -> None:
    (path,) = (RECORDINGS / "claude_code").glob(f"{name}*")
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    queued = [row["content"] for row in rows if row.get("operation") == "enqueue"]
    texts = [message.text for message in read_session(path).messages if message.role is Role.USER]

    assert queued
    assert [texts.count(text) for text in queued] == [1] * len(queued)


@real
@pytest.mark.slow("reads large recordings")
def test_every_recording_is_a_conversation_that_a_provider_accepts() -> None:
    for session in recordings():
        view = fold(build_journal(session))

        assert problems(session.messages) == []
        assert problems(render(view)) == []
        assert len(view.items) + len(view.archived) <= len(session.steps)


@real
@pytest.mark.slow("reads large recordings")
def test_every_recording_is_the_same_after_a_round_trip_through_clews_own_format() -> None:
    for session in recordings():
        again = clew_jsonl.parse(as_lines(build_journal(session)))

        assert len(again.steps) == len(session.steps)
        for mine, theirs in zip(again.steps, session.steps, strict=True):
            # A journal knows no answer that no model wrote.
            assert mine == (replace(theirs, model=mine.model) if not theirs.model else theirs)
        assert (again.model, again.system) == (session.model, session.system)


@real
@pytest.mark.slow("reads large recordings")
async def test_every_recording_has_the_same_view_when_it_is_opened_from_a_store(
    store: Store,
) -> None:
    for session in recordings():
        session_id = await import_session(store, session)
        journal = await Journal.reopen(store, session_id)

        assert journal.view == fold(build_journal(session))
        assert (journal.record.cwd, journal.record.name) == (session.cwd, session.name)
