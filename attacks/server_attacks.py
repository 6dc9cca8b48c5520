"""The attacks of a hostile model server: what it sends instead of an answer."""

import gzip
import zlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import anyio
from anyio.abc import SocketStream

from clew.core.ids import CallId
from clew.core.messages import ToolCall
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.fake_openai import DONE, delta, event
from clew.testing.provider_harness import HttpHarness

Play: TypeAlias = Callable[[SocketStream, HttpHarness], Awaitable[None]]

FLOOD = 600 * 2**20
"""Bytes after which an endless answer ends, in case Clew reads all of them."""
BLOCK = b"x" * 2**16
DEPTH = 100_000
PATIENCE = 2.0
"""The idle timeout for servers that keep a session waiting."""
DRIP = 0.05
"""Seconds between two pieces of a slow answer."""
SSE = "text/event-stream"
JSON = "application/json"
GZIP, DEFLATE = "Content-Encoding: gzip", "Content-Encoding: deflate"
BAD, BUSY = "400 Bad Request", "503 Busy"


@dataclass(frozen=True, slots=True)
class Attack:
    """What a server does instead of sending an answer."""

    name: str
    play: Play
    idle_timeout: float = 30.0


def make_head(content_type: str, *headers: str, status: str = "200 OK") -> bytes:
    """Return the head of a response that ends with its connection."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def send(*pieces: bytes) -> Play:
    """Send these bytes and close the connection."""

    async def play(stream: SocketStream, _: HttpHarness) -> None:
        for piece in pieces:
            await stream.send(piece)

    return play


def flood(head: bytes, block: bytes, *, limit: int = FLOOD) -> Play:
    """Send `block` again and again."""

    async def play(stream: SocketStream, _: HttpHarness) -> None:
        await stream.send(head)
        many = block * max(1, len(BLOCK) // len(block))
        for _number in range(limit // len(many)):
            await stream.send(many)

    return play


def drip(head: bytes, piece: bytes) -> Play:
    """Send one small piece after the other, slowly and for ever."""

    async def play(stream: SocketStream, _: HttpHarness) -> None:
        await stream.send(head)
        while True:
            await stream.send(piece)
            await anyio.sleep(DRIP)

    return play


async def stall(_stream: SocketStream, _harness: HttpHarness) -> None:
    """Send nothing at all."""
    await anyio.sleep_forever()


def answer(reply: ModelReply) -> Play:
    """Send a well-formed answer with hostile content, in the format of the API."""

    async def play(stream: SocketStream, harness: HttpHarness) -> None:
        await stream.send(make_head(harness.api.content_type))
        await stream.send(b"".join(harness.api.stream(reply)))

    return play


def endless(reply: ModelReply, marker: bytes) -> Play:
    """Send an answer in which the event that contains `marker` is repeated for ever."""

    async def play(stream: SocketStream, harness: HttpHarness) -> None:
        frames = harness.api.stream(reply)
        place = next(number for number, frame in enumerate(frames) if marker in frame)
        await stream.send(make_head(harness.api.content_type))
        await stream.send(b"".join(frames[:place]))
        for _number in range(FLOOD // len(frames[place])):
            await stream.send(frames[place])

    return play


def bomb(coding: str, head: bytes, begin: bytes) -> Play:
    """Send an answer that is a thousand times larger when it is decompressed."""

    async def play(stream: SocketStream, _: HttpHarness) -> None:
        packer = zlib.compressobj(1, wbits=31 if coding == "gzip" else 15)
        await stream.send(head + packer.compress(begin))
        block = b"x" * 2**22
        for _number in range(FLOOD // len(block)):
            await stream.send(packer.compress(block) + packer.flush(zlib.Z_SYNC_FLUSH))
        await stream.send(packer.flush())

    return play


def nested(depth: int = DEPTH) -> str:
    """Return a JSON object with arrays nested `depth` levels deep."""
    return '{"a":' + "[" * depth + "]" * depth + "}"


def chat(*events: object) -> Play:
    """Send these values as events of Chat Completions."""
    return send(make_head(SSE), *map(event, events), DONE)


def choice(**fields: object) -> dict[str, object]:
    """Return the event for one choice of Chat Completions."""
    return {"choices": [{"index": 0, **fields}]}


def deep_event(before: str, after: str) -> bytes:
    """Return an event with arrays nested deeply inside."""
    return f"data: {before}{'[' * DEPTH}{']' * DEPTH}{after}\n\n".encode()


def call(arguments: str, name: str = "Read") -> ModelReply:
    """Return a reply with one tool call."""
    return ModelReply(calls=(ToolCall(call_id=CallId("c1"), name=name, arguments=arguments),))


def headers(lines: Iterable[str]) -> bytes:
    """Return a response with these additional headers."""
    return make_head(SSE, *lines) + delta(content="hi") + delta("stop") + DONE


CHUNKED = make_head(SSE, "Transfer-Encoding: chunked")
LONG = "x" * 1000
ATTACKS: tuple[Attack, ...] = (
    # Too much.
    Attack("an endless line", flood(make_head(SSE) + b"data: ", BLOCK)),
    Attack("an endless comment", flood(make_head(SSE) + b":", BLOCK)),
    Attack("an endless event of many lines", flood(make_head(SSE), b"data: " + BLOCK + b"\n")),
    Attack("an endless event name", flood(make_head(SSE) + b"event: ", BLOCK)),
    Attack("endless comments", flood(make_head(SSE), b": ping\n\n")),
    Attack("endless empty lines", flood(make_head(SSE), b"\n")),
    Attack("an endless document", flood(make_head(JSON) + b'{"a": "', BLOCK)),
    Attack("an endless document without a type", flood(make_head(SSE) + b'{"a": "', BLOCK)),
    Attack("an endless error", flood(make_head(JSON, status=BAD), BLOCK)),
    Attack("an endless busy error", flood(make_head(JSON, status=BUSY), BLOCK)),
    Attack("an endless page", flood(make_head("text/html"), BLOCK)),
    Attack("a gzip bomb in a line", bomb("gzip", make_head(SSE, GZIP), b"data: ")),
    Attack("a deflate bomb in a line", bomb("deflate", make_head(SSE, DEFLATE), b"data: ")),
    Attack("a gzip bomb in a document", bomb("gzip", make_head(JSON, GZIP), b'{"a": "')),
    Attack("a gzip bomb in an error", bomb("gzip", make_head(JSON, GZIP, status=BAD), b"x")),
    Attack("endless headers", flood(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n")),
    Attack("an endless header", flood(b"HTTP/1.1 200 OK\r\nX-A: ", BLOCK)),
    Attack("an endless status line", flood(b"HTTP/1.1 200 ", BLOCK)),
    Attack("a thousand headers", send(headers(f"X-{n}: {LONG}" for n in range(1000)))),
    Attack("endless hints", flood(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"), PATIENCE),
    Attack("an endless chunk extension", flood(CHUNKED + b"1;", BLOCK)),
    Attack("endless trailers", flood(CHUNKED + b"0\r\n", b"X-A: b\r\n")),
    Attack(
        "endless tool calls",
        flood(
            make_head(SSE), delta(tool_calls=[{"index": 0, "id": "", "function": {"name": "R"}}])
        ),
    ),
    # Too slow.
    Attack("no answer", stall, PATIENCE),
    Attack("a slow drip of headers", drip(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), PATIENCE),
    Attack("a slow drip of one line", drip(make_head(SSE) + b"data: ", b"x"), PATIENCE),
    Attack("slow comments", drip(make_head(SSE), b": ping\n\n"), PATIENCE),
    Attack("slow empty lines", drip(make_head(SSE), b"\n"), PATIENCE),
    Attack("slow events without content", drip(make_head(SSE), event({"choices": []})), PATIENCE),
    Attack("slow unknown events", drip(make_head(SSE), b"event: ping\ndata: {}\n\n"), PATIENCE),
    Attack("a slow document", drip(make_head(JSON) + b'{"a": "', b" "), PATIENCE),
    Attack("a slow error", drip(make_head(JSON, status=BAD), b" "), PATIENCE),
    # Something else.
    Attack("no response", send()),
    Attack("half a head", send(b"HTTP/1.1 200 OK\r\nContent-")),
    Attack("no HTTP", send(b"SSH-2.0-OpenSSH_9.6\r\n")),
    Attack("an invalid status", send(b"HTTP/1.1 9999 ?\r\n\r\n")),
    Attack("a status without a meaning", send(make_head(SSE, status="299 Odd"))),
    Attack("no content", send(make_head(SSE, status="204 No Content"))),
    Attack("another protocol", send(make_head(SSE, "Upgrade: x", status="101 Switching"))),
    Attack("a redirect", send(make_head(SSE, "Location: http://127.0.0.1:9/", status="302 Found"))),
    Attack("a body shorter than its length", send(make_head(SSE, "Content-Length: 99") + b"data:")),
    Attack("an invalid length", send(make_head(SSE, "Content-Length: -1") + DONE)),
    Attack("two lengths", send(make_head(SSE, "Content-Length: 1", "Content-Length: 9") + DONE)),
    Attack("an invalid chunk size", send(CHUNKED + b"zz\r\n")),
    Attack("a negative chunk size", send(CHUNKED + b"-1\r\n")),
    Attack("a huge chunk size", send(CHUNKED + b"f" * 400 + b"\r\n")),
    Attack("damaged gzip", send(make_head(SSE, GZIP), b"no gzip at all")),
    Attack(
        "gzip cut short",
        send(make_head(SSE, GZIP), gzip.compress(LONG.encode())[:-9]),
    ),
    Attack("an unknown coding", send(make_head(SSE, "Content-Encoding: br"), b"\x00" * 99)),
    Attack("invalid UTF-8", send(make_head(SSE) + b'data: {"choices": "\xff\xfe\x00"}\n\n')),
    Attack("an unknown character set", send(make_head("application/json; charset=x-none"), b"{}")),
    Attack("an invalid retry hint", send(make_head(JSON, "Retry-After: -x", status="429 No"))),
    Attack(
        "a retry hint of a century",
        send(make_head(JSON, "Retry-After: 3155760000", status="429 No")),
    ),
    Attack("an event of another shape", chat(7, None, [], "x", {"choices": 7})),
    Attack("a choice of another shape", chat(choice(delta=7), choice(delta={"content": {"a": 1}}))),
    Attack("tool calls of another shape", chat(choice(delta={"tool_calls": {"a": [1]}}))),
    Attack(
        "counts beyond all bounds",
        send(make_head(SSE), b'data: {"usage": {"prompt_tokens": 1e400}}\n\n', DONE),
    ),
    Attack("negative counts", chat({"usage": {"prompt_tokens": -5}, "choices": []})),
    Attack("a negative index", chat(choice(delta={"tool_calls": [{"index": -1}]}))),
    Attack("a huge index", chat(choice(delta={"tool_calls": [{"index": 2**70}]}))),
    Attack("a deeply nested event", send(make_head(SSE), deep_event('{"choices":', "}"))),
    Attack("a deeply nested document", send(make_head(JSON), nested().encode())),
    Attack(
        "a deeply nested error",
        send(make_head(JSON, status=BAD), nested(30_000).encode()),
    ),
    Attack(
        "a deeply nested busy error",
        send(make_head(JSON, status=BUSY), f'{{"error": {nested(20_000)}}}'.encode()),
    ),
)
"""Attacks below the wire format, or on Chat Completions only."""

API_ATTACKS: tuple[Attack, ...] = (
    Attack("endless text", endless(ModelReply(words=("endless" * 999,)), b"endless")),
    Attack("endless thinking", endless(ModelReply(thoughts=("endless" * 999,)), b"endless")),
    Attack("deeply nested tool arguments", answer(call(nested()))),
    Attack("a deeply nested scalar in tool arguments", answer(call("[" * DEPTH))),
    Attack("tool arguments that are no JSON", answer(call("{'a': 1"))),
    Attack("tool arguments of another type", answer(call("7"))),
    Attack("a tool name with control characters", answer(call("{}", "Re\x1b[2Jad\x00\u202e"))),
    Attack("a tool name of a million letters", answer(call("{}", "x" * 10**6))),
    Attack("text with control characters", answer(ModelReply(words=("\x1b]0;x\x07\x9b\u202e",)))),
)
"""Attacks on the wire format of each API."""
