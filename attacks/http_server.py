"""Attacks on `clew serve`: requests that must not get in, and floods that must not bring it down.

The server runs in a process of its own (`attacks/served_victim.py`). After each attack it must
answer a request with the token, and its memory must be bounded.
"""

import re
import socket
import sys
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from anyio import to_thread
from anyio.abc import SocketStream

from attacks.corpus import Outcome, Status, select_sample
from attacks.http_requests import SCRIPT, Refused, Victim, list_refused, make_request
from attacks.served_victim import CANARY, TOKEN
from clew.sdk.server_values import BASE
from clew.server.access.connections import raise_file_limit

NAME = "http-server"
TARGET = "nothing gets in or executes, memory is bounded, the owner is answered"
HANGS = 60.0
"""Seconds after which an attack counts as a failure."""
MAX_GROWTH = 128 * 1024
"""Kilobytes that all attacks together may add to the memory of the server."""
CONNECTIONS = 10_000
FEW_CONNECTIONS = 300
"""When only a sample is carried out."""
REFUSALS = frozenset({400, 401, 403, 404, 405, 408, 411, 413, 414, 417, 431})
BEARER = {"Authorization": f"Bearer {TOKEN}"}

_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)

Flood = Callable[[Victim], Awaitable[str]]
"""Attacks a server; returns what went wrong, or nothing."""


