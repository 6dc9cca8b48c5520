"""What runs the background tasks of a session."""

from clew.core.tasks import TaskKind
from clew.runtime.protocol import TaskRunner
from clew.sdk.agent_runner import AgentRunner
from clew.sdk.agent_setup import AgentSetup
from clew.sdk.options import InteractiveOptions


def make_runners(setup: AgentSetup, options: InteractiveOptions) -> list[TaskRunner]:
    """Return the runners, one for each kind of tasks; those of the caller count first."""
    make = options.get("subagent_runner_factory", AgentRunner)
    runners: dict[TaskKind, TaskRunner] = {TaskKind.AGENT: make(setup)}
    runners |= {runner.kind: runner for runner in options.get("background_task_runners", ())}
    return list(runners.values())
