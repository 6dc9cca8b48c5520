"""`clew -p` and the background: it waits for agents, and their results reach the answer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from clew.core.events import decode_envelope
from clew.testing.fake_openai import (
    ScriptedResponse,
    Stall,
    fake_openai,
    text_response,
    tool_call_response,
)
from tests.cli.test_print_mode import CLEW, clew, folder, home

__all__ = ["folder", "home"]

pytestmark = [pytest.mark.anyio, pytest.mark.req("CLI-1", "BGT-5")]

TASK = "find the leak"
START = json.dumps({"prompt": TASK, "background": True})


def answer_with(gate: Stall) -> Callable[[bytes], ScriptedResponse]:
    """Return a model that starts an agent, answers, and answers again when it knows the result."""

    def answer(body: bytes) -> ScriptedResponse:
        messages: list[dict[str, Any]] = json.loads(body)["messages"]
        if any(message["content"] == TASK for message in messages):
            found = text_response("It is in feed.py.")
            return ScriptedResponse(steps=[gate, *found.steps])
        if not any(message["role"] == "tool" for message in messages):
            return tool_call_response("Agent", START)
        if "It is in feed.py." in json.dumps(messages[-1]):
            return text_response("The leak is in feed.py.")
        gate.release()
        return text_response("I have started an agent.")

    return answer


async def test_it_waits_for_background_agents_and_answers_with_their_results(
    home: dict[str, str], folder: Path
) -> None:
    async with fake_openai(answer_with(Stall())) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        done = await clew("-p", "who leaks?", *flags, env=home, cwd=folder)

    assert done.returncode == 0
    assert done.stdout == "I have started an agent.\nThe leak is in feed.py.\n"
    assert "waiting for 1 background agent" in done.stderr


async def test_json_output_has_the_last_answer(home: dict[str, str], folder: Path) -> None:
    async with fake_openai(answer_with(Stall())) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o", "--output-format", "json")
        done = await clew("-p", "who leaks?", *flags, env=home, cwd=folder)

    assert json.loads(done.stdout)["text"] == "The leak is in feed.py."


@pytest.mark.req("INT-1")
async def test_a_stream_has_the_events_of_the_task(home: dict[str, str], folder: Path) -> None:
    async with fake_openai(answer_with(Stall())) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o", "--output-format", "stream-json")
        done = await clew("-p", "who leaks?", *flags, env=home, cwd=folder)

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    envelopes = [
        decode_envelope(json.dumps(line).encode())
        for line in lines
        if line["event"]["event"] not in ("session", "result")
    ]
    stages = [line["event"]["stage"] for line in lines if "stage" in line["event"]]
    assert stages[0] == "created"
    assert stages[-1] == "completed"
    assert {one.name for one in envelopes if one.task_id} >= {"text_delta", "context_update"}
    assert lines[-1]["event"]["text"] == "The leak is in feed.py."


async def test_a_signal_ends_the_wait(home: dict[str, str], folder: Path) -> None:
    gate = Stall()

    def answer(body: bytes) -> ScriptedResponse:
        messages: list[dict[str, Any]] = json.loads(body)["messages"]
        if any(message["content"] == TASK for message in messages):
            return ScriptedResponse(steps=[gate])
        if not any(message["role"] == "tool" for message in messages):
            return tool_call_response("Agent", START)
        return text_response("I have started an agent.")

    async with fake_openai(answer) as server:
        command = ("-p", "who leaks?", "--base-url", server.url, "--model", "gpt-4o")
        with anyio.fail_after(60):
            process = await anyio.open_process([*CLEW, *command], env=home, cwd=folder)
            async with process:
                assert process.stderr is not None
                said = b""
                while b"waiting for 1 background agent" not in said:
                    said += await process.stderr.receive()
                await gate.reached.wait()
                process.terminate()
                await process.wait()

    assert process.returncode == 143
