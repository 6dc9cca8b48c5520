"""Run tasks with `isolation: worktree` in git worktrees of their own.

A worktree without changes is removed at the end. One with commits or uncommitted changes is kept,
however the task ended, and the result says where it is. A durable task that continues elsewhere
leaves its worktree as it is.
"""

import shlex
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import anyio
from msgspec.structs import replace

from clew.core.errors import BackgroundTaskError, ClewError
from clew.core.events import Event, Warned
from clew.core.tasks import LogPage, TaskErrorCategory, TaskKind
from clew.core.text import pluralize
from clew.hooks.protocol import HookEvent, HookInput, Hooks, HookVerdict, NoHooks
from clew.runtime.protocol import (
    LOG_PAGE_LINES,
    RunningTask,
    TaskFacts,
    TaskRequest,
    TaskResult,
    TaskRunner,
)
from clew.runtime.worktree_records import Worktree
from clew.runtime.worktree_status import WorktreeStatus
from clew.runtime.worktrees import GitWorktrees

Prepare: TypeAlias = Callable[[str, TaskRequest], Awaitable[Worktree]]
"""Makes or finds the worktree of a task."""
_FINISH = 300.0
"""Seconds to inspect and remove a worktree, hooks included; then it is kept."""
_MAX_IGNORED = 5


class WorktreeRunner:
    """Runs the tasks of another runner, those with isolation in worktrees.

    Args:
        inner: Does the work. It gets the folder in the worktree as `request.cwd`.
        worktrees: Makes and removes the worktrees.
        hooks: Get WorktreeCreate when a worktree was made, and WorktreeRemove when it was
            removed. A hook that blocks the first ends the task; one that prints the path of a
            folder has made a worktree itself, which is used instead.
        prepare: Makes or finds the worktree of a task; by default `worktrees.prepare`.
    """

    def __init__(
        self,
        inner: TaskRunner,
        worktrees: GitWorktrees,
        hooks: Hooks | None = None,
        *,
        prepare: Prepare | None = None,
    ) -> None:
        self._inner = inner
        self._worktrees = worktrees
        self._hooks = hooks or NoHooks()
        self._prepare = prepare or worktrees.prepare

    @property
    def kind(self) -> TaskKind:
        """The kind of tasks that it runs."""
        return self._inner.kind

    async def run(self, task: RunningTask) -> TaskResult:
        """Run a task; see `TaskRunner.run`."""
        if task.request.isolation != "worktree":
            return await self._inner.run(task)
        known = self._worktrees.records.find(task.task_id)
        worktree = await self._prepare(task.task_id, task.request)
        try:
            if known is None or known.path != worktree.path:
                worktree = await self._announce(task, worktree)
            _describe_place(task, worktree)
            result = await self._inner.run(_PlacedTask(task, worktree))
        except ClewError as error:
            if task.is_left:
                self._worktrees.release(worktree)
                raise
            _, report = await self._finish(task, worktree)
            # The class of the error stays, because it tells what kind of failure it is.
            error.args = (f"{error}\n{report}", *error.args[1:])
            raise
        except BaseException:
            if task.is_left:
                self._worktrees.release(worktree)
                raise
            status, report = await self._finish(task, worktree)
            if not status.is_clean:
                task.report(Warned(report))
            raise
        status, report = await self._finish(task, worktree)
        kept = not status.is_clean
        return replace(
            result,
            text=f"{result.text}\n\n[{report}]".lstrip(),
            worktree_path=worktree.path if kept else "",
            branch_name=worktree.branch if kept else "",
        )

    async def send(self, task_id: str, text: str) -> None:
        """Pass a message to a running task."""
        await self._inner.send(task_id, text)

    async def read_log(
        self, task_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES
    ) -> LogPage:
        """Return a page of the log of a task."""
        return await self._inner.read_log(task_id, offset=offset, limit=limit)

    async def _announce(self, task: RunningTask, worktree: Worktree) -> Worktree:
        """Fire WorktreeCreate; returns the worktree to use."""
        verdict = await self._fire(HookEvent.WORKTREE_CREATE, task, worktree)
        if why := verdict.stop or verdict.block:
            raise BackgroundTaskError(
                f"a WorktreeCreate hook refused the worktree: {why}",
                category=TaskErrorCategory.PERMISSION,
            )
        if verdict.worktree_path and verdict.worktree_path != worktree.path:
            worktree = await self._replace(task, worktree, Path(verdict.worktree_path))
        task.describe(
            TaskFacts(cwd=worktree.folder, worktree_path=worktree.path, branch_name=worktree.branch)
        )
        return worktree

    async def _replace(self, task: RunningTask, worktree: Worktree, made: Path) -> Worktree:
        """Use the worktree that a hook made, if it is one and ours has no work in it yet."""
        if not _is_folder(made):
            why = "is not the absolute path of a folder"
        elif not (await self._worktrees.inspect(worktree)).is_clean:
            why = f"is not used, because {worktree.path} has work in it already"
        else:
            return await self._worktrees.adopt(worktree, made)
        task.report(Warned(f"WorktreeCreate hook: {made} {why}"))
        return worktree

    async def _finish(self, task: RunningTask, worktree: Worktree) -> tuple[WorktreeStatus, str]:
        """Remove the worktree if it is clean; returns what it had, and a report of it."""
        status = WorktreeStatus(problem="it was not inspected in time")
        with anyio.move_on_after(_FINISH, shield=True):
            status = await self._remove(task, worktree)
        # To continue, the task starts from its session's folder: the user may delete a worktree.
        task.describe(TaskFacts(cwd=worktree.parent))
        if status.is_clean:
            task.describe(TaskFacts(worktree_path="", branch_name=""))
        else:
            self._worktrees.release(worktree)
        return status, " ".join(_report(worktree, status))

    async def _remove(self, task: RunningTask, worktree: Worktree) -> WorktreeStatus:
        status = await self._worktrees.inspect(worktree)
        if status.is_clean and worktree.is_foreign:
            await self._fire(HookEvent.WORKTREE_REMOVE, task, worktree)
        elif status.is_clean:
            try:
                await self._worktrees.remove(worktree)
            except BackgroundTaskError as error:
                return replace(status, problem=str(error))
            await self._fire(HookEvent.WORKTREE_REMOVE, task, worktree)
        return status

    async def _fire(self, event: HookEvent, task: RunningTask, worktree: Worktree) -> HookVerdict:
        request = task.request
        if not request.fires_hooks:
            return HookVerdict()
        payload = HookInput(
            session_id=request.session_id,
            cwd=request.cwd,
            agent_id=task.task_id,
            agent_type=request.agent,
            name=worktree.name,
            worktree_path=worktree.path,
        )
        verdict = await self._hooks.fire(event, payload)
        for text in (*verdict.messages, *verdict.reports):
            task.report(Warned(f"{event} hook: {text}"))
        return verdict


