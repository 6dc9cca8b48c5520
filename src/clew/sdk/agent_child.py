"""The process of an agent: `python -m clew.sdk.agent_child`, started by `ProcessAgentRunner`.

It reads lines of `clew.sdk.agent_pipe` from its standard input, and writes every event of the
agent to its standard output, as one `Envelope` per line. It ends when its work is done, or when
its input ends, because then its parent is gone.
"""

import os
import signal
import sys
import time
from math import inf

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from clew.core.errors import ClewError, SessionError
from clew.core.events import Envelope, RunFailed, encode_envelope
from clew.core.ids import SessionId
from clew.process import read_pipe
from clew.sdk.agent_pipe import (
    AnswerQuestion,
    ChangeBudget,
    ChangeMode,
    FinishAgent,
    LineBuffer,
    SendText,
    StartAgent,
    ToAgent,
    decode_line,
)
from clew.sdk.launch import launch
from clew.sdk.options import InteractiveOptions
from clew.sdk.session import InteractiveSession

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_FAILED = 1


class EnvelopeWriter:
    """Writes envelopes to a descriptor, one per line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.has_failed = False
        """True when a failure was written, so that the parent knows the reason."""

    def __call__(self, envelope: Envelope) -> None:
        """Write an envelope; blocks while the parent does not read."""
        self.has_failed |= isinstance(envelope.event, RunFailed)
        left = memoryview(encode_envelope(envelope) + b"\n")
        while left:
            left = left[os.write(self._descriptor, left) :]

    def write_failure(self, error: ClewError) -> None:
        """Write why the session of the agent could not be opened."""
        event = RunFailed(message=str(error), error_type=type(error).__name__)
        self(Envelope(seq=0, session_id=SessionId(""), at=time.time(), event=event))


class _Agent:
    """An agent that works, and what its parent tells it meanwhile."""

    def __init__(self, client: InteractiveSession) -> None:
        self._client = client
        self.session = client.session
        self._is_told = anyio.Event()
        self._finished = 0
        self._cost_before = self.session.get_cost().usd

    def limit_budget(self, usd: float | None) -> None:
        """Let the agent cost that much since its start; None for no limit."""
        limit = None if usd is None else self._cost_before + max(0.0, usd)
        self.session.state.set_budget(limit)

    async def take(self, line: ToAgent) -> None:
        """Do what a line of the parent says."""
        match line:
            case AnswerQuestion(request_id=request_id, answer=answer):
                try:
                    await self._client.answer(request_id, answer.approval, reply=answer.reply)
                except SessionError:
                    # The call was cancelled, and its question with it.
                    return
            case SendText(text=text):
                self.session.state.messages.append(text)
            case ChangeMode(mode=mode):
                self.session.gate.set_mode(mode)
            case ChangeBudget(budget=budget):
                self.limit_budget(budget)
            case FinishAgent():
                self._finished += 1
            case StartAgent():
                return
        self._is_told.set()
        self._is_told = anyio.Event()

    async def work(self, prompt: str) -> None:
        """Do the task, and what the agent is told besides, until the parent wants no more.

        The parent says so after each run, because it can send a message until it knows of the end.
        """
        messages, runs = self.session.state.messages, 1
        await self.session.run(prompt)
        while messages or self._finished < runs:
            if messages:
                runs += 1
                await self.session.run(messages.pop(0))
            else:
                await self._is_told.wait()


async def run_agent(
    start: StartAgent, lines: MemoryObjectReceiveStream[ToAgent], write: EnvelopeWriter
) -> bool:
    """Run an agent to its end; returns whether it did its task."""
    services: InteractiveOptions = {
        "agent_tools": start.request.allowed_tools or (),
        "keep_checkpoints": False,
        "wait_for_answers": True,
    }
    done = False
    try:
        async with launch(start.spec, on_envelope=write, services=services) as launched:
            agent = _Agent(launched.session)
            agent.session.gate.grants.extend(start.grants)
            agent.limit_budget(start.budget)
            async with anyio.create_task_group() as group:
                group.start_soon(_take_lines, agent, lines, group.cancel_scope)
                done = await _work(agent, start.request.prompt)
                group.cancel_scope.cancel()
    except ClewError as error:
        if not write.has_failed:
            write.write_failure(error)
    return done


async def _work(agent: _Agent, prompt: str) -> bool:
    try:
        await agent.work(prompt)
    except ClewError:
        # The session has published why.
        return False
    return True


async def _take_lines(
    agent: _Agent, lines: MemoryObjectReceiveStream[ToAgent], scope: anyio.CancelScope
) -> None:
    async for line in lines:
        await agent.take(line)
    # The parent is gone.
    scope.cancel()


async def _read_lines(send: MemoryObjectSendStream[ToAgent]) -> None:
    buffer, closed = LineBuffer(), anyio.Event()

    def add(chunk: bytes) -> None:
        for line in buffer.add(chunk):
            send.send_nowait(decode_line(line))

    with send:
        await read_pipe(_STDIN, add, closed)


async def _stop_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()


async def main() -> int:
    """Run the agent that the first line of the input describes; returns the exit code."""
    # What a tool prints must not get between the events.
    channel = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    send, lines = anyio.create_memory_object_stream[ToAgent](inf)
    done = False
    async with anyio.create_task_group() as group, lines:
        group.start_soon(_read_lines, send)
        group.start_soon(_stop_on_signal, group.cancel_scope)
        async for start in lines:
            if isinstance(start, StartAgent):
                done = await run_agent(start, lines, EnvelopeWriter(channel))
                break
        group.cancel_scope.cancel()
    return 0 if done else _FAILED


if __name__ == "__main__":
    sys.exit(anyio.run(main))
