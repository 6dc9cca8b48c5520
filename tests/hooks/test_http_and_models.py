"""Hooks that ask a server, a model or an agent."""

import json
from typing import Any

import anyio
import pytest

from clew.core.permissions import Decision, Verdict
from clew.hooks.command import MAX_BYTES
from clew.hooks.context import AgentTask, HookContext
from clew.hooks.handlers import HttpHook
from clew.hooks.http import build_headers
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.hooks.runner import HookRunner
from clew.hooks.settings import HookSource, parse_hooks
from clew.testing.server import Disconnect, FakeServer, ScriptedResponse, Stall, serve

pytestmark = [pytest.mark.anyio, pytest.mark.req("HOK-2")]

PRE, STOP = HookEvent.PRE_TOOL_USE, HookEvent.STOP
CALL = HookInput(session_id="s", cwd="/", tool_name="Bash", tool_input={"command": "ls"})
NO = '{"ok": false, "reason": "not yet"}'


async def fire(
    means: dict[str, Any], *hooks: dict[str, Any], event: HookEvent = STOP
) -> HookVerdict:
    table = parse_hooks({event.value: [{"hooks": list(hooks)}]}, HookSource(name="test"))
    with anyio.fail_after(60):
        return await HookRunner(table, HookContext(**means)).fire(event, CALL)


async def posted(
    answer: ScriptedResponse, tmp_path: Any, **hook: Any
) -> tuple[HookVerdict, FakeServer]:
    async with serve(answer) as server:
        means = {"project": tmp_path, "environ": {"TOKEN": "t-1\r\nX: y", "OTHER": "o"}}
        http = {"type": "http", "url": f"{server.url}/hook", **hook}
        return await fire(means, http, event=PRE), server


async def test_the_json_is_posted_and_the_answer_decides(tmp_path: Any) -> None:
    body = (
        b'{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",'
        b' "permissionDecisionReason": "policy"}}'
    )

    said, server = await posted(ScriptedResponse(steps=[body[:20], body[20:]]), tmp_path)

    assert said == HookVerdict(decision=Decision(Verdict.DENY, "policy"))
    assert server.methods == ["POST"]
    assert server.headers[0]["Content-Type"] == "application/json"
    assert server.requests == [json.loads(CALL.encode(PRE))]


async def test_headers_hold_only_the_variables_they_may(tmp_path: Any) -> None:
    said, server = await posted(
        ScriptedResponse(steps=[]),
        tmp_path,
        headers={"Authorization": "Bearer $TOKEN", "X-Both": "[${TOKEN}$OTHER$NONE]"},
        allowedEnvVars=["TOKEN", "NONE"],
    )

    assert said == HookVerdict()
    assert server.headers[0]["Authorization"] == "Bearer t-1X: y"
    assert server.headers[0]["X-Both"] == "[t-1X: y]"
    assert "X" not in server.headers[0]


def test_without_a_list_no_variable_is_put_in() -> None:
    handler = HttpHook(url="http://x", headers={"A": "$B!"})

    assert build_headers(handler, {"B": "secret"})["A"] == "!"


@pytest.mark.parametrize(
    ("answer", "report"),
    [
        (
            ScriptedResponse(steps=[b'{"decision": "block"}'], status=500),
            "answered with status 500",
        ),
        (ScriptedResponse(steps=[b"gone"], status=404), "answered with status 404"),
        (
            ScriptedResponse(steps=[], status=302, headers={"Location": "http://127.0.0.1:1/"}),
            "answered with status 302",
        ),
        (ScriptedResponse(steps=[b"ok"]), "the server's answer is not a JSON object"),
        (ScriptedResponse(steps=[b'{"decision": 1}']), "the output is not a valid hook answer"),
        (ScriptedResponse(steps=[b'{"a": "' + b"x" * MAX_BYTES]), "more than 65536 bytes"),
        (ScriptedResponse(steps=[Disconnect()]), "the request failed"),
        (ScriptedResponse(steps=[b"{", Disconnect()]), "the request failed"),
    ],
)
async def test_what_a_server_does_wrong_is_reported_and_decides_nothing(
    tmp_path: Any, answer: ScriptedResponse, report: str
) -> None:
    said, server = await posted(answer, tmp_path)

    assert said == HookVerdict(reports=said.reports)
    assert report in said.reports[0]
    assert len(server.bodies) == 1


async def test_a_server_that_is_not_there_is_reported(tmp_path: Any) -> None:
    http = {"type": "http", "url": "http://127.0.0.1:1/hook"}

    said = await fire({"project": tmp_path}, http)

    assert "the request failed" in said.reports[0]


async def test_a_server_that_says_nothing_is_left_after_its_time(tmp_path: Any) -> None:
    async with serve(ScriptedResponse(steps=[b"{", Stall()])) as server:
        http = {"type": "http", "url": server.url, "timeout": 0.2}

        said = await fire({"project": tmp_path}, http)

        with anyio.fail_after(60):
            await server.client_left.wait()
    assert said.reports[0].endswith("timed out after 0.2 s; its output is ignored")


