"""A model server on loopback that costs as little as it can, for measuring its clients.

It runs in a process of its own and speaks Chat Completions. Of a request it looks at the
length and at the last few kilobytes: the id of the newest tool call tells how many rounds
are over, so that nothing has to be remembered. The address says the rest: what is posted to
`/streamed/50/v1/chat/completions` is answered with streams, fifty times with a call of
`noop` and then with words.
"""

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.client import HTTPConnection
from typing import Any

import msgspec

STREAMED, WHOLE = "streamed", "whole"
TOOL = "noop"
_CALL_ID = b"round-"
_TAIL = 8_192
_BUFFER = memoryview(bytearray(1 << 20))
"""Bytes are looked at as soon as they arrive, so one buffer does for all connections."""


class Tally(msgspec.Struct):
    """Requests and bytes since the last reading."""

    requests: int = 0
    bytes: int = 0


class Connection(asyncio.BufferedProtocol):
    """Answers the requests of one connection, one after the other."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._transport: asyncio.WriteTransport | None = None
        self._head = b""
        self._tail = b""
        self._path = ""
        self._length = 0
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Say where the next bytes go."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Take what arrived, and answer if the request is complete."""
        if self._path:
            self._left -= nbytes
            self._tail = (self._tail + _BUFFER[max(0, nbytes - _TAIL) : nbytes])[-_TAIL:]
        else:
            self._head += _BUFFER[:nbytes]
            head, blank, body = self._head.partition(b"\r\n\r\n")
            if not blank:
                return
            self._begin(head, body)
        if self._left <= 0 and self._transport is not None:
            self._transport.write(self._answer())
            self._path = ""

    def _begin(self, head: bytes, body: bytes) -> None:
        request, *fields = head.split(b"\r\n")
        self._path = request.split(b" ", 2)[1].decode()
        lengths = (f for f in fields if f[:15].lower() == b"content-length:")
        self._length = int(next(lengths, b":0").partition(b":")[2])
        self._left = self._length - len(body)
        self._head, self._tail = b"", body[-_TAIL:]

    def _answer(self) -> bytes:
        if self._path == "/tally":
            taken = msgspec.json.encode(self._tally)
            self._tally.requests = self._tally.bytes = 0
            return _document(taken)
        self._tally.requests += 1
        self._tally.bytes += self._length
        _, how, rounds, *_ = self._path.split("/")
        _, _, newest = self._tail.rpartition(_CALL_ID)
        over = int(newest.partition(b'"')[0]) if len(newest) < len(self._tail) else 0
        number = over + 1 if over < int(rounds) else 0
        usage = b'"usage":{"prompt_tokens":%d,"completion_tokens":20,"total_tokens":%d}}' % (
            self._length // 4,
            self._length // 4 + 20,
        )
        if how == WHOLE:
            return _document(_whole(number) + usage)
        return _streamed(number) + _chunk(_last_event() + usage) + _chunk(b"[DONE]") + b"0\r\n\r\n"


def _document(body: bytes) -> bytes:
    kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return kind % len(body) + body


def _chunk(event: bytes) -> bytes:
    return b"%x\r\ndata: %s\n\n\r\n" % (len(event) + 8, event)


@cache
def _whole(number: int) -> bytes:
    """Return an answer in one piece, up to its usage: call `number`, or words for zero."""
    message: dict[str, Any] = {"role": "assistant", "content": None if number else "Done."}
    if number:
        message["tool_calls"] = [_call(number, f'{{"number": {number}}}')]
    choice = {"index": 0, "message": message, "finish_reason": _finish(number)}
    return _begun("chat.completion", choice)


@cache
def _streamed(number: int) -> bytes:
    """Return the head of a streamed answer and all its events but those that end it."""
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if number else ""}]
    if number:
        pieces = ('{"num', 'ber": ', f"{number}}}")
        deltas.append({"tool_calls": [_call(number, "", index=0)]})
        deltas += [
            {"tool_calls": [{"index": 0, "function": {"arguments": text}}]} for text in pieces
        ]
    else:
        deltas += [{"content": "Do"}, {"content": "ne."}]
    reasons = [None] * len(deltas) + [_finish(number)]
    events = (
        _begun("chat.completion.chunk", {"index": 0, "delta": delta, "finish_reason": reason})
        for delta, reason in zip([*deltas, {}], reasons, strict=True)
    )
    return head.encode() + b"".join(_chunk(event[:-1] + b"}") for event in events)


@cache
def _last_event() -> bytes:
    return _begun("chat.completion.chunk")


def _begun(kind: str, *choices: dict[str, Any]) -> bytes:
    """Return an answer or event whose last field is still to come."""
    event = {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "m", "choices": choices}
    return json.dumps(event, separators=(",", ":")).encode()[:-1] + b","


def _call(number: int, arguments: str, **more: object) -> dict[str, Any]:
    called = {"name": TOOL, "arguments": arguments}
    return {"id": f"{_CALL_ID.decode()}{number}", "type": "function", "function": called, **more}


def _finish(number: int) -> str:
    return "tool_calls" if number else "stop"


class FakeModel:
    """The server as the one who started it sees it."""

    def __init__(self, port: int) -> None:
        self._port = port

    def url(self, *, streaming: bool, rounds: int) -> str:
        """Return the base URL for runs of that many tool calls."""
        how = STREAMED if streaming else WHOLE
        return f"http://127.0.0.1:{self._port}/{how}/{rounds}/v1"

    def tally(self) -> Tally:
        """Return what came in since the last time."""
        connection = HTTPConnection("127.0.0.1", self._port)
        try:
            connection.request("GET", "/tally")
            return msgspec.json.decode(connection.getresponse().read(), type=Tally)
        finally:
            connection.close()


@contextmanager
def fake_model() -> Iterator[FakeModel]:
    """Run the server in a process of its own while the block runs."""
    command = (sys.executable, "-m", "benchmarks.fake_model")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield FakeModel(int(process.stdout.readline()))
        finally:
            process.stdin.close()


async def serve() -> None:
    """Print the port, and serve until the standard input is closed."""
    loop = asyncio.get_running_loop()
    tally, over = Tally(), asyncio.Event()
    server = await loop.create_server(lambda: Connection(tally), "127.0.0.1", backlog=4_096)
    loop.add_reader(sys.stdin, over.set)
    print(server.sockets[0].getsockname()[1], flush=True)
    gc.freeze()
    await over.wait()


if __name__ == "__main__":
    asyncio.run(serve())
