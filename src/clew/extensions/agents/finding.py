"""Which agents there are.

Definitions are looked for in this order, and the first of a name wins over the others and over
the agents that come with Clew:

1. `<cwd>/.clew/agents/`
2. `<cwd>/.agents/agents/`
3. `<cwd>/.claude/agents/`
4. `<clew_home>/agents/`
5. `<user_home>/.claude/agents/`

A definition is a Markdown file, in a subfolder or not: fields at its head, and below them the
prompt. It must say what it is for; without a name it is called what its file is called.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from clew.core.text import one_line
from clew.extensions.agents.builtin import BUILT_IN
from clew.extensions.agents.definition import AgentDefinition, Source
from clew.extensions.frontmatter import Frontmatter, read_frontmatter
from clew.extensions.names import choose_name
from clew.extensions.reading import Folder, Refused, Room, first_of_each, markdown_in, read_whole

_NOT_READ = (
    "permissionMode",
    "skills",
    "mcpServers",
    "hooks",
    "memory",
    "background",
    "effort",
    "isolation",
    "initialPrompt",
)
"""Fields of Claude Code that would change what an agent does, and do nothing here."""


MAX_ALL = 4_000_000
"""Characters that all definitions of a project may have."""


class FoundAgents(Struct, frozen=True):
    """What a search came upon."""

    agents: dict[str, AgentDefinition]
    """Under their names, the built-in ones first."""
    refused: tuple[Refused, ...] = ()
    shadowed: tuple[AgentDefinition, ...] = ()
    """Those that another definition of the same name keeps from being used, built-in ones too."""


def discover_agents(cwd: Path, *, user_home: Path, clew_home: Path) -> FoundAgents:
    """Return the agents that can be used in `cwd`."""
    room = Room(MAX_ALL)
    projects = (
        Folder(cwd / name / "agents", cwd, room) for name in (".clew", ".agents", ".claude")
    )
    users = (Folder(home / "agents") for home in (clew_home, user_home / ".claude"))
    places: list[tuple[Folder, Source]] = [(folder, "project") for folder in projects]
    places += [(folder, "user") for folder in users]
    seen: set[str] = set()
    found: list[AgentDefinition | Refused] = []
    for folder, source in places:
        real = os.path.realpath(folder.path)
        if real not in seen:
            found.extend(scan_agents(folder, source=source))
        seen.add(real)
    return _sort_out(found)


def scan_agents(
    folder: Folder, *, source: Source, prefix: str = ""
) -> Iterator[AgentDefinition | Refused]:
    """Yield the agents that are defined in a folder or below it.

    Args:
        folder: Where to look.
        source: Whose agents they are.
        prefix: Stands before each name, as a plugin's does: `tools:`.
    """
    for path in markdown_in(folder):
        if isinstance(path, Refused):
            yield path
            continue
        text = (folder.room and folder.room.refusal(path)) or read_whole(path, tree=folder.tree)
        if isinstance(text, Refused):
            yield text
            continue
        if folder.room:
            folder.room.take(len(text))
        yield _define(path, read_frontmatter(text), source, prefix)


def _define(
    path: Path, found: Frontmatter, source: Source, prefix: str
) -> AgentDefinition | Refused:
    description = one_line(found.text("description"))
    if not description:
        why = found.problems[0] if found.problems else "it has no `description` at its head"
        return Refused(path, f"defines no agent: {why}")
    name, problems = choose_name(found.text("name"), path.stem)
    unread = [field for field in _NOT_READ if found.value(field) is not None]
    problems += tuple(f"`{field}` has no effect in Clew" for field in unread)
    if found.value("maxTurns") is not None and found.number("maxTurns") is None:
        problems += ("`maxTurns` must be a whole number above 0; it is not used",)
    return AgentDefinition(
        name=prefix + name,
        description=description,
        system_prompt=found.body.strip(),
        model=found.text("model"),
        max_turns=found.number("maxTurns"),
        tools=found.words("tools"),
        disallowed_tools=found.words("disallowedTools") or (),
        source=source,
        path=path,
        problems=(*found.problems, *problems),
    )


def _sort_out(found: list[AgentDefinition | Refused]) -> FoundAgents:
    chosen, refused, shadowed = first_of_each(found)
    shadowed += (agent for agent in BUILT_IN if agent.name in chosen)
    agents = {agent.name: agent for agent in BUILT_IN} | chosen
    return FoundAgents(agents, tuple(refused), tuple(shadowed))
