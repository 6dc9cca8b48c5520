"""`clew serve` as a process: what it prints, and how it ends."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import anyio
import pytest
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from clew.testing.fake_openai import fake_openai

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.req("SRV-1"),
    pytest.mark.slow("starts clew"),
]

SECONDS = 60
STREAMS = 100


@asynccontextmanager
async def started(folder: Path, *flags: str) -> AsyncGenerator[Process, None]:
    """Start `clew serve`; it is killed if the test leaves it running."""
    command = [sys.executable, "-m", "clew", *flags]
    environ = {"HOME": str(folder), "CLEW_HOME": str(folder / "clew"), "PATH": "/usr/bin:/bin"}
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            command, cwd=folder, env=environ, stdout=subprocess.DEVNULL
        )
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()


async def read_output(process: Process, pattern: str) -> str:
    """Read standard error up to a text."""
    assert process.stderr is not None
    text = ""
    async for piece in TextReceiveStream(process.stderr):
        text += piece
        if found := re.search(pattern, text):
            return found[1] if found.groups() else text
    raise AssertionError(text)


async def test_the_server_ends_at_once_with_many_open_streams(tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with (
            fake_openai() as model,
            started(
                tmp_path, *("--base-url", model.url, "--model", "gpt-4o"), "serve", "--port", "0"
            ) as process,
        ):
            text = await read_output(process, r"token in \S+\n")
            (url,) = re.findall(r"open (http://127\.0\.0\.1:\d+)/login\?code=", text)
            (token_file,) = re.findall(r"token in (\S+)\n", text)
            assert token_file == str(tmp_path / "clew" / "server.token")
            token = Path(token_file).read_text().strip()
            ended: list[bool] = []
            async with aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {token}"},
                connector=aiohttp.TCPConnector(limit=0),
            ) as http:
                async with http.post(f"{url}/api/v1/sessions", json={}) as reply:
                    session = (await reply.json())["session_id"]

                async def watch(*, task_status: anyio.abc.TaskStatus[None]) -> None:
                    events = f"{url}/api/v1/sessions/{session}/events"
                    async with http.get(events) as stream:
                        assert stream.status == 200
                        task_status.started()
                        await stream.content.read()
                        ended.append(True)

                async with anyio.create_task_group() as tasks:
                    for _ in range(STREAMS):
                        await tasks.start(watch)
                    process.send_signal(signal.SIGTERM)
                    code = await process.wait()

    assert code == 0
    assert len(ended) == STREAMS


async def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, anyio.fail_after(SECONDS):
        port = taken.getsockname()[1]
        async with started(tmp_path, "serve", "--port", str(port)) as process:
            text = await read_output(process, "\n$")
            code = await process.wait()

    assert code == 1
    assert f"port {port} of 127.0.0.1 is in use" in text
    assert "--port 0" in text
    assert "Traceback" not in text
