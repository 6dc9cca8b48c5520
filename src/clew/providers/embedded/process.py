"""Start, monitor and stop the process of the embedded model."""

import os
import secrets
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import anyio
import anyio.abc
import msgspec

from clew.core.errors import (
    ClewError,
    ConfigError,
    MissingExtra,
    ModelFileDamaged,
    ProviderError,
)
from clew.core.json_text import decode_json
from clew.providers.embedded.server import KEY_VARIABLE, StartupReport

START_LIMIT = 60.0
STOP_LIMIT = 2.0
SERVER = (sys.executable, "-P", "-m", "clew.providers.embedded.server")
"""`-P` keeps Python from importing modules of the project's folder, such as a `json.py`."""
_EXTRA = "embedded"
_MAX_THREADS = 4


def choose_threads(cores: int) -> int:
    """Return how many threads the model uses: half of the cores, at most four.

    A thread without a core of its own makes the others wait, so a busy machine needs spare cores.
    """
    return max(1, min(_MAX_THREADS, cores // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """How to start the process."""

    model: Path
    port: int = 0
    """0 for a free port."""
    window: int = 8_192
    threads: int = 1
    command: Sequence[str] = SERVER

    def arguments(self) -> list[str]:
        """Return the command line."""
        named = {"model": self.model, "port": self.port, "window": self.window}
        flags = [word for name, value in named.items() for word in (f"--{name}", str(value))]
        return [*self.command, *flags, "--threads", str(self.threads)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """A running process, its address and its API key."""

    address: str = ""
    key: str
    process: anyio.abc.Process
    stderr: IO[bytes]

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self.process.returncode is None

    async def wait_for_end(self, *, within: float) -> bool:
        """Return whether the process ends within `within` seconds."""
        with anyio.move_on_after(within):
            await self.process.wait()
        return not self.alive

    def exit_error(self, provider: str) -> ProviderError:
        """Return the error for a process that ended by itself, with its last output."""
        self.stderr.seek(0)
        lines = self.stderr.read()[-4096:].decode(errors="replace").split("\n")
        words = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
        return ProviderError(
            f"The embedded model's process ended with code {self.process.returncode}:"
            f" {words.rstrip('.')}. The next call restarts it.",
            provider=provider,
        )

    async def stop(self) -> None:
        """Stop the process: close its stdin, then kill it if it does not end."""
        with anyio.CancelScope(shield=True):
            if self.process.stdin is not None:
                await self.process.stdin.aclose()
            if not await self.wait_for_end(within=STOP_LIMIT):
                self.process.kill()
            await self.process.aclose()
        self.stderr.close()


async def start_server(launch: LaunchOptions, *, provider: str) -> ServerProcess:
    """Start the process and wait until it accepts requests.

    Raises:
        MissingExtra: xllamacpp is not installed.
        ModelFileDamaged: The file cannot be loaded.
        ConfigError: The file is missing, or the port is in use.
        ProviderError: The process died or did not become ready in time.
    """
    if not await anyio.Path(launch.model).is_file():
        raise ConfigError(
            f"The embedded model is not at {launch.model}. Download it with: clew models get"
        )
    key = secrets.token_urlsafe(24)
    stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
    # Cancelled while the process starts, it would be left without a parent that waits.
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            launch.arguments(),
            stderr=stderr,
            env={**os.environ, KEY_VARIABLE: key},
            # Ctrl-C is for the parent, which stops the model itself.
            start_new_session=True,
        )
    child = ServerProcess(key=key, process=process, stderr=stderr)
    async with AsyncExitStack() as unfinished:
        unfinished.push_async_callback(child.stop)
        report = await _report(process)
        if not report.address:
            raise await _failure(report, launch, child=child, provider=provider)
        unfinished.pop_all()
    return replace(child, address=report.address)


async def _report(process: anyio.abc.Process) -> StartupReport:
    assert process.stdout is not None  # noqa: S101 - open_process makes a pipe by default
    line = b""
    with anyio.move_on_after(START_LIMIT):
        try:
            while not line.endswith(b"\n"):
                line += await process.stdout.receive()
            return decode_json(line, type=StartupReport)
        except (anyio.EndOfStream, msgspec.DecodeError):
            return StartupReport()
    return StartupReport(error="slow")


async def _failure(
    report: StartupReport, launch: LaunchOptions, *, child: ServerProcess, provider: str
) -> ClewError:
    match report.error:
        case "missing":
            return MissingExtra("The embedded model needs xllamacpp.", extra=_EXTRA)
        case "port":
            return ConfigError(
                f"Port {launch.port} is already in use. Stop the program that uses it, or set the"
                " port of the embedded model to 0 to choose a free one."
            )
        case "model":
            return ModelFileDamaged(
                f"The model file {launch.model} cannot be loaded: it is damaged or has another"
                " format. Delete it and download it again with: clew models get"
            )
        case "slow":
            return ProviderError(
                f"The embedded model was not ready after {START_LIMIT:g} seconds."
                " Try again when the machine is less busy.",
                provider=provider,
            )
    await child.wait_for_end(within=STOP_LIMIT)
    return child.exit_error(provider)
