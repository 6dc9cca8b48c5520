"""What runs the background tasks of a session."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import to_builtins
from msgspec.structs import replace

from clew.core.tasks import TaskKind
from clew.runtime.process_tool import BackgroundProcessTool
from clew.runtime.protocol import TaskRunner
from clew.sdk.agent_setup import AgentSetup
from clew.sdk.command_host import SessionCommandHost
from clew.sdk.permissions import drop_denied
from clew.sdk.project_scan import ProjectScan
from clew.sdk.session_parts import Blueprint, offers_processes, select_agent_tools
from clew.sdk.session_tasks import SessionTasks
from clew.stores.record import AGENT_KIND
from clew.tools.protocol import Tool
from clew.tools.sandbox import Sandbox

if TYPE_CHECKING:
    from clew.runtime.manager import BackgroundTaskManager
    from clew.sdk.roster_writer import RosterWriter


def make_tasks(
    blueprint: Blueprint,
    commands: SessionCommandHost,
    setup: AgentSetup,
    *,
    sandbox: Callable[[], Sandbox],
) -> SessionTasks:
    """Return the background tasks of a session; their runners are made when the first is needed.

    Args:
        blueprint: What the session is built from.
        commands: Knows the session once it is built.
        setup: What subagents are made from.
        sandbox: Returns the sandbox for commands.
    """
    tasks = SessionTasks(
        lambda: commands.session,
        bus=blueprint.bus,
        host=blueprint.host,
        make_runners=lambda: [
            *make_runners(setup, blueprint),
            *_make_process_runner(blueprint, commands, sandbox),
        ],
        max_concurrent=blueprint.options.get("max_background_tasks"),
    )
    tasks.agent_limits = blueprint.options.get("agent_limits")
    tasks.make_roster = partial(_make_roster_writer, blueprint, setup)
    tasks.make_durable = lambda: make_durable_runner(setup, blueprint)
    return tasks


def _make_roster_writer(
    blueprint: Blueprint, setup: AgentSetup, manager: "BackgroundTaskManager"
) -> "RosterWriter | None":
    """Return what lists the tasks for other processes; None if the store keeps no tasks."""
    from clew.sdk.roster_writer import RosterWriter  # noqa: PLC0415 - see below

    rows = getattr(setup.store, "tasks", None)
    if rows is None:
        return None
    return RosterWriter(
        rows, host=blueprint.host, control=manager, answer=blueprint.requests.answer
    )


def make_durable_runner(setup: AgentSetup, blueprint: Blueprint) -> TaskRunner | None:
    """Return what follows durable agents; None where the session cannot have any.

    They need a session that was launched from a spec, a store that keeps tasks, and the engine.
    """
    from clew.runtime.durable_runner import DurableRunner  # noqa: PLC0415 - see below
    from clew.runtime.durable_tasks import DurableTasks  # noqa: PLC0415
    from clew.sdk.durable_costs import DurableCosts  # noqa: PLC0415
    from clew.sdk.durable_store import (  # noqa: PLC0415
        QueueOfStore,
        is_durable_installed,
    )

    spec, address = blueprint.options.get("spec"), blueprint.options.get("store_address")
    tasks = getattr(setup.store, "tasks", None)
    if spec is None or not address or tasks is None or not is_durable_installed():
        return None
    queue = QueueOfStore(tasks, address)
    blueprint.host.add(queue)

    def describe() -> Mapping[str, Any]:
        left = setup.session.state.budget_left if setup.session is not None else spec.budget_usd
        now = replace(spec, permission_mode=str(setup.gate.mode), budget_usd=left)
        return cast("Mapping[str, Any]", to_builtins(now))

    return DurableRunner(
        DurableTasks(tasks, queue), setup.store, session=describe, costs=DurableCosts(setup)
    )


def make_runners(setup: AgentSetup, blueprint: Blueprint) -> list[TaskRunner]:
    """Return the runners, one for each kind of tasks; those of the caller count first.

    Agents run in this process unless `subagent_runner_factory` says otherwise, and in git worktrees
    where their requests ask for that.
    """
    # Most sessions run nothing in the background.
    from clew.runtime.worktree_runner import WorktreeRunner  # noqa: PLC0415
    from clew.runtime.worktrees import GitWorktrees  # noqa: PLC0415

    options = blueprint.options
    make = options.get("subagent_runner_factory") or _find_factory(blueprint)
    worktrees = GitWorktrees(blueprint.homes.project(blueprint.cwd) / "worktrees")
    agents: TaskRunner = WorktreeRunner(make(setup), worktrees, setup.hooks)
    given = {runner.kind: runner for runner in options.get("background_task_runners", ())}
    return list(({TaskKind.AGENT: agents} | given).values())


def _find_factory(blueprint: Blueprint) -> Callable[[AgentSetup], TaskRunner]:
    """Return what makes the runner of agents: for this process, or for processes of their own."""
    from clew.sdk.agent_runner import AgentRunner  # noqa: PLC0415 - see above

    spec = blueprint.options.get("spec")
    if spec is None or not spec.agent_processes:
        return AgentRunner
    from clew.sdk.agent_process_runner import ProcessAgentRunner  # noqa: PLC0415

    own = replace(spec, store=blueprint.options.get("store_address", ""), agent_processes=False)
    return lambda setup: ProcessAgentRunner(setup, own, blueprint.environ)


def _make_process_runner(
    blueprint: Blueprint, commands: SessionCommandHost, sandbox: Callable[[], Sandbox]
) -> list[TaskRunner]:
    """Return the runner for processes, unless the caller has one or the session runs none."""
    options = blueprint.options
    given = {runner.kind for runner in options.get("background_task_runners", ())}
    if TaskKind.PROCESS in given or not offers_processes(options):
        return []
    # Most sessions run nothing in the background.
    from clew.runtime.process_runner import ProcessRunner  # noqa: PLC0415

    return [
        ProcessRunner(
            blueprint.homes.project(blueprint.cwd) / "processes",
            context=lambda: commands.session.state.tool_context,
            sandbox=sandbox(),
        )
    ]


def make_process_tool(
    blueprint: Blueprint, scan: ProjectScan, commands: SessionCommandHost, tasks: SessionTasks
) -> list[Tool]:
    """Return the `BackgroundProcess` tool, if the session offers it and nothing denies it.

    A subagent has none: tasks cannot start tasks of their own.
    """
    is_agent = blueprint.options.get("kind") == AGENT_KIND
    if is_agent or not offers_processes(blueprint.options):
        return []
    tool = BackgroundProcessTool(
        lambda: tasks.manager, session_id=lambda: commands.session.session_id
    )
    return select_agent_tools(drop_denied([tool], blueprint), blueprint, scan)
