"""`clew -p` for programs: prompts and answers as lines of JSON, and answers that fit a schema."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from clew.cli.input_stream import AbortLine, AnswerLine, InputLine, PromptLine, read_input
from clew.core.permissions import Approval
from clew.testing.fake_openai import fake_openai, text_response, tool_call_response
from tests.forked_clew import run_clew

pytestmark = [pytest.mark.anyio, pytest.mark.req("CLI-2")]

CLEW = [sys.executable, "-m", "clew.cli"]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer", "minimum": 1}},
    "required": ["name", "size"],
    "additionalProperties": False,
}


def environ(folder: Path) -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "PYTHONPATH") if key in os.environ}
    return {**kept, "HOME": str(folder), "CLEW_HOME": str(folder / "clew")}


async def clew(
    *arguments: str, folder: Path, typed: str = ""
) -> "subprocess.CompletedProcess[str]":
    with anyio.fail_after(60):
        done = await run_clew(arguments, env=environ(folder), cwd=folder, input=typed.encode())
    return subprocess.CompletedProcess(
        arguments, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


class Talk:
    """A process that reads and writes lines of JSON."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._stdin = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)

    async def send(self, **line: Any) -> None:
        await self._stdin.send(json.dumps(line).encode() + b"\n")

    async def close(self) -> None:
        await self._stdin.aclose()

    async def wait_for(self, name: str) -> dict[str, Any]:
        """Return the next event of that name."""
        while True:
            line = await self._stdout.receive_until(b"\n", 1_000_000)
            event: dict[str, Any] = json.loads(line)["event"]
            if event["event"] == name:
                return event


@asynccontextmanager
async def talk(*arguments: str, folder: Path) -> AsyncIterator[Talk]:
    formats = ("--input-format", "stream-json", "--output-format", "stream-json")
    with anyio.fail_after(60):
        async with await anyio.open_process(
            [*CLEW, "-p", *formats, *arguments], env=environ(folder), cwd=folder
        ) as process:
            try:
                yield Talk(process)
            finally:
                if process.returncode is None:
                    process.kill()


@pytest.mark.slow("starts clew")
async def test_prompts_and_permission_answers_are_lines_of_standard_input(tmp_path: Path) -> None:
    async with fake_openai(
        tool_call_response("Write", '{"file_path":"a.txt","content":"x"}'),
        text_response("written"),
        tool_call_response("Write", '{"file_path":"b.txt","content":"x"}', call_id="call_2"),
        text_response("not written"),
    ) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        async with talk(*flags, folder=tmp_path) as program:
            await program.send(type="prompt", text="write a")
            request = await program.wait_for("permission_request")
            await program.send(type="answer", request_id=request["request_id"], approval="once")
            first = await program.wait_for("result")
            await program.send(type="prompt", text="write b")
            request = await program.wait_for("permission_request")
            await program.send(
                type="answer", request_id=request["request_id"], approval="no", reply="use c"
            )
            second = await program.wait_for("result")
            await program.close()
            code = await program.process.wait()

        assert "use c" in str(server.requests[3]["messages"])
    assert (first["text"], first["denials"]) == ("written", [])
    assert (second["text"], second["turns"]) == ("not written", 2)
    assert [denial["target"] for denial in second["denials"]] == ["b.txt"]
    assert first["session_id"] == second["session_id"]
    assert code == 0
    assert (tmp_path / "a.txt").exists()


@pytest.mark.slow("starts clew")
async def test_at_the_end_of_the_input_an_open_request_is_denied(tmp_path: Path) -> None:
    async with fake_openai(
        tool_call_response("Write", '{"file_path":"a.txt","content":"x"}'), text_response("done")
    ) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        async with talk(*flags, folder=tmp_path) as program:
            await program.send(type="prompt", text="write a")
            await program.wait_for("permission_request")
            await program.close()
            result = await program.wait_for("result")

            assert await program.process.wait() == 0
    assert [denial["tool"] for denial in result["denials"]] == ["Write"]


@pytest.mark.slow("starts clew")
async def test_a_wrong_line_is_bad_usage(tmp_path: Path) -> None:
    formats = ("--input-format", "stream-json", "--output-format", "stream-json")
    flags = ("--base-url", "http://127.0.0.1:9/v1", "--model", "gpt-4o")

    done = await clew("-p", *formats, *flags, folder=tmp_path, typed='\n{"type":"promt"}\n')

    assert done.returncode == 2
    assert "line 2 of standard input is wrong: Invalid value 'promt'" in done.stderr


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (b'{"type":"prompt","text":"x"}', [PromptLine(text="x")]),
        (b'\n\n{"type":"abort"}\n  \n{"type":"abort"}\n', [AbortLine(), AbortLine()]),
        (
            b'{"type":"answer","request_id":"r","approval":"session"}\n',
            [AnswerLine(request_id="r", approval=Approval.SESSION)],
        ),
        (b"", []),
    ],
)
@pytest.mark.parametrize("is_pipe", [True, False])
async def test_lines_of_a_pipe_and_of_a_file_are_read(
    tmp_path: Path, typed: bytes, found: list[InputLine], *, is_pipe: bool
) -> None:
    if is_pipe:
        reader, writer = os.pipe()
        os.write(writer, typed)
        os.close(writer)
    else:
        (tmp_path / "lines").write_bytes(typed)
        reader = os.open(tmp_path / "lines", os.O_RDONLY)
    try:
        assert [line async for line in read_input(reader)] == found
    finally:
        os.close(reader)


async def test_the_null_device_has_no_lines() -> None:
    reader = os.open(os.devnull, os.O_RDONLY)
    try:
        assert [line async for line in read_input(reader)] == []
    finally:
        os.close(reader)


@pytest.mark.slow("starts clew")
async def test_an_answer_satisfies_the_schema_after_a_correction(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    async with fake_openai(
        text_response('Here you are: {"name": "oak", "size": 0}'),
        text_response('```json\n{"name": "oak", "size": 3}\n```'),
        text_response('{"name": "elm", "size": 4}'),
    ) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o", "--json-schema", str(schema))
        text = await clew("-p", "a tree", *flags, folder=tmp_path)
        parsed = await clew("-p", "a tree", *flags, "--output-format", "json", folder=tmp_path)

        assert "JSON Schema" in server.requests[0]["messages"][0]["content"]
        repair = server.requests[1]["messages"][-1]["content"]
        assert "$.size must be at least 1, not 0" in repair
    assert (text.returncode, text.stdout) == (0, '{"name":"oak","size":3}\n')
    assert json.loads(parsed.stdout)["structured"] == {"name": "elm", "size": 4}


@pytest.mark.slow("starts clew")
async def test_an_answer_that_never_satisfies_the_schema_has_an_exit_code(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    async with fake_openai(text_response("I like trees.")) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o", "--json-schema", str(schema))
        text = await clew("-p", "a tree", *flags, folder=tmp_path)
        parsed = await clew("-p", "a tree", *flags, "--output-format", "json", folder=tmp_path)

        assert len(server.requests) == 8
    result = json.loads(parsed.stdout)
    assert (text.returncode, text.stdout) == (3, "")
    assert "does not satisfy the schema after 3 corrections" in text.stderr
    assert (parsed.returncode, result["error_type"], result["turns"]) == (3, "AnswerRejected", 4)
