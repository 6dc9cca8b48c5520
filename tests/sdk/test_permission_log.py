"""The permission log: why each tool call of a session was allowed or denied."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from clew import Session, tool
from clew.cli.main import main
from clew.core.permissions import Access, Approval, Decision, Risk, Verdict
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.permissions.rules import parse_rule
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.sdk.folders import store_path
from clew.sdk.permission_log import format_decision, list_decisions
from clew.session.gate import Gate
from clew.stores.sqlite import SqliteStore


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


@pytest.mark.req("PRM-2")
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
