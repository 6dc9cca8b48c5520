"""Agents: discovery, and the prompt, the model and the tools that an agent runs with.

`discover_agents` searches these folders in order. The first definition of a name wins over the
others, and over the built-in agents:

1. `<cwd>/.clew/agents/`
2. `<cwd>/.agents/agents/`
3. `<cwd>/.claude/agents/`
4. `<clew_home>/agents/`
5. `<user_home>/.claude/agents/`

A definition is a Markdown file, in a subfolder or not: frontmatter, then the prompt. It must have
a `description`; without a `name` it is named after its file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from clew.core.text import one_line
from clew.extensions.agent_definitions import BUILT_IN, AgentDefinition, AgentSource
from clew.extensions.discovery import (
    Folder,
    ReadLimit,
    Refused,
    choose_name,
    deduplicate_by_name,
    markdown_in,
    read_whole,
    unique_folders,
)
from clew.extensions.frontmatter import Frontmatter, read_frontmatter
from clew.extensions.text_lists import format_list
from clew.providers.catalogue import families

MAX_ALL = 4_000_000
"""Characters that all agent definitions of a project may have."""

SPAWNING = frozenset({"Agent", "Task"})
"""Tools that start agents. Agents do not get them. `Task` is the older name."""

_IGNORED = (
    "permissionMode",
    "skills",
    "mcpServers",
    "hooks",
    "memory",
    "effort",
    "initialPrompt",
)
"""Fields of Claude Code that would change what an agent does, and have no effect here."""

SUBAGENT = """\
You work for another agent, and only your last message reaches it: not your tool calls, not your \
earlier messages. Make that message a concise report. Start with the answer or the outcome; then \
give what the caller needs to continue: paths, names, lines, numbers, and what you left undone. No \
greeting, no account of your steps, no offer of further help."""

FORK_WORKER = """\
You carry out one set of instructions for another agent, and only your last message reaches it. \
Work without asking questions, and answer within 500 words: the outcome first, then the facts the \
caller needs. Leave out how you got there."""


class FoundAgents(Struct, frozen=True):
    """The result of a search for agents."""

    agents: dict[str, AgentDefinition]
    """By name, built-in agents first."""
    refused: tuple[Refused, ...] = ()
    shadowed: tuple[AgentDefinition, ...] = ()
    """Agents that cannot be used, because another one has the same name; also built-in ones."""


def discover_agents(cwd: Path, *, user_home: Path, clew_home: Path) -> FoundAgents:
    """Return the agents that can be used in `cwd`."""
    limit = ReadLimit(MAX_ALL)
    places: list[tuple[Folder, AgentSource]] = [
        (Folder(cwd / name / "agents", cwd, limit), "project")
        for name in (".clew", ".agents", ".claude")
    ]
    places += [(Folder(home / "agents"), "user") for home in (clew_home, user_home / ".claude")]
    chosen, refused, shadowed = deduplicate_by_name(
        one
        for folder, source in unique_folders(places)
        for one in scan_agents(folder, source=source)
    )
    shadowed += (agent for agent in BUILT_IN if agent.name in chosen)
    agents = {agent.name: agent for agent in BUILT_IN} | chosen
    return FoundAgents(agents, tuple(refused), tuple(shadowed))


def scan_agents(
    folder: Folder, *, source: AgentSource, prefix: str = ""
) -> Iterator[AgentDefinition | Refused]:
    """Yield the agents that are defined in a folder and its subfolders.

    Args:
        folder: The folder to search.
        source: Where the agents come from.
        prefix: Put before each name, such as the name of a plugin: `tools:`.
    """
    for path in markdown_in(folder):
        if isinstance(path, Refused):
            yield path
        else:
            yield load_agent(path, folder, source=source, prefix=prefix)


def load_agent(
    path: Path, folder: Folder, *, source: AgentSource, prefix: str = ""
) -> AgentDefinition | Refused:
    """Return the agent that a file defines, within the tree and the limit of `folder`."""
    text = (folder.limit and folder.limit.refusal(path)) or read_whole(path, tree=folder.tree)
    if isinstance(text, Refused):
        return text
    if folder.limit:
        folder.limit.take(len(text))
    return _define(path, read_frontmatter(text), source, prefix)


def format_agent_list(agents: Mapping[str, AgentDefinition], *, max_chars: int = 8_000) -> str:
    """Return the list of agents for the model: names and descriptions."""
    entries = [(agent.name, agent.description) for agent in agents.values()]
    return format_list(entries, max_chars=max_chars, things="agents")


def find_agent(agents: Mapping[str, AgentDefinition], name: str) -> AgentDefinition | None:
    """Return the agent of that name; an agent of a plugin also by its name without the plugin.

    None if there is no such agent, or if several plugins have one.
    """
    if name in agents:
        return agents[name]
    found = [one for full, one in agents.items() if full.partition(":")[2] == name]
    return found[0] if name and len(found) == 1 else None


def assemble_prompt(
    definition: AgentDefinition, *, claude_md: str, agents_md: str, fork_worker: bool = False
) -> str:
    """Return the system prompt: the agent's own, CLAUDE.md, AGENTS.md, and how to report.

    Args:
        definition: The agent.
        claude_md: The text of the project's CLAUDE.md files; may be empty.
        agents_md: The text of its AGENTS.md files; may be empty.
        fork_worker: True for an agent that runs a skill: it answers within 500 words.
    """
    suffix = FORK_WORKER if fork_worker else SUBAGENT
    parts = (definition.system_prompt, claude_md, agents_md, suffix)
    return "\n\n".join(part.strip() for part in parts if part.strip())


def filter_tools(
    names: Sequence[str], definition: AgentDefinition, *, allowed: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Return the tools among `names` that an agent may use, in their order.

    Four filters apply: the tools that the definition denies, the tools that it lists (if any),
    the tools that start agents, which are always removed, and `allowed`.

    A list contains names, `*`, patterns such as `mcp__files__*`, or rules such as `Bash(git *)`.
    A rule counts as the tool it names, so a denied rule removes the whole tool: an agent may get
    less than its author meant, never more.

    Args:
        names: The tools of the caller.
        definition: The agent that gets the tools.
        allowed: The tools that the skill lists which the agent runs; None or empty for no limit.
    """
    left = [name for name in names if not _is_listed(name, definition.disallowed_tools)]
    if definition.tools is not None:
        left = [name for name in left if _is_listed(name, definition.tools)]
    left = [name for name in left if name not in SPAWNING]
    if allowed:
        left = [name for name in left if _is_listed(name, allowed)]
    return tuple(left)


