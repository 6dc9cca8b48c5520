"""How tool calls are shown: summaries, first arguments and diffs."""

import pytest

from clew.core.errors import RunError, SessionError
from clew.core.file_change import FileChange, Hunk
from clew.core.tool_states import (
    ToolState,
    diff_lines,
    first_argument,
    start_state,
    summarize_states,
    unwrap_call,
)


def test_a_summary_counts_calls_and_failures_and_names_each_tool_once() -> None:
    read = ToolState(tool_name="Read", result="success")
    bash = ToolState(tool_name="Bash", result="denied")

    assert summarize_states([read]) == "1 tool call: Read"
    assert summarize_states([read, read, bash]) == "3 tool calls, 1 failed or denied: Read, Bash"
    many = [ToolState(tool_name=f"T{n}", result="success") for n in range(40)]
    assert summarize_states(many).endswith(" more")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"path": "a\\nb"}', "a b"),
        ('{"count": 3}', "3"),
        ('{"deep": true, "path": "a"}', "a"),
        ('{"description": "list files", "command": "rm a"}', "rm a"),
        ("", ""),
        ("[1]", ""),
        ('{"path', ""),
    ],
)
def test_the_first_argument_is_one_line_and_empty_if_it_cannot_be_read(
    arguments: str, shown: str
) -> None:
    assert first_argument(arguments) == shown


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"tool": "mcp__a__b", "arguments": {"x": 1}}', ("mcp__a__b", '{"x":1}')),
        ('{"tool": "mcp__a__b", "arguments": "{\\"x\\": 1}"}', ("mcp__a__b", '{"x": 1}')),
        ('{"tool": "mcp__a__b"}', ("mcp__a__b", "{}")),
        ('{"tool": 3}', ("CallMcpTool", '{"tool": 3}')),
        ('{"tool": "', ("CallMcpTool", '{"tool": "')),
        ("", ("CallMcpTool", "")),
    ],
)
def test_a_call_on_demand_is_shown_as_that_of_its_tool(
    arguments: str, shown: tuple[str, str]
) -> None:
    assert unwrap_call("CallMcpTool", arguments) == shown
    assert start_state("c1", "CallMcpTool", arguments).tool_name == shown[0]
    assert unwrap_call("Bash", arguments) == ("Bash", arguments)


def test_a_long_diff_is_truncated_and_says_how_much_is_missing() -> None:
    change = FileChange.of("a", [Hunk.of(1, 1, [f"+{n}" for n in range(1_000)])])

    lines = diff_lines(change)

    assert len(lines) < 1_000
    assert lines[-1].text.endswith(" more lines")
    assert diff_lines(None) == ()


def test_the_error_of_a_run_names_the_type_that_failed() -> None:
    error = RunError("it failed", error_type="ProviderBusy")

    assert isinstance(error, SessionError)
    assert error.error_type == "ProviderBusy"