async def test_a_model_is_asked_with_the_json_in_its_place(tmp_path: Any) -> None:
    asked: list[tuple[str, str]] = []

    async def ask(prompt: str, model: str) -> str:
        asked.append((prompt, model))
        return NO

    inside = {"type": "prompt", "prompt": "Is $ARGUMENTS done?", "model": "small"}
    after = {"type": "prompt", "prompt": "All done?"}

    said = await fire({"project": tmp_path, "ask": ask}, inside, after)

    told = CALL.encode(STOP).decode()
    assert said.block == "not yet"
    assert [(prompt.rpartition("\n\n")[0], model) for prompt, model in sorted(asked)] == [
        (f"All done?\n\n{told}", ""),
        (f"Is {told} done?", "small"),
    ]
    assert all('{"ok": true}' in prompt for prompt, _ in asked)


@pytest.mark.parametrize(("goes_on", "stop"), [(False, "not yet"), (True, None)])
async def test_a_denied_call_ends_the_run_unless_the_hook_continues_on_block(
    tmp_path: Any, stop: str | None, *, goes_on: bool
) -> None:
    async def ask(prompt: str, model: str) -> str:
        return NO

    hook = {"type": "prompt", "prompt": "ok?", "continueOnBlock": goes_on}
    said = await fire({"project": tmp_path, "ask": ask}, hook, event=PRE)

    assert said == HookVerdict(decision=Decision(Verdict.DENY, "not yet"), stop=stop)


async def test_an_agent_is_run_with_its_limits(tmp_path: Any) -> None:
    tasks: list[AgentTask] = []

    async def run_agent(task: AgentTask) -> str:
        tasks.append(task)
        return f"I looked. {NO}"

    hook = {
        "type": "agent",
        "agent": "checker",
        "prompt": "Check $ARGUMENTS",
        "model": "m",
        "maxTurns": 3,
    }
    said = await fire({"project": tmp_path, "run_agent": run_agent}, hook, event=PRE)

    assert said == HookVerdict(decision=Decision(Verdict.DENY, "not yet"))
    (task,) = tasks
    assert (task.agent, task.model, task.max_turns) == ("checker", "m", 3)
    assert task.prompt.startswith(f"Check {CALL.encode(PRE).decode()}\n\n")


async def test_what_cannot_run_here_says_so(tmp_path: Any) -> None:
    hooks = {"type": "prompt", "prompt": "ok?"}, {"type": "agent", "agent": "checker"}

    said = await fire({"project": tmp_path}, *hooks)

    assert said.reports == (
        "Stop hook `ok?` (test): prompt hooks cannot run in this session: it has no model to ask",
        "Stop hook `checker` (test): agent hooks cannot run in this session:"
        " it cannot start agents",
    )


async def test_a_crash_in_what_was_injected_is_reported_and_the_others_count(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask(prompt: str, model: str) -> str:
        raise RuntimeError("no key")

    async def run_agent(task: AgentTask) -> str:
        return NO

    hooks = {"type": "prompt", "prompt": "ok?"}, {"type": "agent", "prompt": "look"}
    said = await fire({"project": tmp_path, "ask": ask, "run_agent": run_agent}, *hooks)

    assert said.block == "not yet"
    assert said.reports == ("Stop hook `ok?` (test): crashed: RuntimeError('no key')",)
    assert "crashed" in caplog.text


async def test_a_model_that_does_not_answer_is_left_after_its_time(tmp_path: Any) -> None:
    async def ask(prompt: str, model: str) -> str:
        await anyio.sleep_forever()
        return NO

    hook = {"type": "prompt", "prompt": "ok?", "timeout": 0.05}
    said = await fire({"project": tmp_path, "ask": ask}, hook)

    assert said.block is None
    assert said.reports[0].endswith("timed out after 0.05 s; its output is ignored")


async def test_an_agent_may_fire_events_of_its_own(tmp_path: Any) -> None:
    async def run_agent(task: AgentTask) -> str:
        inner = await hooks.fire(PRE, CALL)
        return json.dumps({"ok": False, "reason": inner.context[0]})

    context = '{"hookSpecificOutput": {"additionalContext": "inner"}}'
    section = {
        "Stop": [{"hooks": [{"type": "agent", "prompt": "look"}]}],
        "PreToolUse": [{"hooks": [{"type": "command", "command": f"echo '{context}'"}]}],
    }
    means = HookContext(project=tmp_path, run_agent=run_agent, parallel=1)
    hooks = HookRunner(parse_hooks(section, HookSource(name="test")), means)

    with anyio.fail_after(60):
        assert (await hooks.fire(STOP, CALL)).block == "inner"
