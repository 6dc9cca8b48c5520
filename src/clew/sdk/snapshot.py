"""The snapshot that a client gets when it attaches, and pages of the history."""

from collections.abc import Sequence

from clew.core.entries import Entry
from clew.core.events import BackgroundTaskEvent, PermissionRequest, TaskStage
from clew.core.ids import EntryId
from clew.core.tasks import TaskState, TaskStatus
from clew.sdk.client import SessionSnapshot
from clew.sdk.prompt_queue import PromptQueue
from clew.sdk.session_parts import SessionParts
from clew.session.history import HistoryEntry, project_history, project_tail

_HISTORY_ITEMS = 50


def take_snapshot(
    parts: SessionParts, queue: PromptQueue, requests: tuple[PermissionRequest, ...]
) -> SessionSnapshot:
    """Return the state of a session now; its cost does not grow with the history."""
    session = parts.session
    entries = session.journal.entries
    return SessionSnapshot(
        session_id=session.session_id,
        name=parts.name,
        model=session.journal.view.setup.model.name,
        mode=parts.gate.mode,
        language=parts.language,
        cwd=str(parts.blueprint.cwd),
        context=session.get_context_state(),
        history=tuple(project_tail(entries, limit=_HISTORY_ITEMS)),
        executing=queue.busy,
        streaming_text=session.runs.tracker.text if session.is_running else "",
        active_tools=tuple(session.runs.tracker.active_tools()),
        permission_requests=requests,
        queue=queue.waiting,
        tasks=tuple(map(_describe_open, parts.tasks.list_open())),
        last_entry=entries[-1].id if entries else EntryId(0),
        seq=parts.blueprint.bus.seq,
        todos=session.journal.view.todos,
        effort=session.journal.view.setup.effort,
    )


def _describe_open(task: TaskState) -> BackgroundTaskEvent:
    """Return a running task as the event that a client would have seen last."""
    stages = {
        TaskStatus.QUEUED: TaskStage.CREATED,
        TaskStatus.WAITING_PERMISSION: TaskStage.WAITING,
    }
    return BackgroundTaskEvent(
        task_id=task.task_id,
        agent=task.agent,
        stage=stages.get(task.status, TaskStage.STARTED),
        text=task.prompt,
        transcript_path=task.log_path,
        state=task,
    )


def page_history(entries: Sequence[Entry], *, after: EntryId, limit: int) -> list[HistoryEntry]:
    """Return at most `limit` items after an entry, always whole entries, at least one.

    The items of one entry are never divided between two pages, so that the id of the last item
    is where the next page continues.
    """
    items = project_history(entries, after=after)
    if len(items) <= limit:
        return items
    end = limit
    while end < len(items) and _entry(items[end]) == _entry(items[end - 1]):
        end += 1
    return items[:end]


def _entry(item: HistoryEntry) -> str:
    return item.id.partition(".")[0]
