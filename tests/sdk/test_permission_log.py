"""The permission log: why each tool call of a session was allowed or denied."""

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from clew import InteractiveSession, Session, tool
from clew.cli.main import main
from clew.core.models import ModelFacts
from clew.core.permissions import (
    Access,
    Approval,
    Decision,
    PermissionMode,
    PermissionRecord,
    Risk,
    Verdict,
)
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.permissions.rules import parse_rule
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.sdk.folders import store_path
from clew.sdk.permission_log import format_decision, list_decisions
from clew.session.gate import Gate
from clew.stores.sqlite import SqliteStore
from clew.tools.protocol import ToolOutput


@tool(risk=Risk.INSPECT)
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


@tool(risk=Risk.EXECUTE)
async def act(what: str) -> str:
    """Do something."""
    if what == "crash":
        raise RuntimeError(what)
    return f"did {what}"


class Hooks:
    """A hook that blocks one call and allows another."""

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        wanted = (payload.tool_input or {}).get("what")
        await anyio.lowlevel.checkpoint()
        if event is not HookEvent.PRE_TOOL_USE or wanted not in ("blocked", "approved"):
            return HookVerdict()
        verdict = Verdict.DENY if wanted == "blocked" else Verdict.ALLOW
        return HookVerdict(decision=Decision(verdict, "policy 7"))


ANSWERS = {"once": Approval.ONCE, "crash": Approval.ONCE, "no": Approval.NO}


async def answer(access: Access, decision: Decision) -> Approval | None:
    return ANSWERS.get(access.arguments["what"])


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("look", {"what": "a file"}),
    ("act", {"what": "once"}),
    ("act", {"what": "no"}),
    ("act", {"what": "nobody"}),
    ("act", {"what": "blocked"}),
    ("act", {"what": "approved"}),
    ("act", {"what": "crash"}),
    ("deploy", {"what": "x"}),
]
EXPECTED = [
    ("allow", "mode"),
    ("allow", "answer"),
    ("deny", "answer"),
    ("deny", "answer"),
    ("deny", "hook"),
    ("allow", "hook"),
    ("allow", "answer"),
    ("deny", "rule"),
]


@tool
async def deploy(what: str) -> str:
    """Ship something."""
    return what


async def play(folder: Path) -> list[str]:
    rules = (parse_rule("deploy", source="settings.json"),)
    provider = ScriptedProvider([call_reply(*CALLS), "done"])
    store = SqliteStore(store_path(folder))
    async with Session(
        provider,
        model="m",
        store=store,
        cwd=folder,
        tools=[look, act, deploy],
        hooks=Hooks(),
        gate=Gate(cwd=folder, deny=rules, ask=answer),
    ) as session:
        await session.run("go")
        lines = [format_decision(one) for one in list_decisions(session.journal.entries)]
    await store.aclose()
    return lines


@pytest.mark.req("PRM-2", "PRM-5", "PRM-7")
def test_the_log_lists_every_decision_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "clew"))
    monkeypatch.chdir(tmp_path)

    lines = anyio.run(play, tmp_path)

    assert main(["permissions", "log", "--json"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["verdict"], one["by"]) for one in printed] == EXPECTED
    assert [one["argument"] for one in printed] == [call["what"] for _, call in CALLS]
    assert main(["permissions", "log"]) == 0
    assert [line[18:] for line in capsys.readouterr().out.splitlines()] == lines
    assert lines[2].startswith("#6 act no: denied (answer): the user said no; asked because: ")
    assert lines[4] == "#8 act blocked: denied (hook): a hook blocked this call: policy 7"
    assert lines[7] == "#11 deploy x: denied (rule): the rule deploy (settings.json) forbids this"


def test_the_log_can_be_limited_to_what_was_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "clew"))
    monkeypatch.chdir(tmp_path)

    assert main(["permissions", "log"]) == 0
    assert "there are no sessions in this folder" in capsys.readouterr().err
    anyio.run(play, tmp_path)
    assert main(["permissions", "log", "--denied", "--limit", "2"]) == 0
    printed = capsys.readouterr()
    assert [line[18:21].strip() for line in printed.out.splitlines()] == ["#8", "#11"]
    assert "2 earlier; --limit 4 shows all" in printed.err
    assert main(["permissions", "log", "absent"]) == 1
    assert "absent" in capsys.readouterr().err


@pytest.mark.req("PRM-7")
def test_the_log_has_the_decisions_of_subagents_with_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "clew"))
    monkeypatch.chdir(tmp_path)
    provider = ScriptedProvider(
        [
            call_reply(("Agent", {"prompt": "do", "agent": "general-purpose", "description": "d"})),
            call_reply(("Bash", {"command": "touch x"})),
            "the agent is done",
            "done",
        ],
        ModelFacts(name="m"),
    )

    async def work() -> None:
        store = SqliteStore(store_path(tmp_path))
        async with InteractiveSession(
            cwd=tmp_path, provider=provider, model="m", store=store, environ={}, agents=True
        ) as session:
            session.on(
                "permission_request", lambda event: session.answer(event.request_id, Approval.NO)
            )
            await session.run("go")
        await store.aclose()

    anyio.run(work)

    assert main(["permissions", "log", "--denied"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "general-purpose: Bash touch x: denied (answer)" in line
    assert main(["permissions", "log", "--json"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["tool"]: one.get("agent", "") for one in printed} == {
        "Agent": "",
        "Bash": "general-purpose",
    }


@pytest.mark.anyio
@pytest.mark.req("PRM-6", "PRM-7")
@pytest.mark.parametrize("sandboxed", [True, False])
async def test_the_log_says_whether_a_command_ran_in_the_sandbox(
    tmp_path: Path, *, sandboxed: bool
) -> None:
    @tool(name="Bash", risk=Risk.EXECUTE)
    async def run_command(command: str) -> ToolOutput:
        """Run a command."""
        return ToolOutput(text=command, data={"sandbox": sandboxed})

    provider = ScriptedProvider([call_reply(("Bash", {"command": "ls"})), "done"])
    gate = Gate(cwd=tmp_path, mode=PermissionMode.BYPASS)
    async with Session(
        provider, model="m", tools=[run_command], gate=gate, cwd=tmp_path
    ) as session:
        await session.run("go")
        (decision,) = list_decisions(session.journal.entries)

    assert decision.sandboxed is sandboxed
    assert (" in the sandbox" in format_decision(decision)) is sandboxed


def test_decisions_of_earlier_versions_can_be_read() -> None:
    record = msgspec.json.decode(
        b'{"verdict":"allow","by":"mode","reason":"r"}', type=PermissionRecord
    )

    assert record.sandboxed is None
