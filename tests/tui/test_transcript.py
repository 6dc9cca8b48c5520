"""The fold of events into blocks: nothing lost, nothing twice, everything in order."""

import itertools
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.context_state import Basis, Breakdown, ContextState, LossReport, Status
from clew.core.entries import Entry, MessageAdded
from clew.core.events import (
    CompactionEnded,
    CompactionFailed,
    CompactionProgress,
    CompactionStarted,
    EntryAdded,
    Envelope,
    Event,
    ModelRetry,
    PermissionDenied,
    PermissionRequest,
    PermissionResolved,
    ReasoningDelta,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    ServerToolEnded,
    ServerToolStarted,
    TextDelta,
    Thinking,
    TodosChanged,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    UserMessage,
    Warned,
)
from clew.core.ids import CallId, EntryId, RunId, SessionId
from clew.core.messages import Message, Role, ToolResult
from clew.core.permissions import Risk
from clew.core.results import ExecutionResult
from clew.core.task_events import (
    BackgroundJobGroupEvent,
    BackgroundTaskEvent,
    JobGroupStage,
    TaskStage,
)
from clew.core.tasks import (
    JobGroupState,
    JobResult,
    JobWaitPolicy,
    TaskKind,
    TaskMode,
    TaskState,
    TaskStatus,
)
from clew.core.todos import TodoItem
from clew.tui.blocks import (
    Answer,
    Block,
    Compaction,
    Notice,
    Plan,
    RunningTool,
    ServerToolBlock,
    ShellOutput,
    TaskNote,
    ThinkingBlock,
    Todos,
    ToolCallBlock,
    UserPrompt,
)
from clew.tui.open_blocks import NO_RESULT
from clew.tui.questions import format_title
from clew.tui.transcript import Transcript
from tests.tui.answers import answers

pytestmark = pytest.mark.req("TUI-2")

STATE = ContextState(
    max_tokens=1_000, used_tokens=400, status=Status.OK, basis=Basis.EXACT, breakdown=Breakdown()
)
REPORT = LossReport(
    kept=(),
    summarised=(),
    cleared=(),
    archived=(),
    tokens_before=9,
    tokens_after=4,
    author="rules",
    why="w",
)
RESULT = ExecutionResult(response="x", context_state=STATE)