class _PlacedTask:
    """A task as its runner sees it: in the worktree, with a note about that."""

    def __init__(self, inner: RunningTask, worktree: Worktree) -> None:
        self._inner = inner
        note = " ".join(_brief(worktree))
        prompt = f"{inner.request.prompt}\n\n[{note}]"
        self._request = replace(inner.request, cwd=worktree.folder, prompt=prompt)

    @property
    def task_id(self) -> str:
        """The id of the task."""
        return self._inner.task_id

    @property
    def request(self) -> TaskRequest:
        """What to run, in the worktree."""
        return self._request

    @property
    def is_left(self) -> bool:
        """True when this process stops following the task."""
        return self._inner.is_left

    def report(self, event: Event) -> None:
        """Publish an event of the task."""
        self._inner.report(event)

    def describe(self, facts: TaskFacts) -> None:
        """Set facts of the task's state."""
        self._inner.describe(facts)


def _describe_place(task: RunningTask, worktree: Worktree) -> None:
    place = TaskFacts(cwd=worktree.folder, worktree_path=worktree.path, branch_name=worktree.branch)
    task.describe(place)


def _brief(worktree: Worktree) -> Iterator[str]:
    """Yield what a task must know about the worktree in which it starts."""
    branch = f" on the branch {worktree.branch}" if worktree.branch else ""
    yield f"You work in a git worktree of your own: {worktree.folder}{branch}."
    yield "Change files only there."
    yield "Commits and uncommitted changes are kept; files that git ignores are not."
    yield from _describe_start(worktree)
    if Path(worktree.path, ".gitmodules").is_file():
        yield "Submodules are not checked out; `git submodule update --init` does that."
    if _has_filters(Path(worktree.path)):
        yield (
            "Files under a git filter, such as those of Git LFS, have the content that the"
            " repository stores; `git lfs pull` gets the real content."
        )


def _report(worktree: Worktree, status: WorktreeStatus) -> Iterator[str]:
    """Yield what became of a worktree, and what the user can do with it."""
    if status.is_clean:
        yield "The git worktree of the task had no changes and was removed."
        if status.ignored:
            names = ", ".join(status.ignored[:_MAX_IGNORED])
            more = len(status.ignored) - _MAX_IGNORED
            rest = f" and {more} more" if more > 0 else ""
            yield f"Files that git ignores were removed with it: {names}{rest}."
        yield from _describe_start(worktree)
        return
    path, branch = shlex.quote(worktree.path), shlex.quote(worktree.branch)
    where = f"{worktree.path}, branch {worktree.branch}" if worktree.branch else worktree.path
    yield f"The work of the task is in the git worktree {where}: {status.describe()}."
    yield from _describe_start(worktree)
    yield f"To look at it: git -C {path} status."
    if status.changes:
        yield f"To commit the changes: git -C {path} add -A && git -C {path} commit."
    if worktree.branch:
        yield f"To merge commits: git merge {branch}."
        yield (
            f"To delete it with all work in it: git worktree remove --force {path}"
            f" && git branch -D {branch}."
        )


def _describe_start(worktree: Worktree) -> Iterator[str]:
    if worktree.parent_changes:
        changes = pluralize(worktree.parent_changes, "uncommitted change")
        yield f"It started from commit {worktree.base[:12]}, without the {changes} in"
        yield f"{worktree.parent}."


def _is_folder(path: Path) -> bool:
    return path.is_absolute() and path.is_dir()


def _has_filters(top: Path) -> bool:
    try:
        return b"filter=" in (top / ".gitattributes").read_bytes()
    except OSError:
        return False
