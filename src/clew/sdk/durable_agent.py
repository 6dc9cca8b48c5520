"""Runs one durable agent in a worker: opens its session, and continues it after a takeover."""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec import convert
from msgspec.structs import replace

from clew.core.entries import MessageAdded, Noted
from clew.core.errors import AbortError, BackgroundTaskError, ClewError, SessionBusy
from clew.core.events import (
    EntryAdded,
    Envelope,
    PermissionRequest,
    PermissionResolved,
)
from clew.core.ids import SessionId
from clew.core.messages import Role
from clew.core.tasks import LogPage, TaskErrorCategory, TaskKind
from clew.hooks.protocol import Hooks, NoHooks
from clew.runtime.claimed_task import ClaimedTask, StopCause
from clew.runtime.durable_runner import GENERAL_PURPOSE, format_entry, make_page
from clew.runtime.durable_tasks import find_reopening
from clew.runtime.protocol import (
    LOG_PAGE_LINES,
    RunningTask,
    TaskFacts,
    TaskRequest,
    TaskResult,
)
from clew.runtime.worktree_records import Worktree
from clew.runtime.worktree_runner import WorktreeRunner
from clew.runtime.worktree_snapshots import WorktreeSnapshots
from clew.runtime.worktrees import GitWorktrees
from clew.sdk.durable_questions import TaskQuestions
from clew.sdk.folders import Homes
from clew.sdk.launch import launch
from clew.sdk.options import InteractiveOptions
from clew.sdk.session_spec import SessionSpec
from clew.sdk.session_store import ProjectStore
from clew.sdk.worker_hooks import load_worker_hooks
from clew.session.call_records import split_open_calls
from clew.session.session import Session
from clew.stores.task_protocol import TaskMessage, TaskStore

logger = logging.getLogger(__name__)

_SNAPSHOT_SECONDS = 30.0
_TOPIC = "task_message"
"""The topic of the notes about messages that an agent has read."""


def make_session_spec(spec: SessionSpec, request: TaskRequest, task_id: str) -> SessionSpec:
    """Return the spec of an agent's session, from that of the session that asks for it."""
    options = {**spec.options, "session_id": task_id, "kind": "agent", "record_calls": True}
    if request.session_id:
        options["parent"] = request.session_id
    return replace(
        spec,
        cwd=request.cwd or spec.cwd,
        model=request.model or spec.model,
        agent=request.agent or GENERAL_PURPOSE,
        agents=False,
        resume="",
        fork="",
        latest=False,
        name="",
        store="",
        max_turns=request.max_turns if request.max_turns is not None else spec.max_turns,
        options=convert(options, dict),
    )


async def _load_hooks(request: TaskRequest, environ: Mapping[str, str]) -> Hooks:
    if request.isolation != "worktree":
        return NoHooks()
    return await to_thread.run_sync(load_worker_hooks, Path(request.cwd), environ)


