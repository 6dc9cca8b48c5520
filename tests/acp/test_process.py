"""`clew acp` as a process, as editors start it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import acp.schema
import anyio
import pytest
from acp import spawn_agent_process

from clew.acp.connection import Connection
from clew.acp.messages import SessionParams
from clew.sdk.stdio import split_lines
from clew.testing.fake_openai import (
    ScriptedResponse,
    Stall,
    delta,
    fake_openai,
    text_response,
    tool_call_response,
)
from tests.acp.editor import Editor, LineChecker, check_against

pytestmark = [pytest.mark.anyio, pytest.mark.req("ACP-1")]


def environment(root: Path) -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    return {**kept, "HOME": str(root), "CLEW_HOME": str(root / "clew")}


async def test_the_client_of_the_sdk_drives_a_process_and_the_terminal_resumes_its_session(
    tmp_path: Path,
) -> None:
    editor, env, checker = Editor(), environment(tmp_path), LineChecker()
    write = json.dumps({"file_path": "new.txt", "content": "one\n"})
    script = (
        tool_call_response("Write", write),
        text_response("written"),
        text_response("copied"),
        ScriptedResponse(steps=[delta(content="Half"), Stall()]),
        text_response("again"),
    )
    async with fake_openai(*script) as server:
        with anyio.fail_after(60):
            async with spawn_agent_process(
                editor,  # type: ignore[arg-type]
                sys.executable,
                *("-m", "clew.cli", "--model", "m", "--base-url", server.url, "acp"),
                env=env,
                cwd=tmp_path,
                use_unstable_protocol=True,
                observers=[checker.observe],
            ) as (agent, process):

                async def ask(session_id: str, text: str) -> str:
                    block = acp.schema.TextContentBlock(type="text", text=text)
                    result = await agent.prompt(session_id=session_id, prompt=[block])
                    return result.stop_reason

                begun = await agent.initialize(protocol_version=1)
                first = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
                ends = [await ask(first, "write it")]
                fork = await agent.fork_session(cwd=str(tmp_path), session_id=first)
                ends.append(await ask(fork.session_id, "copy it"))
                await agent.close_session(session_id=first)
                editor.updates.clear()
                await agent.load_session(cwd=str(tmp_path), session_id=first)
                shown = editor.text("user_message_chunk")

                async def cancel() -> None:
                    while not editor.text().endswith("Half"):
                        await anyio.lowlevel.checkpoint()
                    await agent.cancel(session_id=first)

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(cancel)
                    ends.append(await ask(first, "talk"))
            resumed = await anyio.run_process(
                [sys.executable, "-m", "clew.cli", "-p", "more", "--resume", first],
                env=env,
                cwd=tmp_path,
            )

    assert begun.protocol_version == 1
    assert ends == ["end_turn", "end_turn", "cancelled"]
    assert [question.tool_call.title for question in editor.questions] == ["Write new.txt"]
    assert (tmp_path / "new.txt").read_text() == "one\n"
    assert shown == "write it"
    assert process.returncode == 0
    assert resumed.stdout == b"again\n"
    said = [one["content"] for one in server.requests[-1]["messages"] if one["role"] == "user"]
    assert [text for text in said if text in ("write it", "talk", "more")] == [
        "write it",
        "talk",
        "more",
    ]
    assert checker.failures == []
    assert checker.lines > 20


async def test_a_signal_saves_the_run_and_standard_output_has_only_messages(
    tmp_path: Path,
) -> None:
    answer = ScriptedResponse(steps=[delta(content="Half"), Stall()])
    async with fake_openai(answer) as server:
        with anyio.fail_after(60):
            async with await anyio.open_process(
                [sys.executable, "-m", "clew.cli", "--model", "m", "--base-url", server.url, "acp"],
                env=environment(tmp_path),
                cwd=tmp_path,
                stderr=subprocess.DEVNULL,
            ) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                lines = split_lines(aiter(process.stdout))

                async def ask(number: int, method: str, params: dict[str, Any]) -> None:
                    assert process.stdin is not None
                    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                    await process.stdin.send(json.dumps(body).encode() + b"\n")

                async def read() -> dict[str, Any]:
                    line = await anext(lines)
                    assert line is not None
                    message: dict[str, Any] = json.loads(line)
                    return message

                await ask(1, "initialize", {"protocolVersion": 1})
                check_against(acp.schema.InitializeResponse, (await read())["result"])
                await ask(2, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
                session_id = (await read())["result"]["sessionId"]
                prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": "hi"}]}
                await ask(3, "session/prompt", prompt)
                while "agent_message_chunk" not in json.dumps(await read()):
                    pass
                process.send_signal(signal.SIGTERM)
                async for rest in lines:
                    assert rest is not None
                    json.loads(rest)
                code = await process.wait()
    shown = await anyio.run_process(
        [sys.executable, "-m", "clew.cli", "sessions", "show", session_id],
        env=environment(tmp_path),
        cwd=tmp_path,
    )

    assert code == 128 + signal.SIGTERM
    assert b"Half" in shown.stdout


async def test_a_line_that_is_too_long_is_refused_and_the_next_one_is_read() -> None:
    async def pieces() -> Any:
        for piece in (b"a" * 6, b"a" * 6, b"a\nshort\n", b"\n  \nlast"):
            yield piece

    assert [line async for line in split_lines(pieces(), limit=10)] == [None, b"short", b"last"]


async def test_an_editor_that_stops_reading_ends_the_connection() -> None:
    async def nothing() -> Any:
        await anyio.sleep_forever()
        yield b""

    async def broken(_: bytes) -> None:
        raise BrokenPipeError

    async def handle(method: str, params: Any) -> None:
        return None

    connection = Connection(nothing(), broken)
    connection.notify("session/update", SessionParams("s"))
    with anyio.fail_after(60):
        await connection.serve(handle)
