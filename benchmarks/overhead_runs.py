"""Who takes part in `benchmarks.overhead`, and the process that runs one of them.

Every participant gets the same conversation as the plain objects of Chat Completions, turns
it into its own kind before the clock starts, and then goes on with it: it sends the whole,
runs the tool that the answer asks for, and repeats until the answer is words.
"""

import gc
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeAlias

import aiohttp
import anyio
import msgspec

from benchmarks.fake_model import TOOL
from clew.core.entries import MessageAdded
from clew.core.ids import CallId
from clew.core.messages import Message, ToolCall, assistant, tool_result, user
from clew.core.permissions import Risk
from clew.providers.openai_chat import OpenAIChat
from clew.session.session import Session
from clew.tools.function import tool

MODEL = "fake-model"
PROMPT = "Please go on until nothing is left to do."
ABOUT = "Do nothing, and say so."
"""The description of the tool, the same for all participants."""
_WINDOW = 100_000_000
_LINE = "2026-11-15 12:39:00 INFO worker {}: handled request {} in 13 ms, status 200\n"

Said: TypeAlias = dict[str, Any]
"""One message as Chat Completions spells it."""
Run: TypeAlias = Callable[[], Awaitable[object]]
Prepare: TypeAlias = Callable[[Sequence[Said]], Awaitable[Run]]
"""Takes a conversation in, and returns the work of going on with it."""


class Participant(Protocol):
    """One way of running an agent; what is shared between sessions is open while it runs."""

    def __call__(self, url: str, *, streaming: bool) -> AbstractAsyncContextManager[Prepare]:
        """Get ready to talk to the server at `url`."""
        ...


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is asked to do."""

    url: str
    streaming: bool
    messages: int = 0
    """How long the conversation is before the run."""
    sessions: int = 1
    """How many are run at once; with more than one, making them is part of the work."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What it took."""

    seconds: float
    cpu_seconds: float
    peak_growth: int
    """Bytes by which the most memory that the process ever held grew."""


def conversation(length: int) -> list[Said]:
    """Return `length` messages: requests, each with four calls, their results and an answer."""
    said: list[Said] = []
    number = 0
    while len(said) < length:
        said.append({"role": "user", "content": f"Please look into incident {number}. " * 3})
        for _ in range(4):
            number += 1
            call_id, path = f"call_{number:08}", f"logs/2026/11/worker_{number}.log"
            function = {"name": "Read", "arguments": json.dumps({"file_path": path})}
            call = {"id": call_id, "type": "function", "function": function}
            text = "".join(_LINE.format(number, number * 20 + line) for line in range(20))
            said.append({"role": "assistant", "content": None, "tool_calls": [call]})
            said.append({"role": "tool", "tool_call_id": call_id, "content": text})
        said.append({"role": "assistant", "content": f"Incident {number} was a slow disk. " * 5})
    return said[:length]


@asynccontextmanager
async def clew(url: str, *, streaming: bool) -> AsyncIterator[Prepare]:
    """A `Session` with its defaults, in a window that nothing has to leave."""
    provider = OpenAIChat(url, streaming=streaming)

    async def prepare(history: Sequence[Said]) -> Run:
        session = Session(
            provider,
            model=MODEL,
            tools=[_noop],
            max_context_tokens=_WINDOW,
            # The fake model makes the same call every time, which a session would stop.
            detect_loops=False,
        )
        await session.open()
        for message in _messages(history):
            await session.journal.append(MessageAdded(message=message))
        return partial(session.run, PROMPT)

    try:
        yield prepare
    finally:
        await provider.aclose()


@tool(name=TOOL, risk=Risk.INSPECT)
async def _noop(number: int) -> str:
    """Do nothing, and say so."""
    return f"{number} done"


def _messages(history: Sequence[Said]) -> list[Message]:
    calls: dict[str, ToolCall] = {}
    made: list[Message] = []
    for said in history:
        if said["role"] == "user":
            made.append(user(said["content"]))
        elif said["role"] == "tool":
            made.append(tool_result(calls[said["tool_call_id"]], said["content"]))
        elif said["content"]:
            made.append(assistant(said["content"]))
        else:
            (asked,) = said["tool_calls"]
            call = ToolCall(call_id=CallId(asked["id"]), **asked["function"])
            calls[call.call_id] = call
            made.append(assistant(call))
    return made


