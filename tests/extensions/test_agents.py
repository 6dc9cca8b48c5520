"""Agents are found in their folders, get the tools they may use, and know how to report."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.agent_discovery import (
    FoundAgents,
    assemble_prompt,
    discover_agents,
    filter_tools,
    format_agent_list,
    resolve_model,
)
from clew.providers.catalogue import families
from tests.rows import each_row

pytestmark = pytest.mark.req("AGT-1")

BUILT_IN = ["general-purpose", "Explore", "Plan"]
TOOLS = ("Agent", "Bash", "Edit", "Read", "Task", "Write", "mcp__files__get", "mcp__files__put")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a project, a user's home and Clew's home in it."""
    (tmp_path / "project").mkdir()
    return tmp_path


def find(home: Path) -> FoundAgents:
    return discover_agents(home / "project", user_home=home / "user", clew_home=home / "clew")


def write(path: Path, head: str, body: str = "You review.\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{head}\n---\n{body}", encoding="utf-8")
    return path


def agent(**fields: object) -> AgentDefinition:
    known = {"name": "a", "description": "d", "system_prompt": "p"}
    return AgentDefinition(**{**known, **fields})  # type: ignore[arg-type]


def test_a_projects_agents_are_read_up_to_a_length_and_the_users_all(home: Path) -> None:
    for number in range(6):
        write(home / f"project/.clew/agents/p{number}.md", "description: d", "x" * 900_000)
        write(home / f"clew/agents/u{number}.md", "description: d", "x" * 900_000)

    found = find(home)

    assert [name for name in found.agents if name.startswith("p")] == ["p0", "p1", "p2", "p3", "p4"]
    assert len([name for name in found.agents if name.startswith("u")]) == 6
    assert found.refused[0].why == "is beyond the limit of 4,000,000 characters for one search"


def test_three_agents_come_with_clew_and_two_of_them_cannot_write(home: Path) -> None:
    found = find(home)

    assert list(found.agents) == BUILT_IN
    assert all(each.source == "builtin" and each.model == "" for each in found.agents.values())
    writing = ("Write", "Edit", "NotebookEdit")
    tools = (*writing, "Read", "Bash", "Agent")
    assert filter_tools(tools, found.agents["general-purpose"]) == (*writing, "Read", "Bash")
    for name in ("Explore", "Plan"):
        assert filter_tools(tools, found.agents[name]) == ("Read", "Bash")


def test_the_first_folder_of_the_order_wins_over_the_others_and_the_built_in(home: Path) -> None:
    places = [
        "project/.clew/agents/p.md",
        "project/.agents/agents/p.md",
        "project/.claude/agents/p.md",
        "clew/agents/p.md",
        "user/.claude/agents/p.md",
    ]
    for place in places:
        write(home / place, f"name: Plan\ndescription: {place}")

    for count, place in enumerate(places, 1):
        found = find(home)
        assert list(found.agents) == BUILT_IN
        assert found.agents["Plan"].description == place
        assert found.agents["Plan"].disallowed_tools == ()
        assert len(found.shadowed) == len(places) - count + 1
        (home / place).unlink()

    assert find(home).agents["Plan"].source == "builtin"


def test_every_field_is_read(home: Path) -> None:
    path = write(
        home / "project/.claude/agents/deep/reviewer.md",
        "name: code-reviewer\ndescription: >\n  Reviews\n  code.\ntools: Read, Bash(git *)\n"
        "disallowedTools: [Write]\nmodel: sonnet\nmaxTurns: 7\ncolor: red",
        "\nYou review.\n\nWell.\n\n",
    )

    assert find(home).agents["code-reviewer"] == AgentDefinition(
        name="code-reviewer",
        description="Reviews code.",
        system_prompt="You review.\n\nWell.",
        model="sonnet",
        max_turns=7,
        tools=("Read", "Bash(git *)"),
        disallowed_tools=("Write",),
        source="project",
        path=path,
    )


