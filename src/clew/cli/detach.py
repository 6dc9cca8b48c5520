"""`clew -p … --detach`: give a task to the workers and print its id."""

from argparse import Namespace

import anyio

from clew.cli.arguments import session_spec
from clew.cli.environment import own_environment
from clew.cli.streams import print_json, write_err, write_out
from clew.core.tasks import TaskState
from clew.sdk.detach import spawn_detached


def run_detached(arguments: Namespace, prompt: str) -> int:
    """Store the task, and print its id; returns the exit code."""

    async def spawn() -> tuple[TaskState, int]:
        return await spawn_detached(
            session_spec(arguments), prompt, environ=own_environment(arguments)
        )

    state, workers = anyio.run(spawn)
    if arguments.output_format == "text":
        write_out(f"{state.task_id}\n")
    else:
        print_json(state)
    if not workers:
        write_err("no worker is running: start one with `clew worker`")
    return 0
