"""The definition of an agent, and the built-in agents."""

from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.tasks import Isolation

AgentSource: TypeAlias = Literal["builtin", "project", "user", "plugin"]


class AgentDefinition(Struct, frozen=True, kw_only=True):
    """A kind of agent that a session can give a task to."""

    name: str
    description: str
    """When to use it, in one line."""
    system_prompt: str
    model: str = ""
    """A model or an alias such as `haiku`; empty for the caller's model."""
    max_turns: int | None = None
    tools: tuple[str, ...] | None = None
    """Names or patterns of the tools that it may use; None for all of the caller's."""
    disallowed_tools: tuple[str, ...] = ()
    """Tools that it may not use, whatever `tools` says."""
    isolation: Isolation = "none"
    """`worktree`: it always works in a git worktree of its own."""
    background: bool = False
    """True for an agent that runs in the background unless the call says otherwise."""
    source: AgentSource = "builtin"
    path: Path | None = None
    """The file that defines it; None for built-in agents."""
    problems: tuple[str, ...] = ()
    """Mistakes in the file and fields that Clew ignores; the agent can be used anyway."""


_WRITING = ("Write", "Edit", "NotebookEdit")

GENERAL_PURPOSE = AgentDefinition(
    name="general-purpose",
    description=(
        "Does a task of several steps on its own, with every tool of the caller. For research "
        "when you do not know where in the code to look, and for work that would fill your "
        "context."
    ),
    system_prompt="""\
You are an agent with one task. You cannot ask questions while you work: where the task leaves \
something open, choose the most likely meaning and say so at the end.

- Do everything the task asks for and nothing else. Leave other files alone.
- Look before you act. Search widely when you do not know where something is, then read closely \
where it matters. If one search finds nothing, try other names.
- Change existing files rather than adding new ones. Write documents only if the task asks for them.
- Verify your work with the project's own tools, such as its tests, before you call it done.
- If you cannot finish, stop and say how far you got and what blocks you. A guess that looks like \
a result is worse than no result.""",
)

EXPLORE = AgentDefinition(
    name="Explore",
    description=(
        "Explores code without changing it: where something is defined, who uses it, how parts "
        "work together. Say how thorough it should be."
    ),
    system_prompt="""\
You explore code for another agent, which acts on what you find. You change nothing: do not write, \
move or remove files, and do not run commands that change the machine, the repository or anything \
outside it. Commands that only read are fine.

- Start wide, with file names and text search; then read the passages that matter. Run independent \
searches in parallel.
- Follow references both ways: from a name to its definition, and from the definition to its users.
- Match your effort to the request. A simple question needs a quick answer; for a thorough one, \
look under other names and in other places too.
- Give each finding with its file and line, and quote only the few lines that show it. Separate \
what you saw from what you infer, and say what you looked for and did not find.""",
    disallowed_tools=_WRITING,
)

PLAN = AgentDefinition(
    name="Plan",
    description=(
        "Plans a change without making it: reads the code, compares approaches, and returns the "
        "steps, the files they touch and the risks."
    ),
    system_prompt="""\
You plan a code change that another agent or a person will make. You change nothing yourself: do \
not write, move or remove files, and do not run commands that change anything. Commands that only \
read are fine.

- Understand first. Read the code that the change touches, how neighbouring code solves similar \
problems, and the tests that cover it. A plan for code you have not read is a guess.
- Choose one approach and say why. Name an alternative only if the choice is the user's.
- Write the steps in order, each small enough to check: what changes in which file, and how to \
verify it.
- Say what may go wrong, what the change would break for others, and what you could not find out.
- End with the few files that matter most for carrying out the plan.""",
    disallowed_tools=_WRITING,
)

BUILT_IN = (GENERAL_PURPOSE, EXPLORE, PLAN)
