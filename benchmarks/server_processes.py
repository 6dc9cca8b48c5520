"""The measured servers as processes: start them, watch what they use, and stop them."""

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from benchmarks.server_load import Target, read_body
from clew.sdk.server_values import TOKEN_FILE

TOKEN = "benchmark-" + "0123456789abcdef" * 4
MODEL = ("--base-url", "http://127.0.0.1:9/v1", "--model", "gpt-4o")
"""A model that is never called."""
_STARTING = 60.0
_ENDING = 10.0
"""Seconds after which a process that does not end is killed."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the processes run: nothing of the user's is seen or changed."""

    folder: Path

    @property
    def work(self) -> Path:
        """The working directory."""
        return self.folder / "work"

    def make_environ(self, home: str) -> Mapping[str, str]:
        """Return the environment of a process with a home of its own."""
        root = self.folder / home
        return {
            **os.environ,
            "HOME": str(root),
            "CLEW_HOME": str(root / ".clew"),
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }


@dataclass(frozen=True, slots=True)
class Stop:
    """How a process ended after SIGTERM."""

    seconds: float
    code: int


class ServerProcess:
    """A server that runs."""

    def __init__(self, process: asyncio.subprocess.Process, target: Target) -> None:
        self._process = process
        self.target = target

    def read_memory(self) -> float:
        """Return the resident memory in megabytes."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def read_processor_time(self) -> float:
        """Return the seconds of processor time used so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    async def publish(self, *, rate: int, count: int) -> None:
        """Have the server send events to all clients."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{rate} {count}\n".encode())
        await self._process.stdin.drain()

    async def terminate(self) -> Stop:
        """Send SIGTERM, and wait for the end."""
        start = time.perf_counter()
        self._process.send_signal(signal.SIGTERM)
        try:
            code = await asyncio.wait_for(self._process.wait(), _ENDING)
        except TimeoutError:
            self._process.kill()
            code = await self._process.wait()
        return Stop(time.perf_counter() - start, code)


@asynccontextmanager
async def run_clew(place: Place) -> AsyncGenerator[ServerProcess, None]:
    """Run Clew's server with higher limits and one session."""
    command = ("-m", "benchmarks.server_clew", TOKEN)
    async with _run(command, place.work, place.make_environ("clew")) as (process, port):
        yield ServerProcess(process, await _open_session(Target(port, TOKEN)))


@asynccontextmanager
async def run_serve(place: Place) -> AsyncGenerator[ServerProcess, None]:
    """Run `clew serve` with one session."""
    environ = place.make_environ("serve")
    command = ("-P", "-m", "clew", *MODEL, "serve", "--port", "0")
    async with _run(command, place.work, environ) as (process, port):
        yield ServerProcess(process, await _open_session(Target(port, _read_token(environ))))


def _read_token(environ: Mapping[str, str]) -> str:
    return Path(environ["CLEW_HOME"], TOKEN_FILE).read_text(encoding="ascii").strip()


@asynccontextmanager
async def run_peer(place: Place, snapshot: bytes) -> AsyncGenerator[ServerProcess, None]:
    """Run FastAPI on uvicorn; its session has the same snapshot."""
    file = place.folder / "snapshot.json"
    file.write_bytes(snapshot)
    command = ("-m", "benchmarks.server_peer", TOKEN, str(file))
    async with _run(command, place.work, place.make_environ("peer")) as (process, port):
        yield ServerProcess(process, Target(port, TOKEN, "peer"))


@asynccontextmanager
async def _run(
    arguments: tuple[str, ...], cwd: Path, environ: Mapping[str, str]
) -> AsyncGenerator[tuple[asyncio.subprocess.Process, int], None]:
    """Start Python and wait for the line with the port; the process is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=cwd,
        env=environ,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process, await asyncio.wait_for(_read_port(process), _STARTING)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _read_port(process: asyncio.subprocess.Process) -> int:
    assert process.stdout is not None
    text = ""
    while line := (await process.stdout.readline()).decode():
        text += line
        if found := re.search(r"^(?:clew: open http://127\.0\.0\.1:)?(\d+)(?:/login.*)?$", line):
            return int(found[1])
    raise RuntimeError(f"the server did not start:\n{text}")


async def _open_session(target: Target) -> Target:
    request = target.write_request("/api/v1/sessions").replace(b"GET", b"POST", 1)
    body = b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    answer = await ask(target.port, request[:-2] + body)
    session = msgspec.json.decode(answer)["session_id"]
    return replace(target, session_id=session)


async def ask(port: int, request: bytes) -> bytes:
    """Send one request and return the body of its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await read_body(reader)
    finally:
        writer.close()
        await writer.wait_closed()
