"""Watchdogs: what ends a task, and what never does."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.events import (
    Event,
    PermissionRequest,
    PermissionResolved,
    ReasoningDelta,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from clew.core.ids import CallId
from clew.core.permissions import Risk
from clew.core.tasks import TimeoutReason
from clew.runtime.protocol import AGENT_LIMITS, TaskLimits
from clew.runtime.watchdogs import (
    Activity,
    describe_timeout,
    find_time_left,
    find_timeout,
    observe,
    start_activity,
)
from tests.rows import each_row

pytestmark = pytest.mark.req("BGT-1")

REPETITION = TaskLimits(repetition_threshold=8)


def watch(limits: TaskLimits, *events: Event, now: float = 0.0) -> TimeoutReason | None:
    """Return what ends a task that reports these events at once."""
    activity = start_activity(now)
    for event in events:
        activity = observe(activity, event, now=now, limits=limits)
        if reason := find_timeout(limits, activity, now=now):
            return reason
    return None


def texts(*pieces: str) -> list[TextDelta]:
    return [TextDelta(piece) for piece in pieces]


def started(call: str) -> ToolStarted:
    return ToolStarted(call_id=CallId(call), name="Read", arguments="{}")


def question(name: str) -> PermissionRequest:
    return PermissionRequest(
        request_id=name, tool_name="Bash", target="make", risk=Risk.EXECUTE, reason=""
    )


steps = st.lists(
    st.tuples(
        st.floats(0, 20),
        st.sampled_from(
            [
                TextDelta("word "),
                started("c"),
                ToolEnded(call_id=CallId("c"), name="Read", failed=False),
                question("a"),
                question("b"),
                PermissionResolved(request_id="a", approved=True),
                PermissionResolved(request_id="b", approved=False),
            ]
        ),
    ),
    max_size=20,
)


def play(pauses: list[tuple[float, Event]], limits: TaskLimits) -> list[tuple[float, Activity]]:
    """Return the time and the activity after each event."""
    now, activity = 100.0, start_activity(100.0)
    history = [(now, activity)]
    for pause, event in pauses:
        now += pause
        activity = observe(activity, event, now=now, limits=limits)
        history.append((now, activity))
    return history


@given(steps)
def test_only_the_time_without_an_open_question_counts(pauses: list[tuple[float, Event]]) -> None:
    history = play(pauses, TaskLimits())

    worked = sum(
        after[0] - before[0] for before, after in pairwise(history) if not before[1].questions
    )
    now, last = history[-1]
    assert last.time_worked(now) == pytest.approx(worked)
    assert 0 <= last.active_at <= last.time_worked(now)
    if last.questions:
        assert last.time_worked(now + 1_000) == last.time_worked(now)


@given(steps, st.floats(0.5, 15), st.floats(0.5, 60))
def test_a_clock_runs_out_exactly_when_the_time_that_was_left_has_passed(
    pauses: list[tuple[float, Event]], idle: float, runtime: float
) -> None:
    limits = TaskLimits(idle_timeout=idle, max_runtime=runtime, tool_idle_timeout=2 * idle)
    now, activity = play(pauses, limits)[-1]

    left = find_time_left(limits, activity, now=now)

    assert left is not None
    if activity.questions:
        is_over = find_timeout(limits, activity, now=now) is not None
        assert (find_timeout(limits, activity, now=now + 10_000) is not None) == is_over
    else:
        assert find_timeout(limits, activity, now=now + left - 0.01) is None or left <= 0.01
        assert find_timeout(limits, activity, now=now + left + 0.01) is not None


@given(steps)
def test_without_limits_nothing_ends_a_task(pauses: list[tuple[float, Event]]) -> None:
    now, activity = play(pauses, TaskLimits())[-1]

    assert find_timeout(TaskLimits(), activity, now=now + 1e9) is None
    assert find_time_left(TaskLimits(), activity, now=now) is None


@given(st.lists(st.text(max_size=5), max_size=8), st.integers(0, 20), st.integers(0, 8))
def test_output_is_counted_in_bytes_and_pieces(pieces: list[str], size: int, count: int) -> None:
    limits = TaskLimits(output_limit_bytes=size, max_text_deltas=count)
    total = sum(len(piece.encode(errors="replace")) for piece in pieces)

    reason = watch(limits, *texts(*pieces), ReasoningDelta("thoughts do not count " * 10))

    assert (reason is not None) == (total > size or len(pieces) > count)


@given(st.text(min_size=1, max_size=30), st.integers(2, 12))
def test_the_same_words_in_a_row_are_a_repetition(piece: str, threshold: int) -> None:
    limits = TaskLimits(repetition_threshold=threshold)
    piece = f"a{piece}"

    assert watch(limits, *texts(*[piece] * threshold)) is TimeoutReason.REPETITION
    assert watch(limits, *texts(*[piece] * (threshold - 1))) is None or "\n" in piece


@given(st.lists(st.integers(1, 9), min_size=1, max_size=200))
def test_pieces_of_a_repeated_sentence_are_a_repetition(cuts: list[int]) -> None:
    text, pieces, at = "I will now check the file again. " * 9, [], 0
    for cut in cuts * 300:
        pieces.append(text[at : at + cut])
        at += cut

    assert watch(REPETITION, *texts(*pieces)) is TimeoutReason.REPETITION
    assert watch(REPETITION, *[ReasoningDelta(one) for one in pieces]) is TimeoutReason.REPETITION


@each_row(
    "pieces",
    [
        ["-"] * 79,
        ["|", *["---|"] * 12, "\n"],
        ["\n"] * 30,
        ["ok. "] * 7,
        [f"Step {number} of the plan is done. " for number in range(50)],
        ["A sentence.\n", "Another one.\n"] * 20,
        ["192.168.0.1 192.168.0.1 192.168.0.1 "],
        ["    }\n", "  }\n"] * 10,
    ],
)
def test_what_writers_repeat_on_purpose_is_no_repetition(pieces: list[str]) -> None:
    assert watch(REPETITION, *texts(*pieces)) is None


def test_signs_that_fill_the_window_are_a_repetition() -> None:
    assert watch(REPETITION, *texts(*["!"] * 800)) is TimeoutReason.REPETITION
    assert watch(REPETITION, *texts(*["\n"] * 800)) is TimeoutReason.REPETITION


def test_a_sentence_before_each_tool_call_is_no_repetition() -> None:
    events = [
        event
        for number in range(20)
        for event in (TextDelta("Let me look at the next file."), started(str(number)))
    ]

    assert watch(REPETITION, *events) is None


def test_a_sentence_too_long_for_the_window_is_left_to_the_other_limits() -> None:
    limits = TaskLimits(repetition_threshold=8, repetition_window=100)

    assert watch(limits, *texts(*("A long sentence that is said again. " * 20).split(" "))) is None


@pytest.mark.parametrize("reason", TimeoutReason)
def test_every_reason_is_a_sentence(reason: TimeoutReason) -> None:
    text = describe_timeout(reason, AGENT_LIMITS, start_activity(0))

    assert "end" in text
    assert "None" not in text
