"""`AgentTool`: the tool with which a model gives tasks to subagents."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from clew.core.errors import ClewError
from clew.core.models import ToolSpec
from clew.core.permissions import Access, Risk
from clew.core.tasks import TaskKind, TaskMode, TaskState, TaskStatus
from clew.extensions.agent_definitions import GENERAL_PURPOSE, AgentDefinition
from clew.runtime.protocol import TaskRequest
from clew.sdk.agents import Agents
from clew.tools.protocol import ToolContext, ToolOutput

AGENT = "Agent"
_DESCRIPTION = """\
Give a task to a subagent. It works in a conversation of its own, with its own context window, \
and sees nothing of this one: put everything it needs into the prompt. Its final text comes back \
as the result; tell the user what matters. When the user asks for an agent, call this tool at \
once. For several agents at the same time, make one call with `jobs`. With `background` you do \
not wait: you are told when an agent has ended, and can continue with other work until then. A \
background agent is controlled with the command `agent`: `read ID`, `send ID TEXT`, `stop ID`."""

_Job: TypeAlias = TaskRequest | str
"""What to run, or why it cannot be run."""


class AgentTool:
    """Runs subagents: one, several at once, in the foreground or in the background.

    Arguments that the schema does not have are ignored.
    """

    max_output_chars: int | None = None

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self.spec = _make_spec(agents.setup.definitions)

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """Starting an agent touches nothing; each of its calls is judged on its own."""
        kinds = [_name_kind(one) for one in _list_jobs(arguments)]
        return Access(
            tool=AGENT, risk=Risk.INSPECT, target=kinds[0], further=tuple(dict.fromkeys(kinds[1:]))
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:  # noqa: ARG002
        """Run the agents; a failure is a result that the model reads."""
        jobs = [self._read_job(one) for one in _list_jobs(arguments)]
        is_background = self._choose_background(arguments, jobs)
        if arguments.get("jobs"):
            return await self._run_batch(jobs, is_background=is_background)
        (job,) = jobs
        if isinstance(job, str):
            return ToolOutput(text=job, failed=True)
        try:
            if is_background:
                return _describe_start(await self._agents.start(job))
            state = await self._agents.run(job)
        except ClewError as error:
            return ToolOutput(text=f"the agent could not be started: {error}", failed=True)
        failed = state.status is not TaskStatus.COMPLETED
        return ToolOutput(text=describe_end(state), failed=failed, data=_make_data(state))

    async def _run_batch(self, jobs: Sequence[_Job], *, is_background: bool) -> ToolOutput:
        """Start all valid jobs before waiting for any; each job has a result of its own."""
        valid = [job for job in jobs if isinstance(job, TaskRequest)]
        mode: TaskMode = "background" if is_background else "foreground"
        try:
            group_id, states = await self._agents.start_all(valid, mode=mode)
        except ClewError as error:
            return ToolOutput(text=f"no agent was started: {error}", failed=True)
        if not is_background:
            states = await self._agents.wait_all(states)
        ended = iter(states)
        results = [job if isinstance(job, str) else next(ended) for job in jobs]
        parts = [_describe_job(number, one) for number, one in enumerate(results, start=1)]
        if is_background and states:
            parts.append(_HOW_TO_FOLLOW.format(id="ID"))
        return ToolOutput(
            text="\n\n".join([f"Group {group_id}", *parts] if states else parts),
            failed=not valid or (not is_background and not any(map(_is_completed, states))),
            data={
                "group_id": group_id,
                "agent_ids": [state.task_id for state in states],
                "background": is_background,
                "results": [
                    {"status": "failed", "error": one} if isinstance(one, str) else _make_data(one)
                    for one in results
                ],
            },
        )

    def _choose_background(self, arguments: Mapping[str, Any], jobs: Sequence[_Job]) -> bool:
        """Return what the call says, or else what the definitions of all its agents say."""
        if (given := arguments.get("background")) is not None:
            return _is_true(given)
        valid = [job for job in jobs if isinstance(job, TaskRequest)]
        chosen = [self._agents.find_definition(job.agent).background for job in valid]
        return bool(chosen) and all(chosen)

    def _read_job(self, arguments: object) -> _Job:
        """Return the request for one job, or why there is none."""
        if not isinstance(arguments, dict):
            return "a job must be an object with a `prompt`"
        prompt = arguments.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            return "`prompt` is empty: describe the task for the agent"
        for name in ("subagent_type", "model", "description"):
            if not isinstance(arguments.get(name) or "", str):
                return f"`{name}` must be a text"
        isolation = arguments.get("isolation") or "none"
        if isolation not in ("none", "worktree"):
            return "`isolation` must be `none` or `worktree`"
        request = TaskRequest(
            kind=TaskKind.AGENT,
            prompt=prompt,
            label=arguments.get("description") or "",
            agent=arguments.get("subagent_type") or "",
            model=arguments.get("model") or "",
            isolation="worktree" if isolation == "worktree" else "none",
        )
        try:
            self._agents.find_definition(request.agent)
        except ClewError as error:
            return str(error)
        return request


_HOW_TO_FOLLOW = (
    "You are told when it ends; do not wait for it. To look at its work, use the command"
    " `agent` with `read {id}`; to stop it, `stop {id}`."
)
_CONTINUE = "It can continue: use the command `agent` with `send {id} TEXT`."


def describe_end(state: TaskState) -> str:
    """Return the result of an agent for the model; of one that did not finish, why not."""
    if state.status is TaskStatus.COMPLETED:
        return state.result or "[the agent gave no answer]"
    what = "was cancelled" if state.status is TaskStatus.CANCELLED else "did not finish"
    parts = [f"The agent {state.task_id} {what}: {state.error}"]
    if state.result:
        parts.append(f"What there is of its result:\n{state.result}")
    parts.append(_CONTINUE.format(id=state.task_id))
    return "\n\n".join(parts)


def _describe_job(number: int, result: TaskState | str) -> str:
    if isinstance(result, str):
        return f"[{number}] not started: {result}"
    head = f"[{number}] {result.task_id} ({result.agent}): {result.status}"
    return f"{head}\n{describe_end(result)}" if result.status.is_terminal else head


def _describe_start(state: TaskState) -> ToolOutput:
    follow = _HOW_TO_FOLLOW.format(id=state.task_id)
    return ToolOutput(
        text=f"Started {state.task_id} ({state.agent}) in the background. {follow}",
        data={**_make_data(state), "background": True},
    )


def _make_data(state: TaskState) -> dict[str, object]:
    data: dict[str, object] = {
        "agent_id": state.task_id,
        "agent": state.agent,
        "status": str(state.status),
    }
    more = {
        "output": state.result,
        "error": state.error,
        "error_category": state.error_category and str(state.error_category),
        "worktree_path": state.worktree_path,
        "branch_name": state.branch_name,
        "transcript": state.log_path,
    }
    return data | {name: value for name, value in more.items() if value}


def _is_completed(state: TaskState) -> bool:
    return state.status is TaskStatus.COMPLETED


def _list_jobs(arguments: Mapping[str, Any]) -> list[object]:
    jobs = arguments.get("jobs")
    if not jobs:
        return [arguments]
    return list(jobs) if isinstance(jobs, list) else [jobs]


def _name_kind(job: object) -> str:
    kind = job.get("subagent_type") if isinstance(job, dict) else None
    return str(kind or GENERAL_PURPOSE.name)


def _is_true(value: object) -> bool:
    """Return whether an argument says yes; some models write it as a text."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _make_spec(definitions: Mapping[str, AgentDefinition]) -> ToolSpec:
    job: dict[str, object] = {
        "prompt": {"type": "string", "description": "The whole task."},
        "description": {"type": "string", "description": "The task in a few words, for lists."},
        "subagent_type": {
            "type": "string",
            "enum": sorted(definitions),
            "description": f"Which agent; default: {GENERAL_PURPOSE.name}.",
        },
        "model": {"type": "string", "description": "The model; default: the agent's own."},
        "isolation": {
            "type": "string",
            "enum": ["none", "worktree"],
            "description": "`worktree`: in a git worktree of its own, so that agents which change"
            " files do not disturb each other.",
        },
    }
    return ToolSpec(
        name=AGENT,
        description=_DESCRIPTION,
        schema={
            "type": "object",
            "properties": {
                **job,
                "background": {
                    "type": "boolean",
                    "description": "Return at once; you are told when the agent has ended.",
                },
                "jobs": {
                    "type": "array",
                    "description": "Several tasks that run at the same time, in place of `prompt`.",
                    "items": {"type": "object", "properties": job, "required": ["prompt"]},
                },
            },
        },
    )