async def run(sample: int | None = None) -> AsyncIterator[Outcome]:
    """Attack one server with everything, one attack after the other."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with _start_victim(Path(folder)) as victim:
            before = _read_memory(victim.pid)
            refused = list_refused(victim)
            floods = _list_floods(CONNECTIONS if sample is None else FEW_CONNECTIONS)
            chosen: list[Refused | str] = [*select_sample(refused, sample)]
            chosen += select_sample(list(floods), sample)
            for case in chosen:
                yield await _carry_out(victim, case, floods, before)


async def _carry_out(
    victim: Victim, case: Refused | str, floods: dict[str, Flood], before: int
) -> Outcome:
    name = case if isinstance(case, str) else case.name
    try:
        with anyio.fail_after(HANGS):
            problem = await (
                floods[case](victim) if isinstance(case, str) else _knock(victim, case)
            )
            problem = problem or await _check_owner(victim)
    except TimeoutError:
        problem = f"no end after {HANGS:g} seconds"
    growth = _read_memory(victim.pid) - before
    if not problem and growth > MAX_GROWTH:
        problem = f"{growth // 1024} MB more memory"
    return Outcome(name, Status.FAILED if problem else Status.HELD, problem)


@asynccontextmanager
async def _start_victim(folder: Path) -> AsyncGenerator[Victim, None]:
    command = [sys.executable, "-m", "attacks.served_victim", str(folder)]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            line += await process.stdout.receive()
        port, session_id, cookie = line.decode().split()
        yield Victim(port=int(port), session_id=session_id, cookie=cookie, pid=process.pid)
        await process.stdin.aclose()
        await process.wait()


async def _knock(victim: Victim, case: Refused) -> str:
    """Send a request that must be refused."""
    data = await _exchange(victim, case.data)
    if CANARY.encode() in data or b"root:" in data:
        return "the answer holds a secret"
    if b"\r\nSet-Cookie: a=b" in data:
        return "a header was injected"
    statuses = [int(found) for found in re.findall(rb"HTTP/1\.[01] (\d{3}) ", data)]
    odd = [status for status in statuses if status not in REFUSALS]
    return f"answered with {odd[0]}" if odd else ""


async def _check_owner(victim: Victim) -> str:
    """Send a request with the token, which must be answered."""
    data = await _exchange(
        victim, make_request(victim, f"GET {BASE}/sessions/{victim.session_id}", BEARER)
    )
    if not data.startswith(b"HTTP/1.1 200 ") or CANARY.encode() not in data:
        return f"the owner was not answered: {data[:200]!r}"
    return ""


async def _exchange(victim: Victim, data: bytes) -> bytes:
    """Send bytes and return all that comes back until the server closes the connection."""
    answer = b""
    with suppress(*_GONE):
        async with await _connect(victim) as stream:
            with suppress(*_GONE):
                await stream.send(data)
            while True:
                answer += await stream.receive()
    return answer


async def _connect(victim: Victim) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", victim.port)


def _list_floods(connections: int) -> dict[str, Flood]:
    many = min(200, connections)

    async def flood(victim: Victim) -> str:
        return await _hold_connections(victim, connections)

    async def slow_heads(victim: Victim) -> str:
        return await _hold_requests(victim, b"GET / HTTP/1.1\r\nHost: ", many)

    async def slow_bodies(victim: Victim) -> str:
        headers = {**BEARER, "Content-Length": "1000"}
        data = make_request(victim, f"POST {BASE}/sessions", headers)
        return await _hold_requests(victim, data, many)

    async def slow_strangers(victim: Victim) -> str:
        data = make_request(victim, f"POST {BASE}/sessions", {"Content-Length": "1000"})
        return await _hold_requests(victim, data, many)

    return {
        f"{connections} idle connections": flood,
        f"{many} requests that never end": slow_heads,
        f"{many} bodies that never end": slow_bodies,
        f"{many} bodies of strangers that never end": slow_strangers,
        "body that is announced as 10 TB": _announce_body,
        "body in endless chunks": _send_chunks,
        "compressed body of 1 GB": _send_bomb,
        "deeply nested body": _send_nested,
        "clients that do not read": _ignore_answers,
        "script in every text": _send_script,
    }


async def _hold_connections(victim: Victim, count: int) -> str:
    """Open connections that send nothing, and hold them while the owner asks."""
    allowed = raise_file_limit(count)
    if allowed < count:
        return f"this process may only open {allowed} connections"
    held: list[socket.socket] = []
    try:
        await to_thread.run_sync(_open_sockets, victim.port, count, held)
        return await _check_owner(victim)
    finally:
        for one in held:
            one.close()


def _open_sockets(port: int, count: int, held: list[socket.socket]) -> None:
    for _ in range(count):
        held.append(socket.create_connection(("127.0.0.1", port), timeout=HANGS))  # noqa: PERF401


async def _hold_requests(victim: Victim, begun: bytes, count: int) -> str:
    """Begin requests and never end them; the server must close all of them."""
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(await _connect(victim)) for _ in range(count)]
        for stream in streams:
            await stream.send(begun)
        if problem := await _check_owner(victim):
            return problem
        for stream in streams:
            with suppress(*_GONE):
                while True:
                    await stream.receive()
    return ""


async def _announce_body(victim: Victim) -> str:
    headers = {**BEARER, "Content-Length": str(10 << 40)}
    return await _expect(victim, make_request(victim, f"POST {BASE}/sessions", headers), 413)


async def _send_chunks(victim: Victim) -> str:
    headers = {**BEARER, "Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    async with await _connect(victim) as stream:
        with suppress(*_GONE):
            await stream.send(make_request(victim, f"POST {BASE}/sessions", headers))
            while True:
                await stream.send(chunk)
    return ""


async def _send_bomb(victim: Victim) -> str:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = bytes(1 << 20)
    body = b"".join(packer.compress(piece) for _ in range(1_024)) + packer.flush()
    headers = {**BEARER, "Content-Encoding": "gzip"}
    return await _expect(victim, make_request(victim, f"POST {BASE}/sessions", headers, body), 400)


async def _send_nested(victim: Victim) -> str:
    body = b'{"name":' + b"[" * 500_000
    return await _expect(victim, make_request(victim, f"POST {BASE}/sessions", BEARER, body), 400)


async def _expect(victim: Victim, data: bytes, status: int) -> str:
    answer = await _exchange(victim, data)
    if not answer or answer.startswith(f"HTTP/1.1 {status} ".encode()):
        return ""
    return f"answered with {answer[:60]!r}"


async def _ignore_answers(victim: Victim) -> str:
    """Send many requests on each connection, and read nothing."""
    data = make_request(victim, f"GET {BASE}/sessions", {**BEARER, "Connection": ""}) * 2_000
    async with AsyncExitStack() as stack:
        for _ in range(20):
            stream = await stack.enter_async_context(await _connect(victim))
            with anyio.move_on_after(0.2), suppress(*_GONE):
                await stream.send(data)
        return await _check_owner(victim)


async def _send_script(victim: Victim) -> str:
    """Put script into each text that a client may send; no answer may be a page with it."""
    text = f'{{"text":{_quote(SCRIPT)}}}'
    session = f"{BASE}/sessions/{victim.session_id}"
    requests = [
        (f"PUT {session}/name", f'{{"name":{_quote(CANARY + SCRIPT)}}}'),
        (f"PUT {session}/language", f'{{"language":{_quote(SCRIPT)}}}'),
        (f"PUT {session}/model", f'{{"name":{_quote(SCRIPT)}}}'),
        (f"PUT {session}/mode", f'{{"mode":{_quote(SCRIPT)}}}'),
        (f"POST {session}/lines", f'{{"line":{_quote("/" + SCRIPT)}}}'),
        (f"POST {session}/prompts", text),
        (f"POST {session}/answers", f'{{"request_id":{_quote(SCRIPT)},"approval":"once"}}'),
        (f"POST {session}/fork", f'{{"name":{_quote(SCRIPT)}}}'),
        (f"POST {BASE}/sessions", f'{{"cwd":{_quote(SCRIPT)}}}'),
        (f"POST {BASE}/sessions", f"{{{_quote(SCRIPT)}:1}}"),
        (f"GET {session}", ""),
        (f"GET {session}/history", ""),
        (f"GET {session}/export?format=markdown", ""),
        (f"GET {session}/export?format=json", ""),
        (f"GET {session}/paths?fragment=%3Cscript%3E", ""),
        (f"GET {BASE}/sessions", ""),
        (f"GET {BASE}/sessions/search?q=%3Cscript%3E", ""),
        (f"GET {BASE}/sessions/%3Cscript%3E", ""),
        (f"GET {BASE}/commands/%3Cscript%3E", ""),
        ("GET /login?code=%3Cscript%3E", ""),
        ("GET /%3Cscript%3E", ""),
    ]
    for first, body in requests:
        answer = await _exchange(victim, make_request(victim, first, BEARER, body.encode()))
        if problem := _find_script(answer):
            return f"{first}: {problem}"
    return ""


def _find_script(answer: bytes) -> str:
    """Return why a browser might execute what an answer holds; nothing if it cannot."""
    head, _, body = answer.lower().partition(b"\r\n\r\n")
    if b"x-content-type-options: nosniff" not in head:
        return f"no nosniff header: {answer[:60]!r}"
    if b"require-trusted-types-for 'script'" not in head or b"script-src 'self'" not in head:
        return "no content security policy"
    if b"content-type: text/html" in head and b"<script>alert" in body:
        return "a page holds the script"
    return ""


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read_memory(pid: int) -> int:
    """Return the kilobytes of memory that a process uses; 0 where that is unknown."""
    with suppress(OSError):
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text("utf-8"))
        return int(found[1]) if found else 0
    return 0