def test_without_a_name_the_file_names_it(home: Path) -> None:
    write(home / "clew/agents/helper.md", "description: d")
    write(home / "clew/agents/other one.md", "name: 'a\\nb'\ndescription: d")

    found = find(home)

    assert list(found.agents) == [*BUILT_IN, "helper", "other-one"]
    assert found.agents["helper"].source == "user"
    assert "is not a valid name" in found.agents["other-one"].problems[0]


def test_what_defines_no_agent_is_refused_with_a_reason(home: Path) -> None:
    folder = home / "project/.claude/agents"
    write(folder / "undescribed.md", "name: x")
    write(folder / "open.md", "name: x").write_text("---\nname: x\n", encoding="utf-8")
    (folder / "readme.md").write_text("# About", encoding="utf-8")
    (folder / "empty.md").touch()
    (folder / "binary.md").write_bytes(b"\0")
    (folder / "huge.md").write_bytes(b"x" * 1_000_001)
    (folder / "folder.md").mkdir()
    (folder / "out.md").symlink_to(write(home / "outside.md", "description: d"))
    os.mkfifo(folder / "pipe.md")

    found = find(home)

    assert list(found.agents) == BUILT_IN
    missing = "does not define an agent: the frontmatter has no `description`"
    assert {refused.path.name: refused.why for refused in found.refused} == {
        "undescribed.md": missing,
        "open.md": "does not define an agent: the frontmatter starts with --- but has no"
        " closing ---",
        "readme.md": missing,
        "empty.md": "is empty",
        "binary.md": "is not a text file",
        "huge.md": "has 1,000,001 bytes; the limit is 1,000,000",
        "folder.md": "is not a regular file",
        "out.md": f"leads out of {home / 'project'} through a link",
        "pipe.md": "is not a regular file",
    }


def test_a_definition_chooses_a_worktree_and_the_background(home: Path) -> None:
    write(home / "clew/agents/x.md", "description: d\nisolation: worktree\nbackground: true")
    write(home / "clew/agents/y.md", "description: d\nisolation: jail")

    x, y = (find(home).agents[name] for name in "xy")

    assert (x.isolation, x.background, x.problems) == ("worktree", True, ())
    assert (y.isolation, y.background) == ("none", False)
    assert y.problems == ("`isolation` must be `none` or `worktree`; it is ignored",)


def test_what_a_definition_asks_for_in_vain_is_said(home: Path) -> None:
    write(
        home / "project/.claude/agents/x.md",
        "description: Use when: needed\nmaxTurns: many\npermissionMode: bypassPermissions",
    )

    found = find(home).agents["x"]

    assert found.description == "Use when: needed"
    assert found.max_turns is None
    assert "line by line" in found.problems[0]
    assert found.problems[1:] == (
        "`permissionMode` has no effect in Clew",
        "`maxTurns` must be a whole number above 0; it is ignored",
    )


@each_row(
    ("denied", "listed", "allowed", "left"),
    [
        ((), None, None, ("Bash", "Edit", "Read", "Write", "mcp__files__get", "mcp__files__put")),
        (("Write", "Edit"), None, None, ("Bash", "Read", "mcp__files__get", "mcp__files__put")),
        (("Read",), ("Read", "Bash"), None, ("Bash",)),
        ((), ("Read", "Agent", "Task(Plan)"), None, ("Read",)),
        ((), ("Bash(git *)", "Bash(ls)"), None, ("Bash",)),
        (("Bash(rm *)",), ("Bash", "Read"), None, ("Read",)),
        ((), (), None, ()),
        ((), ("*",), ("Read", "Agent"), ("Read",)),
        ((), None, (), ("Bash", "Edit", "Read", "Write", "mcp__files__get", "mcp__files__put")),
        (("Read",), None, ("Read", "Bash(git *)"), ("Bash",)),
        ((), ("mcp__files",), None, ("mcp__files__get", "mcp__files__put")),
        (("mcp__files__p*",), ("mcp__files__*",), None, ("mcp__files__get",)),
        (("*",), ("Read",), ("Read",), ()),
        ((), ("read",), None, ()),
    ],
)
def test_tools_are_denied_then_listed_then_never_agents_then_those_of_the_skill(
    denied: tuple[str, ...],
    listed: tuple[str, ...] | None,
    allowed: tuple[str, ...] | None,
    left: tuple[str, ...],
) -> None:
    definition = agent(disallowed_tools=denied, tools=listed)

    assert filter_tools(TOOLS, definition, allowed=allowed) == left


