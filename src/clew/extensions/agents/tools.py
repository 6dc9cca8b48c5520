"""Which of its caller's tools an agent gets."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from clew.extensions.agents.definition import AgentDefinition

SPAWNING = frozenset({"Agent", "Task"})
"""An agent that was handed work does not hand it on. `Task` is the older name."""


def filter_tools(
    names: Sequence[str], definition: AgentDefinition, *, allowed: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Return those of `names` that an agent may use, in their order.

    First go the tools that the definition denies; then all that it does not list, if it lists
    any; then the tool that starts agents, always; then all that `allowed` does not list.

    A list holds names, `*`, patterns such as `mcp__files__*`, or rules such as `Bash(git *)`. A
    rule counts as the tool it names, so a denied rule takes the whole tool away: an agent may
    get less than was meant, never more.

    Args:
        names: The tools of the caller.
        definition: Whose tools they become.
        allowed: What the skill lists that the agent runs; none or empty restricts nothing.
    """
    left = [name for name in names if not _listed(name, definition.disallowed_tools)]
    if definition.tools is not None:
        left = [name for name in left if _listed(name, definition.tools)]
    left = [name for name in left if name not in SPAWNING]
    if allowed:
        left = [name for name in left if _listed(name, allowed)]
    return tuple(left)


def _listed(name: str, rules: Iterable[str]) -> bool:
    return any(_covers(rule.partition("(")[0].strip(), name) for rule in rules)


def _covers(tool: str, name: str) -> bool:
    """Tell whether a tool in a list is `name`; `mcp__files` is every tool of that server."""
    server = tool.startswith("mcp__") and tool.count("__") == 1
    return fnmatchcase(name, tool) or (server and name.startswith(f"{tool}__"))
