"""Prompts that wait for their end, and how a run that has ended is described to an editor."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import anyio

from clew.acp.connection import INTERNAL_ERROR, RpcError
from clew.acp.messages import PromptResult, StopReason, TurnUsage
from clew.core.events import RunFailed
from clew.core.ids import RunId
from clew.core.results import ExecutionResult

_CLOSING = 10.0
"""Seconds that a turn gets to end when its session is closed."""
_STOP_REASONS: dict[str, StopReason] = {"length": "max_tokens", "refused": "refusal"}
_FAILURES: dict[str, StopReason] = {
    "PromptCancelled": "cancelled",
    "SessionClosed": "cancelled",
    "TurnLimitReached": "max_turn_requests",
}

Place: TypeAlias = Literal["works", "waits", "none"]
"""Where the run of a turn is in the session's queue."""


class PromptTurn:
    """One prompt, from its arrival to its end."""

    def __init__(self) -> None:
        self.cancelled = False
        self._ended = anyio.Event()
        self._ending: ExecutionResult | RunFailed | None = None

    def end(self, ending: ExecutionResult | RunFailed | None = None) -> None:
        """End the turn; None if it is not known how."""
        self._ending = ending
        self._ended.set()

    async def wait(self) -> PromptResult:
        """Wait for the end.

        Raises:
            RpcError: The run failed.
        """
        await self._ended.wait()
        return _describe_end(self._ending, cancelled=self.cancelled)


class Turns:
    """The prompts of one session that have not ended."""

    def __init__(self) -> None:
        self._open: set[PromptTurn] = set()
        self._runs: dict[RunId, PromptTurn] = {}
        self._changed: anyio.Event | None = None

    @contextmanager
    def begin(self) -> Iterator[PromptTurn]:
        """Begin a turn; it is over when the block ends."""
        turn = PromptTurn()
        self._open.add(turn)
        try:
            yield turn
        finally:
            self._open.discard(turn)
            self._runs = {run: one for run, one in self._runs.items() if one is not turn}
            if self._changed is not None:
                self._changed.set()

    def start(self, run_id: RunId, turn: PromptTurn) -> None:
        """Say which run belongs to a turn."""
        self._runs[run_id] = turn

    def find_place(self, turn: PromptTurn) -> Place:
        """Return whether the run of a turn works or waits for another; a command has no run."""
        runs = list(self._runs.values())
        if turn not in runs:
            return "none"
        return "works" if runs[0] is turn else "waits"

    def end(self, run_id: RunId, ending: ExecutionResult | RunFailed) -> None:
        """End the turn of a run; runs of others are ignored."""
        if run_id in self._runs:
            self._runs[run_id].end(ending)

    def end_all(self) -> None:
        """End every turn that no event will end."""
        for turn in self._runs.values():
            turn.end()

    def cancel(self) -> None:
        """Mark every turn as cancelled, also one whose run has not started."""
        for turn in self._open:
            turn.cancelled = True

    async def drain(self) -> None:
        """Wait until every turn has ended and its result is sent, but not for ever."""
        with anyio.move_on_after(_CLOSING):
            while self._open:
                self._changed = anyio.Event()
                await self._changed.wait()
        self.end_all()


def _describe_end(ending: ExecutionResult | RunFailed | None, *, cancelled: bool) -> PromptResult:
    match ending:
        case None:
            return PromptResult(stop_reason="cancelled" if cancelled else "end_turn")
        case RunFailed(error_type=error_type) if error_type in _FAILURES:
            return PromptResult(stop_reason=_FAILURES[error_type])
        case RunFailed(message=message, error_type=error_type):
            raise RpcError(INTERNAL_ERROR, message, {"type": error_type})
        case ExecutionResult(interrupted=True):
            return PromptResult(stop_reason="cancelled", usage=_count_tokens(ending))
        case ExecutionResult(stop_reason=reason):
            stop = _STOP_REASONS.get(reason, "end_turn")
            return PromptResult(stop_reason=stop, usage=_count_tokens(ending))


def _count_tokens(result: ExecutionResult) -> TurnUsage | None:
    usage = result.usage
    if usage is None or usage.kind != "exact":
        return None
    return TurnUsage(
        total_tokens=usage.total_tokens,
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cached_read_tokens=usage.cache_read_tokens,
        cached_write_tokens=usage.cache_write_tokens,
    )
