"""At level `raw`, the log of every adapter has its HTTP bodies, without the API key."""

from pathlib import Path
from typing import Any

import pytest

from clew import Session, tool
from clew.core.ids import CallId
from clew.core.messages import ToolCall
from clew.core.permissions import Risk
from clew.log.events import LogLevel, NativePayload
from clew.log.replay_state import ReplayState
from clew.log.validation import validate_log
from clew.log.writer import SessionLog
from clew.providers.replay import ReplayProvider
from clew.sdk.replay import replay_session
from clew.sdk.replay_script import script_from_log
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.provider_harness import API_KEY, HttpHarness
from tests.providers.harnesses import HARNESSES

pytestmark = pytest.mark.anyio


@tool(risk=Risk.INSPECT)
def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing {where}"


def replies(harness: HttpHarness) -> list[ModelReply]:
    """A round with a tool, thinking where the API has it, and two answers."""
    call = ToolCall(call_id=CallId("call_1"), name="look", arguments='{"where":"here"}')
    first = ModelReply(
        calls=(call,),
        thoughts=("let me ", "see") if harness.capabilities.thinking else (),
        signature="c2VhbGVk" if harness.capabilities.signatures else "",
    )
    return [first, ModelReply(words=("nothing", " there")), ModelReply(words=("good bye",))]


def sent(path: Path) -> list[dict[str, Any]]:
    """Put the bodies together again that went over the wire."""
    state, bodies = ReplayState(path), []
    for line in state.lines():
        event = line.event
        if isinstance(event, NativePayload) and event.payload_kind == "request":
            lists = {name: state.wire_list(name) for name in event.lists}
            named = {name: state.contents.get(sha256) for name, sha256 in event.named.items()}
            bodies.append({**event.payload, **lists, **named})
    return bodies


@pytest.mark.req("LOG-1", "LOG-2", "LOG-5")
@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("harness", HARNESSES.values(), ids=HARNESSES.keys())
async def test_every_http_body_is_in_the_log(
    tmp_path: Path, harness: HttpHarness, *, streaming: bool
) -> None:
    if not streaming and not harness.capabilities.whole:
        pytest.skip("this API always streams")
    log = SessionLog(tmp_path, level=LogLevel.RAW)
    busy = harness.error_response(503, "later", retry_after="0")
    script = replies(harness)
    async with harness.serve(script[0], busy, *script[1:], streaming=streaming) as (
        provider,
        server,
    ):
        options: dict[str, Any] = {"model": harness.model, "tools": [look], "session_id": "s"}
        async with Session(provider, session_log=log, **options) as session:
            await session.run("go")
            await session.run("thanks")
        bodies = server.requests

    path = tmp_path / "s.jsonl"
    assert sent(path) == bodies
    assert len(bodies) == 4
    assert API_KEY not in "".join(file.read_text() for file in tmp_path.rglob("*.*"))
    assert [str(fault) for fault in validate_log(path).faults] == []
    recorded_script = script_from_log(path)
    again = ReplayProvider(recorded_script.recording)
    done = await replay_session(recorded_script, again)
    assert (again.differences, done.difference, done.calls) == ([], None, 3)