def resolve_model(name: str, parent: str) -> str:
    """Return the model that `name` means for an agent whose caller runs on `parent`.

    A Claude family, such as `sonnet`, `haiku` or `opus`, means its newest model. An empty name,
    `inherit` and `default` mean the caller's model; anything else is the name of a model.

    Definitions are shared between projects, and most of them name a Claude family. A caller on
    another model, or on a host with its own spelling (`us.anthropic.claude-…-v1:0`), cannot reach
    that family: the agent then runs on the caller's model.
    """
    wanted = name.strip()
    family = wanted.lower().partition("[")[0]
    if family in {"", "inherit", "default"}:
        return parent
    newest = _newest_model(family)
    if newest is None:
        return wanted
    return newest if _is_bare_claude(parent) else parent


def _define(
    path: Path, found: Frontmatter, source: AgentSource, prefix: str
) -> AgentDefinition | Refused:
    description = one_line(found.text("description"))
    if not description:
        why = found.problems[0] if found.problems else "the frontmatter has no `description`"
        return Refused(path, f"does not define an agent: {why}")
    name, problems = choose_name(found.text("name"), path.stem)
    ignored = [field for field in _IGNORED if found.value(field) is not None]
    problems += tuple(f"`{field}` has no effect in Clew" for field in ignored)
    if found.value("maxTurns") is not None and found.number("maxTurns") is None:
        problems += ("`maxTurns` must be a whole number above 0; it is ignored",)
    isolation = found.text("isolation")
    if isolation not in ("", "none", "worktree"):
        problems += ("`isolation` must be `none` or `worktree`; it is ignored",)
    return AgentDefinition(
        name=prefix + name,
        description=description,
        system_prompt=found.body.strip(),
        model=found.text("model"),
        max_turns=found.number("maxTurns"),
        tools=found.words("tools"),
        disallowed_tools=found.words("disallowedTools") or (),
        isolation="worktree" if isolation == "worktree" else "none",
        background=found.flag("background", default=False),
        source=source,
        path=path,
        problems=(*found.problems, *problems),
    )


def _is_listed(name: str, rules: Iterable[str]) -> bool:
    return any(_covers(rule.partition("(")[0].strip(), name) for rule in rules)


def _covers(tool: str, name: str) -> bool:
    """Return whether a listed tool covers `name`; `mcp__files` covers all tools of that server."""
    server = tool.startswith("mcp__") and tool.count("__") == 1
    return fnmatchcase(name, tool) or (server and name.startswith(f"{tool}__"))


def _newest_model(family: str) -> str | None:
    """Return the newest model of a Claude family; None if there is no such family."""
    if not family.isalpha():
        return None
    names = (facts.name for facts in families())
    return next((name for name in names if name.startswith(f"claude-{family}-")), None)


def _is_bare_claude(model: str) -> bool:
    return model.lower().startswith("claude-") and not set("@:/") & set(model)
