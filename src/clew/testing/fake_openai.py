"""A scripted Chat Completions server on loopback.

It stands in for any OpenAI-compatible host: it streams, fails, stalls and disconnects as its script
says, and notices when a client disconnects.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from clew.testing.server import (
    Disconnect,
    FakeServer,
    ResponseScript,
    ResponseStep,
    ScriptedResponse,
    Stall,
    serve,
)

__all__ = [
    "DONE",
    "Disconnect",
    "FakeOpenAI",
    "ResponseStep",
    "ScriptedResponse",
    "Stall",
    "delta",
    "error_response",
    "event",
    "fake_openai",
    "text_response",
    "tool_call_response",
    "usage",
]

FakeOpenAI = FakeServer


def event(payload: object) -> bytes:
    """Return `payload` as a server-sent event."""
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


DONE = b"data: [DONE]\n\n"


def delta(finish_reason: str | None = None, **fields: object) -> bytes:
    """Return the event for one delta."""
    choice = {"index": 0, "delta": fields, "finish_reason": finish_reason}
    return event({"object": "chat.completion.chunk", "choices": [choice]})


def usage(prompt: int, completion: int, *, cached: int = 0) -> bytes:
    """Return the event with the token counts."""
    counts = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return event({"object": "chat.completion.chunk", "choices": [], "usage": counts})


def text_response(*words: str) -> ScriptedResponse:
    """Return a response that streams `words` and completes."""
    steps = [delta(content=word) for word in words]
    return ScriptedResponse(steps=[*steps, delta("stop"), usage(10, len(words)), DONE])


def tool_call_response(name: str, arguments: str, *, call_id: str = "call_1") -> ScriptedResponse:
    """Return a response with one tool call, its arguments in two deltas."""
    half = len(arguments) // 2
    first = {"index": 0, "id": call_id, "type": "function"}
    return ScriptedResponse(
        steps=[
            delta(tool_calls=[{**first, "function": {"name": name, "arguments": ""}}]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": arguments[:half]}}]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": arguments[half:]}}]),
            delta("tool_calls"),
            usage(10, 5),
            DONE,
        ]
    )


def error_response(status: int, body: object, **headers: str) -> ScriptedResponse:
    """Return an error response; `retry_after="2"` becomes the header `retry-after`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ScriptedResponse(steps=[msgspec.json.encode(body)], status=status, headers=named)


@asynccontextmanager
async def fake_openai(*answers: ResponseScript) -> AsyncIterator[FakeOpenAI]:
    """Serve `answers` in order on a free port while the block runs; only chat is supported."""
    script = answers or (text_response("ok"),)
    async with serve(*script, method="POST", path="/v1/chat/completions") as server:
        server.url += "/v1"
        yield server
