"""Watchdogs: when is a task to be ended because it hangs, runs away or repeats itself?

Pure: the caller passes the time in. Only working time counts: the clocks stand still while a
question to the user is open.
"""

import re
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from clew.core.events import (
    Event,
    PermissionRequest,
    PermissionResolved,
    ReasoningDelta,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from clew.core.tasks import TaskState, TimeoutReason
from clew.runtime.protocol import TaskLimits

_SHORTEST_SENTENCE = 12
_KEPT = 4_000
"""Characters of the newest text that are kept: for the preview and for a partial result."""
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？\n]")
_WORD = re.compile(r"[^\W_]")


class Activity(Struct, frozen=True, kw_only=True):
    """What was observed of a task. Times are seconds of work, unless they say otherwise."""

    working_since: float | None
    """The time of the clock since which it works; None while a question is open."""
    worked: float = 0.0
    """Seconds of work before `working_since`."""
    active_at: float = 0.0
    """When it last reported anything."""
    output_bytes: int = 0
    text_deltas: int = 0
    recent: str = ""
    """The newest text of the task."""
    unbroken: str = ""
    """The newest text and reasoning since the last tool call, up to the window for repetition."""
    delta: str = ""
    """The last delta, normalized."""
    repeated_deltas: int = 0
    """How often it came in a row."""
    repeated_chars: int = 0
    """How many characters these are."""
    calls: frozenset[str] = frozenset()
    """Tool calls that run."""
    questions: frozenset[str] = frozenset()
    """Questions that are open."""

    def time_worked(self, now: float) -> float:
        """Return the seconds of work until now."""
        running = 0.0 if self.working_since is None else now - self.working_since
        return self.worked + max(0.0, running)


def start_activity(now: float, before: TaskState | None = None) -> Activity:
    """Return the activity of a task that starts now, or continues in this process.

    Args:
        now: The time.
        before: The state that another process left; what it has worked and written counts.
    """
    if before is None:
        return Activity(working_since=now)
    return Activity(
        working_since=now,
        worked=before.worked_seconds,
        active_at=before.worked_seconds,
        output_bytes=before.output_bytes,
        text_deltas=before.text_deltas,
    )


def observe(activity: Activity, event: Event, *, now: float, limits: TaskLimits) -> Activity:
    """Return the activity after an event."""
    activity = replace(activity, active_at=activity.time_worked(now))
    match event:
        case TextDelta(text=text):
            counted = replace(
                activity,
                output_bytes=activity.output_bytes + len(text.encode(errors="replace")),
                text_deltas=activity.text_deltas + 1,
                recent=(activity.recent + text)[-_KEPT:],
            )
            return _add_text(counted, text, limits.repetition_window)
        case ReasoningDelta(text=text):
            return _add_text(activity, text, limits.repetition_window)
        case ToolStarted(call_id=call_id):
            # A tool call is progress: what the model says before each call may be the same.
            return replace(_forget_text(activity), calls=activity.calls | {call_id})
        case ToolEnded(call_id=call_id):
            return replace(activity, calls=activity.calls - {call_id})
        case PermissionRequest(request_id=request_id):
            return _set_questions(activity, activity.questions | {request_id}, now)
        case PermissionResolved(request_id=request_id):
            return _set_questions(activity, activity.questions - {request_id}, now)
        case _:
            return activity


def find_timeout(limits: TaskLimits, activity: Activity, *, now: float) -> TimeoutReason | None:
    """Return the limit that a task has reached, if any."""
    if _is_above(activity.output_bytes, limits.output_limit_bytes):
        return TimeoutReason.OUTPUT_LIMIT
    if _is_above(activity.text_deltas, limits.max_text_deltas):
        return TimeoutReason.TEXT_DELTAS
    if _is_repeating(limits, activity):
        return TimeoutReason.REPETITION
    worked, idle = activity.time_worked(now), _idle_limit(limits, activity)
    if idle is not None and worked - activity.active_at >= idle:
        return TimeoutReason.IDLE
    if limits.max_runtime is not None and worked >= limits.max_runtime:
        return TimeoutReason.MAX_RUNTIME
    return None


