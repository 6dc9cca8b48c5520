"""What runs the background tasks of a session."""

from functools import partial
from typing import TYPE_CHECKING

from clew.core.tasks import TaskKind
from clew.runtime.protocol import TaskRunner
from clew.sdk.agent_setup import AgentSetup
from clew.sdk.command_host import SessionCommandHost
from clew.sdk.options import InteractiveOptions
from clew.sdk.session_parts import Blueprint
from clew.sdk.session_tasks import SessionTasks

if TYPE_CHECKING:
    from clew.runtime.manager import BackgroundTaskManager
    from clew.sdk.roster_writer import RosterWriter


def make_tasks(
    blueprint: Blueprint, commands: SessionCommandHost, setup: AgentSetup
) -> SessionTasks:
    """Return the background tasks of a session; their runners are made when the first is needed."""
    tasks = SessionTasks(
        lambda: commands.session,
        bus=blueprint.bus,
        host=blueprint.host,
        make_runners=lambda: make_runners(setup, blueprint.options),
        max_concurrent=blueprint.options.get("max_background_tasks"),
    )
    tasks.make_roster = partial(_make_roster_writer, blueprint, setup)
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


def make_runners(setup: AgentSetup, options: InteractiveOptions) -> list[TaskRunner]:
    """Return the runners, one for each kind of tasks; those of the caller count first."""
    # Most sessions run nothing in the background.
    from clew.sdk.agent_runner import AgentRunner  # noqa: PLC0415

    make = options.get("subagent_runner_factory", AgentRunner)
    runners: dict[TaskKind, TaskRunner] = {TaskKind.AGENT: make(setup)}
    runners |= {runner.kind: runner for runner in options.get("background_task_runners", ())}
    return list(runners.values())