class Stream:
    """Feeds events to a transcript, half a second apart, and keeps the blocks."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.blocks: list[Block] = []
        self.at = 100.0

    def feed(self, *events: Event, task_id: str = "") -> list[Block]:
        made: list[Block] = []
        for event in events:
            self.at += 0.5
            envelope = Envelope(
                seq=1, session_id=SessionId("s"), at=self.at, event=event, task_id=task_id
            )
            made += self.transcript.apply(envelope)
        self.blocks += made
        return made


def start(call_id: str = "1", name: str = "Bash", **fields: bool) -> ToolStarted:
    return ToolStarted(call_id=CallId(call_id), name=name, arguments='{"command": "ls"}', **fields)


def end(call_id: str = "1", name: str = "Bash", **fields: object) -> ToolEnded:
    return ToolEnded(call_id=CallId(call_id), name=name, **{"failed": False, **fields})  # type: ignore[arg-type]


def test_a_cancelled_prompt_in_the_queue_does_not_end_the_answer_that_runs() -> None:
    stream = Stream()

    stream.feed(UserMessage(text="do it", run_id=RunId("one")), TextDelta(text="Half"))
    made = stream.feed(RunFailed(message="cancelled", run_id=RunId("two")))

    assert made == [Notice("cancelled", "error")]
    live = stream.transcript.live
    assert live is not None
    assert (live.is_running, live.answer) == (True, "Half")


def test_a_run_becomes_a_prompt_thinking_an_answer_and_a_call() -> None:
    stream = Stream()

    made = stream.feed(
        UserMessage(text="do it"),
        Thinking(active=True),
        ReasoningDelta("I "),
        ReasoningDelta("think."),
        TextDelta("Para one.\n\nPara"),
        TextDelta(" two."),
        start(),
        end(display="out", data={"exit_code": 0}),
        TextDelta("Done."),
        RunCompleted(RESULT),
    )

    assert made == [
        UserPrompt("do it"),
        ThinkingBlock(text="I think.", seconds=1.0, number=1),
        Answer(text="Para one.\n\n", part=0),
        Answer(text="Para two.", part=1),
        ToolCallBlock(
            number=2,
            name="Bash",
            arguments='{"command": "ls"}',
            outcome="success",
            display="out",
            data={"exit_code": 0},
            seconds=0.5,
        ),
        Answer(text="Done.", part=0),
    ]
    assert stream.transcript.live is None


def test_the_live_block_has_what_is_unfinished() -> None:
    stream = Stream()
    live = stream.transcript

    stream.feed(UserMessage(text="go"), ReasoningDelta("hm"))
    assert live.live is not None
    assert (live.live.since, live.live.thinking, live.live.thinking_since) == (100.5, "hm", 101.0)

    stream.feed(TextDelta("One.\n\nTwo"))
    assert (live.live.answer, live.live.answer_part, live.live.thinking) == ("Two", 1, "")

    stream.feed(start(), ToolProgress(call_id=CallId("1"), name="Bash", line="12%"))
    (tool,) = live.live.tools
    assert (tool.line, tool.since, live.live.answer) == ("12%", 102.0, "")

    stream.feed(end(), ModelRetry(reason="rate limited", delay=12.0, attempt=2, attempts=5))
    assert live.live.retry is not None
    assert live.live.retry.until == stream.at + 12.0

    stream.feed(TextDelta("x"))
    assert live.live.retry is None

    stream.feed(CompactionStarted(trigger="auto", before=STATE))
    assert live.live.compaction == "compacting (auto)"

    stream.feed(CompactionProgress(stage="reading", done=1, total=4))
    assert live.live.compaction == "compacting: reading 1 of 4"


def test_a_compaction_without_a_run_is_live_until_it_ends() -> None:
    stream = Stream()
    live = stream.transcript

    stream.feed(CompactionStarted(trigger="manual", before=STATE))
    assert live.live is not None
    assert (live.live.since, live.live.compaction) == (100.5, "compacting (manual)")

    stream.feed(CompactionProgress(stage="reading", done=1, total=4))
    assert (live.live.since, live.live.compaction) == (100.5, "compacting: reading 1 of 4")

    stream.feed(CompactionFailed(why="it was aborted"))
    assert live.live is None


@pytest.mark.parametrize(
    "over", [RunCompleted(RESULT), RunInterrupted(RESULT), RunFailed(message="gone")]
)
def test_a_call_of_the_provider_ends_with_the_run(over: Event) -> None:
    stream = Stream()

    stream.feed(
        UserMessage(text="go"), ServerToolStarted(call_id="s", name="web_search", arguments="maze")
    )
    call = stream.feed(over)[0]

    assert call == ServerToolBlock(
        number=1, name="web_search", arguments="maze", text=NO_RESULT, failed=True, seconds=0.5
    )
    assert stream.transcript.live is None


def test_a_command_of_the_user_becomes_shell_output() -> None:
    (made,) = Stream().feed(start(by_user=True), end(display="out", failed=True))

    assert made == ShellOutput(number=1, command="ls", text="out", failed=True)


def test_a_call_that_waits_for_an_answer_says_so() -> None:
    stream = Stream()
    request = PermissionRequest(
        request_id="r", tool_name="Bash", target="ls", risk=Risk.EXECUTE, reason="", call_id="1"
    )

    stream.feed(start(), request)
    assert [tool.is_asking for tool in stream.transcript.live.tools] == [True]  # type: ignore[union-attr]

    stream.feed(PermissionResolved(request_id="r", approved=False))
    assert [tool.is_asking for tool in stream.transcript.live.tools] == [False]  # type: ignore[union-attr]

    (made,) = stream.feed(
        PermissionDenied(call_id="1", tool_name="Bash", target="ls", reason="no", remedy="ask"),
        end(failed=True, denied=True, display="no"),
    )
    assert isinstance(made, ToolCallBlock)
    assert (made.outcome, made.remedy) == ("denied", "ask")
    assert made.seconds == 1.0


def test_a_result_that_the_model_reads_in_part_says_so() -> None:
    result = ToolResult(call_id=CallId("1"), name="Bash", text="ab")
    body = MessageAdded(message=Message(role=Role.TOOL, parts=(result,)), full_text="abcdef")

    (made,) = Stream().feed(
        start(), EntryAdded(Entry(id=EntryId(7), at=1.0, body=body)), end(display="abcdef")
    )

    assert isinstance(made, ToolCallBlock)
    assert "2 of 6 characters; /recall #7" in made.truncated


def test_a_subagent_is_a_note_when_it_starts_and_when_it_ends() -> None:
    stream = Stream()
    task = partial(BackgroundTaskEvent, task_id="t", agent="explorer")

    stream.feed(task(stage=TaskStage.STARTED, text="look"))
    stream.feed(start(), Warned("careful"), TextDelta("hidden"), task_id="t")
    assert stream.transcript.live is not None
    (agent,) = stream.transcript.live.tasks
    assert (agent.calls, agent.line) == (1, "Bash ls")
    stream.feed(task(stage=TaskStage.COMPLETED, text="found"))

    assert stream.blocks == [
        TaskNote(name="explorer", stage="started", text="look", number=1),
        Notice("explorer: careful", "warning"),
        TaskNote(name="explorer", stage="completed", text="found", calls=1, seconds=2.0, number=2),
    ]


def a_task(
    stage: TaskStage, *, text: str = "", mode: TaskMode = "background", **facts: Any
) -> BackgroundTaskEvent:
    state = TaskState(
        task_id="task-1", kind=TaskKind.PROCESS, label="make test", mode=mode, **facts
    )
    return BackgroundTaskEvent(task_id="task-1", agent="", stage=stage, text=text, state=state)


@pytest.mark.req("BGT-2", "CTX-9")
def test_a_background_task_is_a_line_until_it_ends() -> None:
    stream = Stream()

    stream.feed(a_task(TaskStage.CREATED))
    queued = stream.transcript.live
    stream.feed(a_task(TaskStage.STARTED, text="make test"))
    stream.feed(
        a_task(TaskStage.UPDATED, preview="3 passed", context=STATE, status=TaskStatus.RUNNING)
    )
    running = stream.transcript.live
    stream.feed(a_task(TaskStage.WAITING, text="Bash rm x", status=TaskStatus.WAITING_PERMISSION))
    asking = stream.transcript.live
    stream.feed(a_task(TaskStage.RESUMED, status=TaskStatus.RUNNING))
    stream.feed(a_task(TaskStage.COMPLETED, text="4 passed"), a_task(TaskStage.CLOSED))

    assert queued is not None
    assert running is not None
    assert asking is not None
    assert not queued.is_running
    assert queued.tasks[0].is_queued
    (line,) = running.tasks
    assert (line.name, line.line, line.percentage) == ("make test", "3 passed", 40.0)
    assert (line.is_queued, line.is_background, line.is_agent) == (False, True, False)
    assert asking.tasks[0].is_asking
    assert stream.transcript.live is None
    notes = [block for block in stream.blocks if isinstance(block, TaskNote)]
    assert [(note.stage, note.task_id, note.text) for note in notes] == [
        ("started", "task-1", ""),
        ("asks", "task-1", "Bash rm x"),
        ("completed", "task-1", "4 passed"),
    ]


def test_tasks_that_fail_or_are_cancelled_are_noted_once() -> None:
    for stage, word in [(TaskStage.FAILED, "failed"), (TaskStage.CANCELLED, "cancelled")]:
        stream = Stream()
        stream.feed(a_task(TaskStage.STARTED), a_task(stage, text="why"))
        note = stream.blocks[-1]
        assert isinstance(note, TaskNote)
        assert (note.stage, note.text) == (word, "why")


@pytest.mark.req("BGT-3", "INT-1")
def test_a_group_in_the_background_is_one_note_when_it_is_complete() -> None:
    results = (JobResult(task_id="task-1", label="make test", status=TaskStatus.COMPLETED),)
    state = JobGroupState(
        group_id="group-1",
        policy=JobWaitPolicy.WAIT_ALL,
        label="checks",
        task_ids=("task-1",),
        results=results,
    )
    done = BackgroundJobGroupEvent(group_id="group-1", stage=JobGroupStage.COMPLETED, state=state)
    created = BackgroundJobGroupEvent(group_id="group-1", stage=JobGroupStage.CREATED, state=state)
    stream, waited = Stream(), Stream()
    stream.feed(a_task(TaskStage.STARTED), created, done)
    waited.feed(a_task(TaskStage.STARTED, mode="foreground"), created, done)

    (note,) = [block for block in stream.blocks if isinstance(block, Notice)]
    assert note.text == "the group checks (group-1) of 1 task is complete: 1 completed"
    assert not any(isinstance(block, Notice) for block in waited.blocks)


def test_a_request_of_a_task_says_who_asks() -> None:
    stream = Stream()
    request = PermissionRequest(
        request_id="r", tool_name="Bash", target="make", risk=Risk.EXECUTE, reason="default"
    )
    stream.feed(a_task(TaskStage.STARTED))

    tasks = stream.transcript.tasks
    assert tasks.sign(request, "").asker == ""
    assert tasks.sign(request, "other").asker == "other"
    signed = tasks.sign(request, "task-1")
    assert signed.asker == "make test (task-1)"
    assert tasks.sign(signed, "other") is signed
    assert format_title(signed) == "make test (task-1): Bash wants to run:"


def test_a_compaction_and_the_ends_of_runs_are_reported() -> None:
    stream = Stream()

    made = stream.feed(
        TextDelta("partial"),
        CompactionStarted(trigger="auto", before=STATE),
        CompactionEnded(trigger="auto", before=STATE, after=STATE, report=REPORT, summary="s"),
        RunInterrupted(RESULT),
        RunFailed(message="gone"),
        RunCompleted(ExecutionResult(response="x", context_state=STATE, stop_reason="length")),
        RunCompleted(ExecutionResult(response=" ", context_state=STATE)),
    )

    assert made[0] == Answer(text="partial")
    assert isinstance(made[1], Compaction)
    assert [block.level for block in made[2:] if isinstance(block, Notice)] == [
        *("info", "error", "warning", "warning")
    ]


def test_a_plan_is_shown_when_it_is_asked_about_and_a_todo_list_when_it_changes() -> None:
    stream = Stream()
    items = (TodoItem(content="Fix"),)
    request = PermissionRequest(
        request_id="r",
        tool_name="ExitPlanMode",
        target="",
        risk=Risk.INSPECT,
        reason="",
        arguments={"plan": "1. Look"},
    )

    made = stream.feed(
        TextDelta("Here:"),
        request,
        start(name="TodoWrite"),
        TodosChanged(items),
        end(name="TodoWrite"),
    )

    assert made == [Answer(text="Here:"), Plan(text="1. Look"), Todos(items)]
    stream.feed(UserMessage(text="go"))
    assert stream.transcript.live is not None
    assert stream.transcript.live.todos == items


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"plan": "1. Look twice", "approved": True}, "1. Look twice"),
        ({"plan": "1. Look", "approved": True}, ""),
        ({"plan": "1. Look", "approved": False}, ""),
    ],
)
def test_a_plan_that_the_user_changed_is_shown_as_it_was_approved(
    data: dict[str, object], shown: str
) -> None:
    stream = Stream()
    presented = ToolStarted(
        call_id=CallId("1"), name="ExitPlanMode", arguments='{"plan": "1. Look"}'
    )

    made = stream.feed(presented, end(name="ExitPlanMode", display="approved", data=data))

    assert [block.text for block in made if isinstance(block, Plan)] == ([shown] if shown else [])


def test_numbered_blocks_can_be_found_again() -> None:
    stream = Stream()

    stream.feed(start("1"), end("1"), start("2"), end("2", display="two"))

    assert stream.transcript.newest is not None
    assert stream.transcript.newest.number == 2
    assert stream.transcript.find(2) == stream.transcript.newest
    assert stream.transcript.find(3) is None
    assert stream.transcript.add(Notice("x")) == Notice("x")


def _running(transcript: Transcript) -> tuple[RunningTool, ...]:
    return transcript.live.tools if transcript.live else ()


TEXTS = answers().filter(bool)
EVENTS = st.one_of(
    TEXTS.map(TextDelta),
    TEXTS.map(ReasoningDelta),
    st.sampled_from("123").map(start),
    st.sampled_from("123").map(end),
    st.sampled_from(
        [
            ServerToolStarted(call_id="s", name="web_search"),
            ServerToolEnded(call_id="s", name="web_search"),
            UserMessage(text="go"),
            Thinking(active=True),
            Thinking(active=False),
            Warned("careful"),
            CompactionStarted(trigger="auto", before=STATE),
            RunCompleted(RESULT),
            RunInterrupted(RESULT),
            RunFailed(message="gone"),
            ModelRetry(reason="busy", delay=1.0, attempt=2, attempts=3),
        ]
    ),
)


@given(st.lists(EVENTS, max_size=25))
def test_every_text_is_in_exactly_one_block_and_in_order(events: list[Event]) -> None:
    stream = Stream()
    written = thought = ""
    ended = itertools.count()
    count = 0
    is_searching = False
    for event in events:
        stream.feed(event)
        match event:
            case TextDelta(text=text):
                written += text
            case ReasoningDelta(text=text):
                thought += text
            case ToolEnded() | ServerToolEnded():
                count = next(ended) + 1
            case RunCompleted() | RunInterrupted() | RunFailed() if is_searching:
                count = next(ended) + 1
            case _:
                pass
        is_searching = any(one.call_id == "s" for one in _running(stream.transcript))
        live = stream.transcript.live
        answers_shown = "".join(one.text for one in stream.blocks if isinstance(one, Answer))
        thinking_shown = "".join(
            one.text for one in stream.blocks if isinstance(one, ThinkingBlock)
        )
        answers_shown += live.answer if live else ""
        thinking_shown += live.thinking if live else ""

        assert "".join(answers_shown.split()) == "".join(written.split())
        assert "".join(thinking_shown.split()) == "".join(thought.split())
    calls = [one for one in stream.blocks if isinstance(one, ToolCallBlock | ServerToolBlock)]
    numbers = [number for one in stream.blocks if (number := getattr(one, "number", 0))]
    assert len(calls) == count
    assert numbers == sorted(set(numbers))


@settings(max_examples=30)
@given(st.lists(TEXTS.map(TextDelta), min_size=1, max_size=10))
def test_the_parts_of_an_answer_count_from_zero(events: list[TextDelta]) -> None:
    stream = Stream()

    stream.feed(*events, RunCompleted(RESULT))

    parts = [one.part for one in stream.blocks if isinstance(one, Answer)]
    assert parts == list(range(len(parts)))
