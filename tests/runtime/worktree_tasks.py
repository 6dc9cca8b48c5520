"""Tasks, runners and hooks for tests of worktrees."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from clew.core.events import Event
from clew.core.ids import SessionId
from clew.core.tasks import LogPage, TaskKind
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.runtime.protocol import RunningTask, TaskFacts, TaskRequest, TaskResult
from clew.runtime.worktrees import GitWorktrees
from tests.runtime.repositories import git


class Task:
    """A task as a manager would run it."""

    def __init__(self, cwd: Path, *, task_id: str = "agent-1") -> None:
        self.task_id = task_id
        self.request = TaskRequest(
            kind=TaskKind.AGENT,
            prompt="do it",
            cwd=str(cwd),
            isolation="worktree",
            session_id=SessionId("parent"),
            agent="Explore",
        )
        self.events: list[Event] = []
        self.facts: dict[str, object] = {}
        self.is_left = False

    def report(self, event: Event) -> None:
        self.events.append(event)

    def describe(self, facts: TaskFacts) -> None:
        given = {name: getattr(facts, name) for name in facts.__struct_fields__}
        self.facts |= {name: value for name, value in given.items() if value is not None}


class Worker:
    """A runner whose work is a function of the folder that it gets."""

    kind = TaskKind.AGENT

    def __init__(self, work: Callable[[Path], object]) -> None:
        self._work = work
        self.requests: list[TaskRequest] = []

    async def run(self, task: RunningTask) -> TaskResult:
        self.requests.append(task.request)
        done = self._work(Path(task.request.cwd))
        if isinstance(done, Awaitable):
            await done
        return TaskResult(text="done")

    async def send(self, task_id: str, text: str) -> None:
        raise NotImplementedError

    async def read_log(self, task_id: str, *, offset: int = 0, limit: int = 200) -> LogPage:
        return LogPage(task_id=task_id)


class Recorder:
    """Hooks that note what they get and return what they are told to."""

    def __init__(self, verdict: HookVerdict | None = None) -> None:
        self.fired: list[tuple[HookEvent, HookInput, bool]] = []
        self._verdict = verdict or HookVerdict()

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        exists = Path(str(payload.worktree_path)).exists()
        self.fired.append((event, payload, exists))
        return self._verdict if event is HookEvent.WORKTREE_CREATE else HookVerdict()


def branches(repository: Path) -> list[str]:
    return git(repository, "branch", "--format=%(refname:short)").splitlines()


def leave_nothing(repository: Path, worktrees: GitWorktrees) -> bool:
    trees = git(repository, "worktree", "list", "--porcelain").count("worktree ")
    return trees == 1 and branches(repository) == ["main"] and not list(worktrees.folder.iterdir())
