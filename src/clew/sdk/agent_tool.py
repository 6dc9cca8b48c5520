"""`Agent`: the tool with which a model hands a task to an agent."""

from collections.abc import Mapping
from typing import Any

from clew.core.access import Access, Risk
from clew.core.errors import AbortError, ClewError
from clew.core.models import ToolSpec
from clew.extensions.agent_definitions import AgentDefinition
from clew.sdk.subagents import GENERAL_PURPOSE, AgentRequest, AgentRuntime
from clew.tools.protocol import ToolContext, ToolOutput

AGENT = "Agent"
_DESCRIPTION = """\
Hand a task to an agent. It works in a conversation of its own, with its own window, and sees \
nothing of this one: put all it must know into the prompt. Its last words come back as the \
result; tell the user what matters of them. When the user asks for an agent, call this tool at \
once. One call is one agent."""


class AgentTool:
    """Runs one agent and waits for it."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self.spec = _spec(runtime.definitions)
        self.max_output_chars: int | None = None

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """Starting an agent touches nothing; each of its own calls is judged by itself."""
        kind = arguments.get("subagent_type")
        return Access(tool=AGENT, risk=Risk.INSPECT, target=str(kind or GENERAL_PURPOSE))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:  # noqa: ARG002
        """Run the agent; its failure is a result that the model reads."""
        problem = _problem(arguments)
        if problem:
            return ToolOutput(text=problem, failed=True)
        task = AgentRequest(
            prompt=arguments["prompt"],
            agent=arguments.get("subagent_type") or GENERAL_PURPOSE,
            model=arguments.get("model") or "",
        )
        try:
            result = await self._runtime.run(task)
        except AbortError:
            return ToolOutput(text="the agent was aborted", failed=True)
        except ClewError as error:
            return ToolOutput(text=f"the agent failed: {error}", failed=True)
        return ToolOutput(
            text=result.text or "[the agent said nothing]",
            data={"agent_id": result.agent_id, "transcript": str(result.transcript or "")},
        )


def _problem(arguments: Mapping[str, Any]) -> str:
    if arguments.get("jobs"):
        return "several jobs in one call are not supported here; make one call for each"
    if arguments.get("isolation") not in (None, "", "none"):
        return "worktree isolation is not supported here; leave `isolation` out"
    prompt = arguments.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        return "say in `prompt` what the agent shall do"
    for name in ("subagent_type", "model"):
        if not isinstance(arguments.get(name) or "", str):
            return f"`{name}` must be a text"
    return ""


def _spec(definitions: Mapping[str, AgentDefinition]) -> ToolSpec:
    return ToolSpec(
        name=AGENT,
        description=_DESCRIPTION,
        schema={
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "The whole task."},
                "subagent_type": {
                    "type": "string",
                    "enum": sorted(definitions),
                    "description": f"Which agent; {GENERAL_PURPOSE} unless given.",
                },
                "model": {
                    "type": "string",
                    "description": "Another model than the agent's own.",
                },
            },
            "required": ["prompt"],
        },
    )
