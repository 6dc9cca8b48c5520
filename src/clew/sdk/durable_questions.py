"""The questions of a durable agent: rows that any process can answer."""

from collections.abc import Callable

import anyio
import msgspec

from clew.core.errors import SessionBusy
from clew.core.events import PermissionRequest, PermissionResolved
from clew.core.permissions import Access, Approval, Decision, PermissionAnswer
from clew.core.text import make_encodable
from clew.runtime.claimed_task import ClaimedTask, StopCause
from clew.sdk.permission_requests import make_request
from clew.stores.task_protocol import TaskStore

_POLL = 0.25


class TaskQuestions:
    """Asks the questions of a task, one at a time; its `ask` is the handler of a gate.

    Without an answer in time, the task is parked: it leaves its worker, and costs nothing but
    rows. The answer starts it again, the call comes to the same question, and finds the answer.

    Args:
        task: The task.
        tasks: Where the questions and answers are.
        is_only_waiting: Returns True if nothing runs but this many calls that ask.
        park_after: Seconds to wait for an answer.
    """

    def __init__(
        self,
        task: ClaimedTask,
        tasks: TaskStore,
        is_only_waiting: Callable[[int], bool],
        *,
        park_after: float,
    ) -> None:
        self._task = task
        self._tasks = tasks
        self._is_only_waiting = is_only_waiting
        self._park_after = park_after
        self._turn = anyio.Lock()
        self._asked = 0

    async def ask(self, access: Access, decision: Decision) -> PermissionAnswer:
        """Store a question and wait for the answer."""
        self._asked += 1
        try:
            async with self._turn:
                return await self._ask(access, decision)
        finally:
            self._asked -= 1

    async def _ask(self, access: Access, decision: Decision) -> PermissionAnswer:
        task_id, epoch = self._task.task_id, self._task.row.epoch
        row = await self._tasks.task(task_id)
        if row is None:
            raise SessionBusy(f"the task {task_id} was deleted")
        request = make_request(access, decision)
        if row.question is not None and _is_same(row.question, request):
            request = row.question
        else:
            await self._tasks.ask(task_id, request, epoch=epoch)
        self._task.report(request)
        await self._task.save()
        answer = await self._wait(request.request_id)
        await self._tasks.ask(task_id, None, epoch=epoch)
        is_approved = answer.approval is not Approval.NO
        self._task.report(PermissionResolved(request_id=request.request_id, approved=is_approved))
        return answer

    async def _wait(self, request_id: str) -> PermissionAnswer:
        deadline = anyio.current_time() + self._park_after
        while True:
            row = await self._tasks.task(self._task.task_id)
            asked = row.question if row is not None else None
            if row is not None and row.answer and asked and asked.request_id == request_id:
                return row.answer
            if anyio.current_time() >= deadline and self._is_only_waiting(self._asked):
                self._task.stop(StopCause.PARKED)
            await anyio.sleep(_POLL)


def _is_same(asked: PermissionRequest, request: PermissionRequest) -> bool:
    """Return True for the same question: a call can ask several, and its arguments can change."""
    return _key(asked) == _key(request)


def _key(request: PermissionRequest) -> bytes:
    shown = [request.call_id, request.tool_name, request.target, request.reason, request.arguments]
    return msgspec.json.encode(make_encodable(shown), order="sorted")