@asynccontextmanager
async def aiohttp_alone(url: str, *, streaming: bool) -> AsyncIterator[Prepare]:
    """The least that can be done in Python: a list, `json` and aiohttp."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:

        async def prepare(history: Sequence[Said]) -> Run:
            return partial(_go_on, client, f"{url}/chat/completions", body_for(history, streaming))

        yield prepare


def body_for(history: Sequence[Said], streaming: bool) -> dict[str, Any]:  # noqa: FBT001
    """Return the request that goes on with a conversation; its messages may be added to."""
    parameters = {"type": "object", "properties": {"number": {"type": "integer"}}}
    function = {"name": TOOL, "description": ABOUT, "parameters": parameters}
    return {
        "model": MODEL,
        "messages": [*history, {"role": "user", "content": PROMPT}],
        "tools": [{"type": "function", "function": function}],
        **({"stream": True, "stream_options": {"include_usage": True}} if streaming else {}),
    }


async def _go_on(client: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> None:
    messages = body["messages"]
    while True:
        async with client.post(url, json=body) as response:
            whole = response.content_type == "application/json"
            answer = await (_whole(response) if whole else _streamed(response))
        messages.append(answer)
        if not answer.get("tool_calls"):
            return
        messages.extend(results(answer["tool_calls"]))


async def _whole(response: aiohttp.ClientResponse) -> Said:
    answer: Said = json.loads(await response.read())["choices"][0]["message"]
    return answer


async def _streamed(response: aiohttp.ClientResponse) -> Said:
    words, calls = [], []
    async for line in response.content:
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            words.append(choice["delta"].get("content") or "")
            for piece in choice["delta"].get("tool_calls", ()):
                if "id" in piece:
                    calls.append(piece)
                else:
                    calls[-1]["function"]["arguments"] += piece["function"]["arguments"]
    return {
        "role": "assistant",
        "content": "".join(words) or None,
        **({"tool_calls": calls} if calls else {}),
    }


def results(calls: Sequence[dict[str, Any]]) -> list[Said]:
    """Run the tool for each of `calls`, and return the messages that say so."""
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": f"{arguments['number']} done"}
        for call in calls
        for arguments in [json.loads(call["function"]["arguments"])]
    ]


async def measure(participant: Participant, job: Job) -> Done:
    """Do a job and say what it took."""
    history = conversation(job.messages)
    async with participant(job.url, streaming=job.streaming) as prepare:
        if job.sessions == 1:
            work: Run = await prepare(history)
        else:
            work = partial(_all_at_once, prepare, history, job.sessions)
        gc.collect()
        peak = _peak()
        cpu, started = time.process_time(), time.perf_counter()
        await work()
        return Done(
            seconds=time.perf_counter() - started,
            cpu_seconds=time.process_time() - cpu,
            peak_growth=_peak() - peak,
        )


async def _all_at_once(prepare: Prepare, history: Sequence[Said], sessions: int) -> None:
    async def one() -> None:
        run = await prepare(history)
        await run()

    async with anyio.create_task_group() as tasks:
        for _ in range(sessions):
            tasks.start_soon(one)


def _peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1_024


async def work_off(participant: Participant) -> None:
    """Do the jobs that come in, a line each; all in one loop, which clients may hold on to."""
    for line in sys.stdin.buffer:
        done = await measure(participant, msgspec.json.decode(line, type=Job))
        print(msgspec.json.encode(done).decode(), flush=True)


def main() -> None:
    """Run the participant named on the command line."""
    from benchmarks.overhead_peers import PEERS  # noqa: PLC0415 - they in turn use this module

    participants: dict[str, Participant] = {"clew": clew, "aiohttp": aiohttp_alone, **PEERS}
    anyio.run(work_off, participants[sys.argv[1]])


if __name__ == "__main__":
    main()
