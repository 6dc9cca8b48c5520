"""`TaskEvents`: tells the clients of a session what happens to its tasks."""

import logging
from collections.abc import Callable
from typing import Protocol, TypeAlias

from clew.core.events import BackgroundTaskEvent, Event, TaskStage
from clew.core.tasks import TaskState

logger = logging.getLogger(__name__)

TaskListener: TypeAlias = Callable[[BackgroundTaskEvent], object]
Unsubscribe: TypeAlias = Callable[[], None]


class Publish(Protocol):
    """Publishes an event; `EventBus.publish` is one."""

    def __call__(self, event: Event, *, task_id: str = "") -> object:
        """Publish an event, of a task or of the session itself."""
        ...


class TaskEvents:
    """Publishes the changes of tasks, and what they report. A listener that fails is logged."""

    def __init__(self, publish: Publish | None = None) -> None:
        self._publish = publish
        self._listeners: dict[object, TaskListener] = {}

    def subscribe(self, listener: TaskListener) -> Unsubscribe:
        """Call `listener` with every change of a task until the returned function is called."""
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    def announce(self, state: TaskState, stage: TaskStage) -> None:
        """Publish a change of a task."""
        event = describe_change(state, stage)
        self.publish(event)
        for listener in tuple(self._listeners.values()):
            try:
                listener(event)
            except Exception:
                logger.exception("a listener failed on %s of %s", stage, state.task_id)

    def publish(self, event: Event, *, task_id: str = "") -> None:
        """Publish an event, of a task or of the session itself."""
        if self._publish is None:
            return
        try:
            self._publish(event, task_id=task_id)
        except Exception:
            logger.exception("publishing an event of %s failed", task_id or "a task")


def describe_change(state: TaskState, stage: TaskStage) -> BackgroundTaskEvent:
    """Return the event that tells of a change of a task."""
    match stage:
        case TaskStage.COMPLETED:
            text = state.result
        case TaskStage.FAILED | TaskStage.CANCELLED:
            text = state.error
        case TaskStage.WAITING:
            text = state.question
        case TaskStage.UPDATED:
            text = state.action or state.preview
        case _:
            text = state.prompt
    return BackgroundTaskEvent(
        task_id=state.task_id,
        agent=state.agent,
        stage=stage,
        text=text,
        transcript_path=state.log_path,
        state=state,
    )