def find_time_left(limits: TaskLimits, activity: Activity, *, now: float) -> float | None:
    """Return the seconds of work until a clock can run out; None without such a limit.

    Nothing can run out earlier, so the caller may look again after that time.
    """
    worked, left = activity.time_worked(now), []
    if (idle := _idle_limit(limits, activity)) is not None:
        left.append(activity.active_at + idle - worked)
    if limits.max_runtime is not None:
        left.append(limits.max_runtime - worked)
    return min(left, default=None)


def describe_timeout(reason: TimeoutReason, limits: TaskLimits, activity: Activity) -> str:
    """Return why a task was ended, as a sentence for people and models."""
    match reason:
        case TimeoutReason.IDLE:
            return f"ended: no activity for {_idle_limit(limits, activity) or 0:g} seconds"
        case TimeoutReason.MAX_RUNTIME:
            return f"ended: it ran for {limits.max_runtime or 0:g} seconds"
        case TimeoutReason.OUTPUT_LIMIT:
            return f"ended: it wrote more than {limits.output_limit_bytes or 0:,} bytes"
        case TimeoutReason.TEXT_DELTAS:
            return f"ended: it wrote more than {limits.max_text_deltas or 0:,} pieces of text"
        case TimeoutReason.REPETITION:
            return f"ended: it repeated the same text {limits.repetition_threshold or 0} times"
        case TimeoutReason.STALE_WORKER:
            return "the process that ran it ended"


def _idle_limit(limits: TaskLimits, activity: Activity) -> float | None:
    if limits.idle_timeout is None or not activity.calls:
        return limits.idle_timeout
    return max(limits.idle_timeout, limits.tool_idle_timeout or 0.0)


def _is_above(count: int, limit: int | None) -> bool:
    return limit is not None and count > limit


def _is_repeating(limits: TaskLimits, activity: Activity) -> bool:
    threshold = limits.repetition_threshold
    if threshold is None:
        return False
    if activity.repeated_deltas >= threshold and (
        _WORD.search(activity.delta) or activity.repeated_chars >= limits.repetition_window
    ):
        # Rulers, tables and blank lines repeat by nature: they have to fill the window.
        return True
    return _count_repeated_sentences(activity.unbroken) >= threshold


def _count_repeated_sentences(text: str) -> int:
    *sentences, _ = _SENTENCE_END.split(text)
    normal = (_normalize(sentence) for sentence in sentences)
    runs = groupby(sentence for sentence in normal if sentence)
    return max(
        (
            sum(1 for _ in run)
            for sentence, run in runs
            if len(sentence) >= _SHORTEST_SENTENCE and _WORD.search(sentence)
        ),
        default=0,
    )


def _add_text(activity: Activity, text: str, window: int) -> Activity:
    normal = _normalize(text)
    is_same = normal == activity.delta and activity.repeated_deltas > 0
    return replace(
        activity,
        unbroken=(activity.unbroken + text)[-window:],
        delta=normal,
        repeated_deltas=activity.repeated_deltas + 1 if is_same else 1,
        repeated_chars=activity.repeated_chars + len(text) if is_same else len(text),
    )


def _forget_text(activity: Activity) -> Activity:
    return replace(activity, unbroken="", delta="", repeated_deltas=0, repeated_chars=0)


def _set_questions(activity: Activity, questions: frozenset[str], now: float) -> Activity:
    """Stop the clocks with the first open question, and start them again without one."""
    if questions and not activity.questions:
        return replace(
            activity, questions=questions, worked=activity.time_worked(now), working_since=None
        )
    if activity.questions and not questions:
        return replace(activity, questions=questions, working_since=now)
    return replace(activity, questions=questions)


def _normalize(text: str) -> str:
    return " ".join(text.split()).casefold()
