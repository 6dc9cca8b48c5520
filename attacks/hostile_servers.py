"""Model servers that send too much, too little, or something else.

Each attack runs a session in a process of its own (`attacks/victim.py`) against a server on
loopback. The session must get an answer or a typed error, use a bounded amount of memory, and
answer the next prompt.
"""

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count

import anyio
import msgspec
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from attacks.corpus import Outcome, Status, run_together, select_sample
from attacks.server_attacks import API_ATTACKS, ATTACKS, Attack, make_head
from attacks.victim import RECOVERY, Report
from clew.testing.fake_apis.protocol import ModelReply
from tests.providers.harnesses import HARNESSES

NAME = "hostile-servers"
TARGET = "typed error or answer, bounded memory, next prompt is answered"
APIS = ("anthropic", "bedrock", "gemini", "openai", "openai-chat")
MAX_GROWTH = 160 * 1024
"""Kilobytes that an attack may add to the memory of a session's process."""
TOGETHER = 4
"""Attacks at the same time: most of them wait."""
MAX_SERVED = 3
"""Requests that get the attack before the server behaves: a session may try again."""
HANGS = 120.0
"""Seconds after which an attack counts as a failure."""


async def run(sample: int | None = None) -> AsyncIterator[Outcome]:
    """Attack a session over HTTP; attacks on a wire format run once for each API."""
    cases = [(attack, "openai-chat") for attack in ATTACKS]
    cases += [(attack, api) for attack in API_ATTACKS for api in APIS]

    async def attack(case: tuple[Attack, str]) -> list[Outcome]:
        return [await attack_session(*case)]

    async for outcome in run_together(select_sample(cases, sample), attack, limit=TOGETHER):
        yield outcome


async def attack_session(attack: Attack, api: str) -> Outcome:
    """Attack a session in a process of its own."""
    case = f"{attack.name} ({api})"
    async with serve_attack(attack, api) as url:
        command = [sys.executable, "-m", "attacks.victim", api, url, str(attack.idle_timeout)]
        with anyio.move_on_after(HANGS):
            done = await anyio.run_process(command, check=False)
            return _judge(case, done.returncode, done.stdout, done.stderr)
    return Outcome(case, Status.FAILED, f"no end after {HANGS:g} seconds")


def _judge(case: str, code: int, out: bytes, err: bytes) -> Outcome:
    if code != 0:
        last = err.decode(errors="replace").strip().splitlines()[-1:]
        return Outcome(case, Status.FAILED, f"exit code {code}: {' '.join(last)}")
    report = msgspec.json.decode(out, type=Report)
    if report.second != "ok":
        return Outcome(case, Status.FAILED, f"the next prompt failed: {report.second}")
    if report.growth > MAX_GROWTH:
        return Outcome(case, Status.FAILED, f"{report.growth // 1024} MB more memory")
    return Outcome(case, Status.HELD, report.first)


@asynccontextmanager
async def serve_attack(attack: Attack, api: str) -> AsyncIterator[str]:
    """Serve the attack to the first prompt, and `ok` to the next one."""
    harness = HARNESSES[api]
    usual = b"".join(harness.api.stream(ModelReply(words=("ok",))))
    served = count()

    async def handle(stream: SocketStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
            async with stream:
                body = await _read_body(stream)
                if RECOVERY.encode() in body or next(served) >= MAX_SERVED:
                    await stream.send(make_head(harness.api.content_type) + usual)
                else:
                    await attack.play(stream, harness)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, handle)
        _, port = listener.extra_attributes[SocketAttribute.local_address]()
        yield f"http://127.0.0.1:{port}"
        group.cancel_scope.cancel()


async def _read_body(stream: SocketStream) -> bytes:
    """Return the body of a request, which has a length."""
    reader = BufferedByteReceiveStream(stream)
    head = await reader.receive_until(b"\r\n\r\n", 65_536)
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return await reader.receive_exactly(int(length[1])) if length else b""
