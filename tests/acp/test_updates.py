"""Events as updates: whatever a session does, an editor gets a history that makes sense."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.acp.content import ResourceLink, TextBlock, ToolContent, Update
from clew.acp.messages import UpdateParams
from clew.acp.permissions import make_question
from clew.acp.prompts import make_prompt
from clew.acp.tool_calls import fence
from clew.acp.updates import EventMapper
from clew.core.context_state import Basis, Breakdown, ContextState, LossReport, Status
from clew.core.events import (
    BackgroundTaskEvent,
    CompactionFailed,
    CompactionStarted,
    ContextUpdated,
    Envelope,
    Event,
    ModelRetry,
    ReasoningDelta,
    ServerToolEnded,
    ServerToolStarted,
    TaskStage,
    TextDelta,
    TodosChanged,
    ToolEnded,
    ToolProgress,
    ToolResultsCleared,
    ToolStarted,
    Warned,
)
from clew.core.file_change import FileChange, Hunk
from clew.core.ids import CallId, EntryId, SessionId
from clew.core.permissions import Access, Approval, Decision, Risk, Verdict
from clew.core.tasks import TaskKind, TaskState, TaskStatus
from clew.core.todos import TodoItem, TodoStatus
from clew.sdk.permission_requests import list_choices, make_request

pytestmark = pytest.mark.req("ACP-1")

STATE = ContextState(
    max_tokens=1_000,
    used_tokens=70,
    status=Status.OK,
    basis=Basis.EXACT,
    breakdown=Breakdown(user=70),
)


def clear_results(count: int) -> ToolResultsCleared:
    """Return the event of a clearing that freed 800 tokens."""
    report = LossReport(
        kept=(),
        summarised=(),
        archived=(),
        author="rules",
        why="",
        cleared=tuple(EntryId(number) for number in range(count)),
        tokens_before=870,
        tokens_after=70,
    )
    return ToolResultsCleared(trigger="economy", before=STATE, after=STATE, report=report)


texts = st.text(max_size=20)
names = st.sampled_from(["Read", "Write", "Edit", "Bash", "Grep", "Agent", "ExitPlanMode", "mine"])
ids = st.sampled_from(["a", "b"]).map(CallId)
arguments = st.one_of(
    texts,
    st.fixed_dictionaries(
        {},
        optional={
            "file_path": texts,
            "old_string": texts,
            "new_string": texts,
            "content": texts,
            "offset": st.integers(-2, 5),
            "path": st.one_of(texts, st.none()),
            "plan": texts,
        },
    ).map(lambda value: msgspec.json.encode(value).decode()),
)
changes = st.builds(
    lambda path, lines, created: FileChange.of(
        path, [Hunk.of(1, 1, lines)], created=created
    ).data(),
    texts,
    st.lists(st.tuples(st.sampled_from(" +-"), st.text("ab", max_size=3)).map("".join), min_size=1),
    st.booleans(),
)
todos = st.builds(TodoItem, content=texts, status=st.sampled_from(TodoStatus))
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(TextDelta, texts),
    st.builds(ReasoningDelta, texts),
    st.builds(ToolStarted, call_id=ids, name=names, arguments=arguments),
    st.builds(ToolProgress, call_id=ids, name=names, line=texts),
    st.builds(
        ToolEnded,
        call_id=ids,
        name=names,
        failed=st.booleans(),
        display=texts,
        data=st.one_of(st.just({}), changes),
    ),
    st.builds(ServerToolStarted, call_id=ids, name=names),
    st.builds(ServerToolEnded, call_id=ids, name=names, text=texts, failed=st.booleans()),
    st.builds(TodosChanged, st.lists(todos, max_size=3).map(tuple)),
    st.builds(Warned, texts),
    st.builds(
        ModelRetry, reason=texts, delay=st.just(1.0), attempt=st.just(2), attempts=st.just(3)
    ),
    st.just(ContextUpdated(STATE)),
    st.builds(CompactionStarted, trigger=st.just("auto"), before=st.just(STATE)),
    st.builds(CompactionFailed, why=texts),
    st.builds(clear_results, st.integers(1, 9)),
    st.builds(
        lambda status, kind, text: BackgroundTaskEvent(
            task_id="t",
            agent="a",
            stage=TaskStage.UPDATED,
            state=TaskState(task_id="t", kind=kind, label=text, status=status, result=text),
        ),
        st.sampled_from(TaskStatus),
        st.sampled_from(TaskKind),
        texts,
    ),
)
streams = st.lists(st.tuples(events, st.sampled_from(["", "task"])), max_size=12)


def map_all(stream: Sequence[tuple[Event, str]]) -> list[Update]:
    mapper = EventMapper("/work")
    return [
        update
        for number, (event, task) in enumerate(stream)
        for update in mapper.map(
            Envelope(seq=number, session_id=SessionId("s"), task_id=task, at=0.0, event=event)
        )
    ]


@pytest.mark.slow("imports the SDK of the protocol")
@settings(max_examples=30)
@given(streams)
def test_every_update_satisfies_the_schema_of_the_sdk(stream: list[tuple[Event, str]]) -> None:
    # At the top of the file, every worker would import it for the fast tests, too.
    from acp.schema import SessionNotification  # noqa: PLC0415

    from tests.acp.editor import check_against  # noqa: PLC0415

    for update in map_all(stream):
        value = msgspec.json.decode(msgspec.json.encode(UpdateParams("s", update)))
        check_against(SessionNotification, value)


@given(streams)
def test_a_tool_call_starts_once_and_is_never_changed_after_its_end(
    stream: list[tuple[Event, str]],
) -> None:
    running: dict[str, bool] = {}
    for update in map_all(stream):
        value = msgspec.to_builtins(update)
        if value["sessionUpdate"] == "tool_call":
            assert value["toolCallId"] not in running
            assert value["title"]
        elif value["sessionUpdate"] == "tool_call_update":
            assert running[value["toolCallId"]]
        else:
            continue
        running[value["toolCallId"]] = value.get("status") not in ("completed", "failed")


@given(streams)
def test_the_answer_is_complete_and_has_nothing_else(stream: list[tuple[Event, str]]) -> None:
    shown = [msgspec.to_builtins(update) for update in map_all(stream)]
    said = [event.text for event, task in stream if isinstance(event, TextDelta) and not task]

    chunks = [one for one in shown if one["sessionUpdate"] == "agent_message_chunk"]
    assert "".join(one["content"]["text"] for one in chunks) == "".join(said)


def test_cleared_results_are_shown_as_a_call_that_has_ended() -> None:
    updates = map_all([(clear_results(28), ""), (clear_results(1), "")])

    first, gauge, second, _ = (msgspec.to_builtins(update) for update in updates)
    assert first["sessionUpdate"] == "tool_call"
    assert (first["title"], first["status"]) == (
        "28 tool results removed from context",
        "completed",
    )
    assert first["content"][0]["content"]["text"] == "870 → 70 tokens · /undo to restore"
    assert second["title"] == "1 tool result removed from context"
    assert (gauge["sessionUpdate"], gauge["used"]) == ("usage_update", 70)


@given(st.lists(todos, max_size=4).map(tuple))
def test_a_plan_has_every_step_that_is_not_cancelled(items: tuple[TodoItem, ...]) -> None:
    (update,) = map_all([(TodosChanged(items), "")])

    steps = msgspec.to_builtins(update)["entries"]
    kept = [one for one in items if one.status is not TodoStatus.CANCELLED]
    assert [(one["content"], one["status"]) for one in steps] == [
        (one.content, one.status) for one in kept
    ]


@given(st.text("`\na ", max_size=30))
def test_no_text_can_end_its_own_block_of_code(text: str) -> None:
    first, *inner, last = fence(text).split("\n")

    assert first == last
    assert not any(line.strip().startswith(first) for line in inner)


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("file:///work/src/a.py", "see @src/a.py"),
        ("file:///work/a%20b.py", 'see @"a b.py"'),
        ("file:///work/a.py#L3:9", "see @a.py#3-9"),
        ("file:///other/a.py", "see @/other/a.py"),
        ("https://example.com/x", "see x (https://example.com/x)"),
    ],
)
def test_a_link_is_a_reference_that_the_session_attaches(uri: str, text: str) -> None:
    prompt = make_prompt((TextBlock("see "), ResourceLink("x", uri)), "/work")

    assert (prompt.text, prompt.attach) == (text, text)


def test_a_question_of_a_tool_is_shown_with_yes_and_no() -> None:
    access = Access(tool="mcp__one__go", risk=Risk.INSPECT, question="Deploy now?")
    request = make_request(access, Decision(Verdict.ASK, access.question))

    question = make_question(request, session_id="s", tool_call_id="c", cwd="/")

    assert [(one.option_id, one.name) for one in question.options] == [
        ("once", "yes"),
        ("no", "no"),
    ]
    assert question.tool_call.content == (ToolContent(TextBlock("Deploy now?")),)
    texts = [one for one in list_choices(request) if one.takes_text]
    assert [(one.key, one.approval) for one in texts] == [("a", Approval.ONCE)]