class DurableAgent:
    """Runs one task as an agent, whose session has the id of the task; a `TaskRunner`.

    Args:
        task: The task, which this worker has claimed.
        tasks: Where questions, messages and snapshots are.
        place: The store of the sessions.
        environ: Environment variables.
        park_after: Seconds to wait for an answer. After that, the task leaves its worker, and the
            answer starts it again.
    """

    kind = TaskKind.AGENT

    def __init__(
        self,
        task: ClaimedTask,
        tasks: TaskStore,
        place: ProjectStore,
        *,
        environ: Mapping[str, str],
        park_after: float = 10.0,
    ) -> None:
        self._task = task
        self._tasks = tasks
        self._place = place
        self._environ = environ
        self._questions = TaskQuestions(task, tasks, self._is_only_waiting, park_after=park_after)
        self._session: Session | None = None
        self._has_results = anyio.Event()
        folder = Homes.of(environ).project(Path(task.request.cwd)) / "worktrees"
        self._worktrees = GitWorktrees(folder)
        self._snapshots = WorktreeSnapshots(self._worktrees, tasks)
        self._worktree: Worktree | None = None

    async def start(self) -> TaskResult:
        """Do the work, in a worktree of its own where the request says so.

        Raises:
            BackgroundTaskError: The agent was aborted, or its worktree cannot be made.
            ClewError: It failed as a session may.
        """
        hooks = await _load_hooks(self._task.request, self._environ)
        runner = WorktreeRunner(self, self._worktrees, hooks, prepare=self._prepare_worktree)
        return await runner.run(self._task)

    async def _prepare_worktree(self, task_id: str, request: TaskRequest) -> Worktree:
        """Return the worktree with what a worker before this one has done in it."""
        if name := self._task.row.snapshot:
            self._worktree = await self._snapshots.restore(name, task_id, request)
        else:
            self._worktree = await self._worktrees.prepare(task_id, request)
        return self._worktree

    async def run(self, task: RunningTask) -> TaskResult:
        """Do the work in `task.request.cwd`, from the beginning or from where it was left."""
        try:
            text = await self._run_session(task.request)
        except BaseException:
            if task.is_left and self._task.stop_reason is not StopCause.LOST:
                # The successor may run on another machine.
                with anyio.move_on_after(_SNAPSHOT_SECONDS, shield=True):
                    await self._save_snapshot()
            raise
        await self._save_snapshot()
        return TaskResult(text=text)

    async def _run_session(self, request: TaskRequest) -> str:
        outcome: str | ClewError = ""
        async with self._open(request) as session, anyio.create_task_group() as group:
            group.start_soon(self._save_snapshots)
            try:
                outcome = await self._converse(session, request.prompt)
            except AbortError:
                outcome = BackgroundTaskError(
                    "the agent was aborted",
                    category=TaskErrorCategory.RUNNER,
                    partial=session.runs.tracker.text,
                )
            except ClewError as error:
                outcome = error
            group.cancel_scope.cancel()
        if isinstance(outcome, ClewError):
            raise outcome
        return outcome

    @asynccontextmanager
    async def _open(self, request: TaskRequest) -> AsyncGenerator[Session, None]:
        task = self._task
        spec = convert(task.row.spec["session"], SessionSpec)
        services: InteractiveOptions = {
            "permission_handler": self._questions.ask,
            "agent_tools": request.allowed_tools or (),
            "keep_checkpoints": False,
        }
        async with launch(
            make_session_spec(spec, request, task.task_id),
            on_envelope=self._follow,
            environ=self._environ,
            place=self._place,
            services=services,
        ) as launched:
            session = self._session = launched.session.session
            task.seal = session.journal.seal
            if task.is_left:
                session.journal.seal()
            task.describe(TaskFacts(model=launched.choice.model))
            yield session

    async def _save_snapshots(self) -> None:
        """Save the worktree after each answer whose tool calls may have changed it."""
        while True:
            await self._has_results.wait()
            self._has_results = anyio.Event()
            await self._save_snapshot()

    async def _save_snapshot(self) -> None:
        worktree = self._worktree
        if worktree is None:
            return
        try:
            before = self._task.row.snapshot
            name = await self._snapshots.save(worktree, before)
            await self._task.keep_snapshot(name)
            if before not in ("", name):
                # Only the worker that has the task comes here: its successor has the new name.
                await self._tasks.delete_snapshot(before, keep=name)
        except SessionBusy:
            self._task.stop(StopCause.LOST)
        except ClewError as error:
            logger.warning("the worktree of %s was not saved: %s", self._task.task_id, error)

    async def send(self, task_id: str, text: str) -> None:
        """Send a message, which the agent reads after its turn."""
        await self._tasks.send(task_id, text)

    async def read_log(
        self, task_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES
    ) -> LogPage:
        """Return a page of what the agent has said and done."""
        _, entries = await self._place.store.load(SessionId(task_id))
        lines = [line for entry in entries for line in format_entry(entry)]
        return make_page(task_id, lines, offset=offset, limit=limit)

    async def _converse(self, session: Session, prompt: str) -> str:
        """Run the prompt and the messages that came since; returns the last answer."""
        state = read_progress(session)
        self._task.messages_read = state.messages_read
        text, unsaid = "", ""
        if find_reopening(self._task.row) > state.messages_read:
            # It was cancelled or failed since: only the message counts, with what it refers to.
            unsaid = "" if state.is_begun else f"{prompt}\n\n"
        elif state.pending:
            text = await session.run(state.pending)
        elif state.is_begun:
            text = (await session.continue_run()).response
        else:
            text = await session.run(prompt)
        while fresh := await self._read_messages():
            for message in fresh:
                said, unsaid = f"{unsaid}{message.text}", ""
                data: dict[str, object] = {"number": message.number}
                await session.journal.append(Noted(topic=_TOPIC, text=said, data=data))
                self._task.messages_read = message.number
                text = await session.run(said)
        return text

    async def _read_messages(self) -> list[TaskMessage]:
        return await self._tasks.messages(self._task.task_id, after=self._task.messages_read)

    def _is_only_waiting(self, questions: int) -> bool:
        """Return True unless a tool call runs, which parking would interrupt.

        A call may also ask in its middle. One that has begun does not run a second time.
        """
        session = self._session
        if session is None or len(session.runs.tracker.active_tools()) > questions:
            return False
        _, begun = split_open_calls(session.journal)
        return not begun

    def _follow(self, envelope: Envelope) -> None:
        """Let the state of the task follow the events of its session."""
        event = envelope.event
        if isinstance(event, EntryAdded):
            self._task.note_progress()
            body = event.entry.body
            if isinstance(body, MessageAdded) and body.message.role is Role.TOOL:
                self._has_results.set()
            if self._session is not None:
                self._task.describe(TaskFacts(cost_usd=self._session.get_cost().usd))
        elif not isinstance(event, PermissionRequest | PermissionResolved):
            self._task.report(event)


class AgentProgress:
    """What the journal says about how far an agent has come."""

    def __init__(self) -> None:
        self.is_begun = False
        """True when the prompt is in the conversation."""
        self.messages_read = 0
        self.pending = ""
        """A message that was read and is not in the conversation yet."""


def read_progress(session: Session) -> AgentProgress:
    """Return how far an agent has come."""
    found = AgentProgress()
    for entry in session.journal.entries:
        body = entry.body
        if isinstance(body, MessageAdded) and body.message.role is Role.USER:
            found.is_begun, found.pending = True, ""
        elif isinstance(body, Noted) and body.topic == _TOPIC:
            number = body.data.get("number")
            found.messages_read = number if isinstance(number, int) else found.messages_read
            found.pending = body.text
    return found
