"""The system prompt that an agent works under."""

from clew.extensions.agents.definition import AgentDefinition

SUBAGENT = """\
You work for another agent, and only your last message reaches it: not your tool calls, not what \
you said on the way. Make that message a concise report. Begin with the answer or the outcome; \
then what the caller needs to go on: paths, names, lines, numbers, and what you left undone. No \
greeting, no account of your steps, no offer of further help."""

FORK_WORKER = """\
You carry out one set of instructions on behalf of another agent, and only your last message \
reaches it. Work without asking back, and answer within 500 words: the outcome first, then the \
facts the caller needs. Leave out how you got there."""


def assemble_prompt(
    definition: AgentDefinition, *, claude_md: str, agents_md: str, fork_worker: bool = False
) -> str:
    """Return the whole prompt: the agent's own, CLAUDE.md, AGENTS.md, and how to report.

    Args:
        definition: Who the agent is.
        claude_md: What the project's CLAUDE.md files say; may be empty.
        agents_md: What its AGENTS.md files say; may be empty.
        fork_worker: True for an agent that runs a skill: it answers within 500 words.
    """
    suffix = FORK_WORKER if fork_worker else SUBAGENT
    parts = (definition.system_prompt, claude_md, agents_md, suffix)
    return "\n\n".join(part.strip() for part in parts if part.strip())
