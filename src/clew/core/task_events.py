"""Events of background tasks and job groups; part of the union in `clew.core.events`."""

from enum import StrEnum

from msgspec import Struct

from clew.core.tasks import JobGroupState, TaskState


class TaskStage(StrEnum):
    """What happened to a background task."""

    CREATED = "created"
    """It was accepted, and may have to wait for others."""
    STARTED = "started"
    UPDATED = "updated"
    """Its action, context state, cost or last line changed; published at most twice per second."""
    WAITING = "waiting_permission"
    """It asks for permission; `permission_request` with its `task_id` has the question."""
    RESUMED = "resumed"
    """The question was answered."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CLOSED = "closed"
    """It was removed from the list."""


class BackgroundTaskEvent(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="event",
    tag="background_task_event",
):
    """A subagent or another background task changed.

    What a task itself reports (`text_delta`, `tool_start`, `context_update` …) follows in
    envelopes with its `task_id`.
    """

    task_id: str
    agent: str
    """The name of the agent; empty for a process."""
    stage: TaskStage
    text: str = ""
    """The task when it is created or started, the answer when it completes, the reason when it
    fails."""
    transcript_path: str = ""
    state: TaskState | None = None
    """The whole task; None from a source that keeps no state."""


class JobGroupStage(StrEnum):
    """What happened to a job group."""

    CREATED = "created"
    UPDATED = "updated"
    """One of its tasks has ended."""
    COMPLETED = "completed"


class BackgroundJobGroupEvent(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="background_job_group_event"
):
    """A job group changed."""

    group_id: str
    stage: JobGroupStage
    state: JobGroupState
