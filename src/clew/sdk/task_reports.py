"""`TaskReports`: tells the model how background tasks ended, and records that it was told.

A report waits in memory for the next message to the model. When the process ends before that, the
task is not recorded as reported, and a resumed session reports it.
"""

from collections.abc import Callable

from clew.core.entries import Body, Entry, MessageAdded, TaskChanged
from clew.core.events import EntryAdded
from clew.core.messages import Message, Role
from clew.core.tasks import TaskState
from clew.sdk.task_notices import describe_task_end, tells_of
from clew.session.event_bus import EventBus, Unsubscribe
from clew.session.session import Session


class TaskReports:
    """Adds reports of tasks that ended to the messages of a session.

    Args:
        session: The session whose model is told.
        bus: Where its entries are published.
        record: Writes an entry to its journal.
    """

    def __init__(
        self, session: Callable[[], Session], bus: EventBus, record: Callable[[Body], None]
    ) -> None:
        self._session = session
        self._bus = bus
        self._record = record
        self._untold: dict[str, tuple[TaskState, str]] = {}
        """The tasks that are not in a message yet, with their reports."""
        self._unsubscribe: Unsubscribe | None = None

    def notify(self, task: TaskState) -> None:
        """Tell the model before its next call how a task ended."""
        self._session().state.notices.append(self._expect(task))

    def remind(self, task: TaskState) -> None:
        """Tell the model with the next prompt how a task of an earlier process ended."""
        self._session().state.reminders.append(self._expect(task))

    def _expect(self, task: TaskState) -> str:
        text = describe_task_end(task)
        self._untold[task.task_id] = task, text
        if self._unsubscribe is None:
            self._unsubscribe = self._bus.on("entry", self._follow)
        return text

    def _follow(self, event: EntryAdded) -> None:
        match event.entry:
            case Entry(body=MessageAdded(message=Message(role=Role.USER) as message)):
                self._note_told(message.text)
            case _:
                return
        if not self._untold and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _note_told(self, message: str) -> None:
        state = self._session().state
        for task, text in list(self._untold.values()):
            is_waiting = text in state.notices or text in state.reminders
            if not is_waiting and tells_of(message, task):
                del self._untold[task.task_id]
                self._record(TaskChanged(state=_identify(task), reported=True))


def _identify(task: TaskState) -> TaskState:
    """Return what names a task."""
    return TaskState(
        task_id=task.task_id,
        kind=task.kind,
        label=task.label,
        status=task.status,
        session_id=task.session_id,
    )
