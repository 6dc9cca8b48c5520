"""Deeply nested JSON from a model, a hook or a file never ends a run or a command."""

from pathlib import Path

import pytest

from clew import Session
from clew.core.models import ModelFacts
from clew.hooks.output import interpret_body
from clew.hooks.protocol import HookEvent
from clew.log.replay_state import replay_log
from clew.log.validation import validate_log
from clew.log.writer import SessionLog
from clew.providers.protocol import CallChunk, Finished, StopReason
from clew.providers.scripted import ScriptedProvider, ScriptedReply
from clew.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools
from clew.tools.builtin.read import render_notebook
from tests.session.person import clew

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-1")]

DEPTHS = (300, 990, 100_000)
FACTS = ModelFacts(name="m", window=400_000)


def nested(depth: int) -> str:
    return '{"file_path": "a", "deep": ' + "[" * depth + "]" * depth + "}"


def call(arguments: str) -> ScriptedReply:
    """Return a reply with one call whose arguments come in two pieces."""
    half = len(arguments) // 2
    return [
        CallChunk(index=0, name="Read", arguments=arguments[:half]),
        CallChunk(index=0, arguments=arguments[half:], complete=True),
        Finished(reason=StopReason.TOOL_CALLS),
    ]


@pytest.mark.parametrize("depth", DEPTHS)
async def test_the_model_reads_that_its_arguments_are_nested_too_deeply(
    tmp_path: Path, depth: int
) -> None:
    store = SqliteStore(tmp_path / "s.db")
    provider = ScriptedProvider([call(nested(depth)), "I see.", "yes", "more"], FACTS)
    log = SessionLog(tmp_path / "logs")
    async with Session(
        provider, model="m", tools=builtin_tools(), store=store, session_id="s", session_log=log
    ) as session:
        assert await session.run("read it") == "I see."
        told = next(m for m in session.get_history() if m.results).results[0]
        assert await session.run("still there?") == "yes"
        assert await session.recall("Read")
    async with Session(provider, model="m", store=store, session_id="s") as again:
        assert await again.run("and now?") == "more"
    await store.aclose()

    assert told.failed
    assert "nested more than 128 levels deep" in told.text
    assert validate_log(tmp_path / "logs" / "s.jsonl").faults == ()
    assert len(replay_log(tmp_path / "logs" / "s.jsonl").history) > 4


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_hook_with_nested_output_decides_nothing_and_is_reported(depth: int) -> None:
    answer = '{"decision": "block", "hookSpecificOutput": ' + nested(depth) + "}"

    verdict = interpret_body(HookEvent.PRE_TOOL_USE, answer)

    assert "nested more than 128 levels" in verdict.reports[0]
    assert verdict.decision is None


def test_a_nested_notebook_is_no_notebook() -> None:
    assert render_notebook(('{"cells": ' + "[" * 100_000 + "]" * 100_000 + "}").encode()) is None


CLAUDE = (
    '{"type":"user","uuid":"1","sessionId":"s","cwd":"/","timestamp":"2025-01-01T00:00:00Z",'
    '"message":{"role":"user","content":"hi"}}\n'
    '{"type":"assistant","uuid":"2","parentUuid":"1","sessionId":"s",'
    '"timestamp":"2025-01-01T00:00:01Z","message":{"role":"assistant","content":'
    '[{"type":"tool_use","id":"t","name":"X","input":%s}]}}\n'
)


@pytest.mark.slow("starts clew")
@pytest.mark.parametrize("depth", [990, 100_000])
async def test_commands_report_nested_lines_of_files(tmp_path: Path, depth: int) -> None:
    store, file = tmp_path / "store" / "s.db", tmp_path / "session.jsonl"
    file.write_text(CLAUDE % nested(depth))

    imported = await clew("sessions", "import", str(file), store=store)
    simulated = await clew("simulate", str(file), store=store)
    shown = await clew("log", "show", str(file), store=store)
    (tmp_path / ".clew").mkdir()
    (tmp_path / ".clew" / "settings.json").write_text(nested(depth))
    configured = await clew("config", "show", store=store)
    changed = await clew("config", "set", "session.toolTimeout", "[" * depth, store=store)

    assert (imported.returncode, simulated.returncode, configured.returncode) == (0, 0, 1)
    assert b"line 2 is torn or not JSON and was skipped" in imported.stderr
    assert b"nested" in shown.stderr
    assert b"nested too deeply" in configured.stderr
    for done in (imported, simulated, shown, configured, changed):
        assert b"Traceback" not in done.stderr