RULES = st.lists(st.sampled_from([*TOOLS, "*", "Bash(git *)", "mcp__files", "x("])).map(tuple)


@given(RULES, st.none() | RULES, st.none() | RULES)
def test_an_agent_never_gets_more_than_each_list_alone_leaves(
    denied: tuple[str, ...], listed: tuple[str, ...] | None, allowed: tuple[str, ...] | None
) -> None:
    left = filter_tools(TOOLS, agent(disallowed_tools=denied, tools=listed), allowed=allowed)

    assert set(left) <= set(TOOLS) - {"Agent", "Task", *denied}
    assert set(left) <= set(filter_tools(TOOLS, agent(disallowed_tools=denied)))
    assert set(left) <= set(filter_tools(TOOLS, agent(tools=listed)))
    assert set(left) <= set(filter_tools(TOOLS, agent(), allowed=allowed))


@pytest.mark.parametrize("shortcut", ["sonnet", "haiku", "opus", "Opus", "sonnet[1m]"])
def test_a_shortcut_is_the_newest_model_of_its_family(shortcut: str) -> None:
    family = shortcut.lower().removesuffix("[1m]")
    ours = [facts.name for facts in families() if f"-{family}-" in facts.name]

    chosen = resolve_model(shortcut, "claude-3-opus")

    assert chosen in ours
    assert chosen == max(name for name in ours if not name.startswith("claude-3"))


@pytest.mark.parametrize("name", ["", "  ", "inherit", "Inherit", "default"])
def test_nothing_and_inherit_are_the_callers_model(name: str) -> None:
    assert resolve_model(name, "gpt-5") == "gpt-5"


def test_any_other_name_is_a_model() -> None:
    assert resolve_model("claude-sonnet-4-5", "gpt-5") == "claude-sonnet-4-5"
    assert resolve_model(" qwen3:8b ", "gpt-5") == "qwen3:8b"


@pytest.mark.parametrize(
    "parent",
    [
        "gpt-5",
        "qwen3-coder:30b",
        "us.anthropic.claude-opus-4-5-20251101-v1:0",
        "anthropic/claude-opus-4.5",
        "claude-opus-4-5@20251101",
    ],
)
def test_a_shortcut_out_of_reach_is_the_callers_model(parent: str) -> None:
    assert resolve_model("sonnet", parent) == parent


def test_the_prompt_is_put_together_in_its_order() -> None:
    definition = agent(system_prompt="\nThe body.\n")

    prompt = assemble_prompt(
        definition, claude_md="From CLAUDE.md.\n", agents_md="From AGENTS.md.", fork_worker=False
    )

    body, claude, agents, suffix = prompt.split("\n\n")
    assert (body, claude, agents) == ("The body.", "From CLAUDE.md.", "From AGENTS.md.")
    assert "concise report" in suffix
    assert "500 words" not in suffix


def test_a_fork_worker_answers_within_500_words_and_empty_parts_leave_no_gap() -> None:
    prompt = assemble_prompt(agent(), claude_md=" ", agents_md="", fork_worker=True)

    body, suffix = prompt.split("\n\n")
    assert body == "p"
    assert "within 500 words" in suffix
    assert "concise report" not in suffix


def test_a_model_learns_what_each_agent_is_for(home: Path) -> None:
    write(home / "user/.claude/agents/x.md", "description: Reviews.", "A secret prompt.")

    lines = format_agent_list(find(home).agents).splitlines()

    assert [line.partition(":")[0] for line in lines] == [f"- {name}" for name in [*BUILT_IN, "x"]]
    assert lines[-1] == "- x: Reviews."
