"""Hooks in settings files: what is parsed, what is an error, and which hooks run when."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import ConfigError
from clew.hooks.handlers import AgentHook, CommandHook, HttpHook, PromptHook, timeout_of
from clew.hooks.protocol import HookEvent, HookInput
from clew.hooks.runner import select_hooks
from clew.hooks.settings import (
    HookSource,
    HookTable,
    matcher_target,
    merge_tables,
    parse_hooks,
    parse_matcher,
    read_hooks,
)
from tests.rows import each_row

pytestmark = pytest.mark.req("HOK-2")

USER = HookSource(name="~/.claude/settings.json")
PROJECT = HookSource(name=".claude/settings.json", project=True)


def group(*hooks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**more, "hooks": list(hooks)}


def command(line: str = "true", **more: Any) -> dict[str, Any]:
    return {"type": "command", "command": line, **more}


def table(event: str, *groups: dict[str, Any], source: HookSource = USER) -> HookTable:
    return parse_hooks({event: list(groups)}, source)


def payload(**fields: Any) -> HookInput:
    return HookInput(session_id="s", cwd="/w", **fields)


def commands(hooks: HookTable, event: HookEvent, **fields: Any) -> list[str]:
    found = select_hooks(hooks, event, payload(**fields))
    return [hook.handler.command for hook in found if isinstance(hook.handler, CommandHook)]


def test_every_type_is_read_with_its_fields_and_its_place() -> None:
    section = {
        "PreToolUse": [
            group(command("a"), command("b", args=["x"], timeout=5), matcher="Bash"),
            group(
                {
                    "type": "http",
                    "url": "http://localhost:1/x",
                    "headers": {"A": "$B"},
                    "allowedEnvVars": ["B"],
                },
                {"type": "prompt", "prompt": "ok?", "model": "m", "continueOnBlock": True},
                {"type": "agent", "agent": "checker", "maxTurns": 3},
                env={"MODE": "ci"},
            ),
        ]
    }

    found = parse_hooks(section, USER)

    assert found.problems == ()
    assert [hook.handler for hook in found.hooks] == [
        CommandHook(command="a"),
        CommandHook(command="b", args=("x",), timeout=5),
        HttpHook(url="http://localhost:1/x", headers={"A": "$B"}, allowed_env_vars=("B",)),
        PromptHook(prompt="ok?", model="m", continue_on_block=True),
        AgentHook(agent="checker", max_turns=3),
    ]
    assert [hook.place for hook in found.hooks] == [
        "PreToolUse[0].hooks[0]",
        "PreToolUse[0].hooks[1]",
        "PreToolUse[1].hooks[0]",
        "PreToolUse[1].hooks[1]",
        "PreToolUse[1].hooks[2]",
    ]
    assert found.hooks[4].env == {"MODE": "ci"}
    assert found.hooks[1].label == "PreToolUse hook `b x` (~/.claude/settings.json)"


@each_row(
    ("section", "message"),
    [
        ([], "S: hooks must be an object of events"),
        ({"Stop": {}}, "S: Stop must be a list"),
        ({"Stop": ["x"]}, "S: Stop[0] must be an object with matcher and hooks"),
        ({"Stop": [{"matcher": 3, "hooks": []}]}, "S: Stop[0].matcher must be a string"),
        ({"Stop": [{"matcher": ""}]}, "S: Stop[0].hooks is missing; allowed: a list of hooks"),
        ({"Stop": [{"hooks": {}}]}, "S: Stop[0].hooks must be a list"),
        ({"Stop": [{"hooks": ["x"]}]}, "S: Stop[0].hooks[0] must be an object with a type"),
        (
            {"Stop": [group({"command": "x"})]},
            "S: Stop[0].hooks[0].type is missing; allowed: command, http, prompt, agent",
        ),
        (
            {"Stop": [group(command()), group(command(), {"type": "command"})]},
            "S: Stop[1].hooks[1].command is invalid: Object missing required field `command`;"
            " allowed: a command line",
        ),
        (
            {"Stop": [group(command(timeout=0))]},
            "S: Stop[0].hooks[0].timeout is invalid: Expected `float` > 0.0;"
            " allowed: seconds, above 0",
        ),
        (
            {"Stop": [group(command(shell="fish"))]},
            "S: Stop[0].hooks[0].shell is invalid: Invalid enum value 'fish';"
            " allowed: bash or powershell",
        ),
        (
            {"Stop": [group({"type": "http", "url": "ftp://x"})]},
            "S: Stop[0].hooks[0].url is invalid: Expected `str` matching regex"
            " '^https?://[^/\\\\s]'; allowed: a URL that starts with http:// or https://",
        ),
        (
            {"Stop": [group({"type": "agent"})]},
            "S: Stop[0].hooks[0].prompt is invalid: Object missing required field `prompt` or"
            " `agent`; allowed: a string",
        ),
        (
            {"Stop": [group(command(), env={"A": 1})]},
            "S: Stop[0].env must be an object of strings: Expected `str`, got `int` - at `$[...]`",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_is_allowed(section: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_hooks(section, HookSource(name="S"))

    assert str(caught.value) == message


def test_what_is_not_known_is_left_out_and_reported() -> None:
    found = parse_hooks(
        {
            "Notification": [group(command())],
            "description": "for people",
            "PreToolUse": [
                group(
                    {"type": "mcp_tool", "server": "s", "tool": "t"},
                    {"type": 7},
                    command("kept", timout=5, statusMessage="checking", once=True),
                    command("exec", args=[], shell="bash"),
                    matcher="[",
                    extra=1,
                )
            ],
            "Stop": [group(command("always"), matcher="Bash")],
            "SessionStart": [group(command("never", **{"if": "Bash(git *)"}))],
        },
        HookSource(name="S"),
    )

    assert [hook.handler.brief for hook in found.hooks] == ["kept", "exec", "always"]
    assert found.problems == (
        "S: unknown event Notification; ignored",
        "S: PreToolUse[0]: the matcher '[' is not a regular expression"
        " (unterminated character set at position 0); it matches as a name",
        "S: PreToolUse[0]: the key extra is unknown and has no effect",
        "S: PreToolUse[0]: hooks[0]: unknown type 'mcp_tool'"
        " (known: command, http, prompt, agent); ignored",
        "S: PreToolUse[0]: hooks[1]: unknown type 7 (known: command, http, prompt, agent); ignored",
        "S: PreToolUse[0]: hooks[2]: the key timout is unknown and has no effect",
        "S: PreToolUse[0]: hooks[3]: `shell` has no effect with `args`",
        "S: Stop[0]: the matcher 'Bash' has no effect on Stop",
        "S: SessionStart[0]: hooks[0]: `if` applies to tool events, so on SessionStart the hook"
        " never runs",
    )


@pytest.mark.parametrize(
    "document",
    [
        {"permissions": {}, "hooks": {"Stop": [group(command("x"))]}},
        {"description": "a plugin", "hooks": {"Stop": [group(command("x"))]}},
        {"description": "a plugin", "Stop": [group(command("x"))]},
    ],
)
def test_a_file_may_be_settings_or_a_plugins_hooks(document: dict[str, Any]) -> None:
    found = read_hooks(json.dumps(document).encode(), USER)

    assert commands(found, HookEvent.STOP) == ["x"]
    assert found.problems == ()


def test_a_file_without_hooks_has_none() -> None:
    assert read_hooks(b'{"permissions": {}}', USER) == HookTable()


@pytest.mark.parametrize("data", [b"{", b"[]", b'"\xff"', b'{"hooks": 3}', b'{"hooks": null}'])
def test_a_damaged_file_is_an_error_that_names_it(data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"~/\.claude/settings\.json"):
        read_hooks(data, USER)


def test_layers_add_up_and_a_projects_hooks_wait_for_acceptance() -> None:
    user = table("Stop", group(command("guard")))
    project = table("Stop", group(command("theirs"), matcher="x"), source=PROJECT)
    both = merge_tables(user, project)

    assert commands(both.active(accepted=True), HookEvent.STOP) == ["guard", "theirs"]
    assert commands(both.active(accepted=False), HookEvent.STOP) == ["guard"]
    assert both.active(accepted=False).problems == project.problems != ()


def test_the_same_hook_of_two_files_runs_once_but_each_plugins_own_runs() -> None:
    one = HookSource(name="one", plugin_root=Path("/one"))
    two = HookSource(name="two", plugin_root=Path("/two"))
    both = merge_tables(
        table("Stop", group(command("x"), command("x", timeout=9)), group(command("y"))),
        table("Stop", group(command("x"), command("x", args=[])), source=PROJECT),
        table("Stop", group(command("x")), source=one),
        table("Stop", group(command("x")), source=two),
    )

    found = select_hooks(both, HookEvent.STOP, payload())

    assert [hook.source.name for hook in found] == [
        USER.name,
        USER.name,
        PROJECT.name,
        "one",
        "two",
    ]
    assert commands(both, HookEvent.STOP) == ["x", "y", "x", "x", "x"]


@each_row(
    ("matcher", "yes", "no"),
    [
        ("", ["Bash", "mcp__a__b"], []),
        ("*", ["Bash", "mcp__a__b"], []),
        ("Bash", ["Bash"], ["BashOutput", "bash", "MyBash"]),
        ("Edit|Write", ["Edit", "Write"], ["NotebookEdit", "Edit|Write"]),
        ("Edit, Write | Read", ["Edit", "Write", "Read"], ["Glob"]),
        ("mcp__memory", ["mcp__memory"], ["mcp__memory__read"]),
        ("mcp__memory__.*", ["mcp__memory__read"], ["mcp__disk__read"]),
        ("mcp__.*__write.*", ["mcp__a__write_file"], ["mcp__a__read_file"]),
        ("^Notebook", ["NotebookEdit"], ["MyNotebook"]),
        ("Edit.*", ["Edit", "NotebookEdit"], ["Write"]),
        ("^(Edit|Write)$", ["Edit", "Write"], ["NotebookEdit"]),
        ("code-reviewer", ["code-reviewer"], ["senior-code-reviewer"]),
        ("Task", ["Task", "Agent"], ["TaskOutput"]),
        ("^Task$", ["Agent"], ["Bash"]),
        ("(", ["("], ["Bash"]),
        ("|", [], ["Bash", "|"]),
    ],
)
def test_a_matcher_of_plain_characters_is_exact_and_others_are_patterns(
    matcher: str, yes: list[str], no: list[str]
) -> None:
    hooks = table("PreToolUse", group(command("x"), matcher=matcher))

    for name in yes:
        assert commands(hooks, HookEvent.PRE_TOOL_USE, tool_name=name) == ["x"]
    for name in no:
        assert commands(hooks, HookEvent.PRE_TOOL_USE, tool_name=name) == []


@each_row(
    ("event", "matcher", "yes", "no"),
    [
        ("PostToolUse", "Write", {"tool_name": "Write"}, {"tool_name": "Read"}),
        ("SessionStart", "startup|clear", {"source": "clear"}, {"source": "resume"}),
        ("SessionEnd", "logout", {"reason": "logout"}, {"reason": "other"}),
        ("PreCompact", "auto", {"trigger": "auto"}, {"trigger": "manual"}),
        ("PostCompact", "manual", {"trigger": "manual"}, {"trigger": "auto"}),
        ("SubagentStart", "Explore", {"agent_type": "Explore"}, {"agent_type": "Plan"}),
        ("SubagentStop", "a-1", {"agent_id": "a-1"}, {"agent_id": "a-2"}),
        ("StopFailure", "rate_limit", {"error": "rate_limit"}, {"error": "unknown"}),
        ("SessionStart", "startup", {"source": "startup"}, {}),
    ],
)
def test_each_event_is_matched_on_its_own_field(
    event: str, matcher: str, yes: dict[str, str], no: dict[str, str]
) -> None:
    hooks = table(event, group(command("x"), matcher=matcher))

    assert commands(hooks, HookEvent(event), **yes) == ["x"]
    assert commands(hooks, HookEvent(event), **no) == []


@pytest.mark.parametrize("event", ["UserPromptSubmit", "Stop", "WorktreeCreate", "WorktreeRemove"])
def test_events_without_a_target_run_every_hook(event: str) -> None:
    hooks = table(event, group(command("x"), matcher="anything"))

    assert commands(hooks, HookEvent(event)) == ["x"]


def test_hyphens_make_a_pattern_for_a_failed_stop() -> None:
    matcher, _ = parse_matcher(HookEvent.STOP_FAILURE, "a-b")

    assert matcher.matches(("xa-by",))


@given(st.text(), st.sampled_from(HookEvent))
def test_every_text_is_a_matcher(text: str, event: HookEvent) -> None:
    matcher, _ = parse_matcher(event, text)

    assert matcher.matches(matcher_target(event, payload(tool_name="Bash"))) in (True, False)


def test_a_condition_compares_the_tool_and_asks_about_the_rest() -> None:
    hooks = table(
        "PreToolUse",
        group(command("git", **{"if": "Bash(git *)"}), command("any", **{"if": "Bash"})),
    )
    call = payload(tool_name="Bash", tool_input={"command": "ls"})
    asked: list[str] = []

    def holds(rule: str, told: HookInput) -> bool:
        asked.append(rule)
        return told.tool_input == {"command": "git log"}

    def run(told: HookInput, judge: Any) -> list[str]:
        return [
            hook.handler.brief for hook in select_hooks(hooks, HookEvent.PRE_TOOL_USE, told, judge)
        ]

    assert run(call, holds) == ["any"]
    assert run(call, None) == ["git", "any"]
    assert run(payload(tool_name="Read"), holds) == []
    assert run(payload(tool_name="Bash", tool_input={"command": "git log"}), holds) == [
        "git",
        "any",
    ]
    assert asked == ["Bash(git *)"] * 2


def test_a_condition_that_cannot_be_judged_lets_the_hook_run() -> None:
    rules = ("mcp__a__*", "Bash(git *)", "Bash", "Read(*)")
    hooks = table("PreToolUse", group(*(command(rule, **{"if": rule}) for rule in rules)))
    call = payload(tool_name="Bash", tool_input={})

    def cannot(rule: str, told: HookInput) -> bool:
        raise ConfigError(rule)

    found = select_hooks(hooks, HookEvent.PRE_TOOL_USE, call, cannot)

    assert [hook.handler.brief for hook in found] == ["mcp__a__*", "Bash(git *)", "Bash"]
    assert select_hooks(hooks, HookEvent.PRE_TOOL_USE, call, lambda rule, told: False) == found[2:]


@each_row(
    ("handler", "event", "seconds"),
    [
        (CommandHook(command="x"), HookEvent.PRE_TOOL_USE, 60),
        (CommandHook(command="x"), HookEvent.USER_PROMPT_SUBMIT, 30),
        (CommandHook(command="x"), HookEvent.SESSION_END, 1.5),
        (CommandHook(command="x", timeout=100), HookEvent.SESSION_END, 100),
        (HttpHook(url="http://x"), HookEvent.USER_PROMPT_SUBMIT, 10),
        (PromptHook(prompt="x"), HookEvent.STOP, 30),
        (AgentHook(prompt="x"), HookEvent.STOP, 60),
    ],
)
def test_the_time_limit_depends_on_the_type_and_the_event(
    handler: Any, event: HookEvent, seconds: float
) -> None:
    assert timeout_of(handler, event) == seconds


@pytest.mark.parametrize(
    ("handler", "brief"),
    [
        (CommandHook(command="  a\n  b "), "a b"),
        (CommandHook(command="x" * 99), "x" * 59 + "…"),
        (HttpHook(url="https://me:secret@host:8/path?key=secret"), "https://host:8/path"),
        (AgentHook(agent="checker", prompt="look"), "checker look"),
    ],
)
def test_a_hook_is_named_in_few_words_and_without_passwords(handler: Any, brief: str) -> None:
    assert handler.brief == brief


@pytest.mark.parametrize("text", ["(" * 5_000, "a{99999999999}", "[", "x\ny("])
def test_an_invalid_expression_matches_as_a_name_and_is_a_short_problem(text: str) -> None:
    hooks = [{"type": "command", "command": "x", "a\nb": 1}]
    table = parse_hooks(
        {"PreToolUse": [{"matcher": text, "hooks": hooks}], "A\nb": []}, HookSource(name="S")
    )

    assert table.hooks[0].matcher.matches((text,))
    assert "is not a regular expression" in table.problems[0]
    assert all(len(problem) < 300 and "\n" not in problem for problem in table.problems)
