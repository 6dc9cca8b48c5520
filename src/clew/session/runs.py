"""One run from its first event to its last, for every kind of work a session does."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from msgspec.structs import replace

from clew.core.context_state import ContextState
from clew.core.entries import Noted
from clew.core.errors import AbortError, AlreadyRunning, ClewError, StoreError
from clew.core.events import (
    Envelope,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    ServerToolEnded,
    ServerToolStarted,
    TextDelta,
    Thinking,
    ToolEnded,
    ToolStarted,
    UserMessage,
)
from clew.core.ids import EntryId, RunId, new_run_id
from clew.core.results import ExecutionResult, UsageSnapshot
from clew.core.text import replace_surrogates
from clew.core.tool_states import ToolReport, ToolState, end_state, report_call, start_state
from clew.core.usage import Spending
from clew.session.call import Answer
from clew.session.event_bus import EventBus
from clew.session.hooking import failed
from clew.session.state import SessionState


class RunGuard:
    """Lets one task at a time work in a session; the work can be aborted from outside."""

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None

    @property
    def running(self) -> bool:
        """True while work is in progress."""
        return self._scope is not None

    def abort(self) -> None:
        """Cancel the work in progress; does nothing when there is none."""
        if self._scope is not None:
            self._scope.cancel()

    @contextmanager
    def begin(self) -> Iterator[None]:
        """Do the work of the `with` block.

        Raises:
            AlreadyRunning: Other work is in progress.
            AbortError: `abort` was called meanwhile.
        """
        if self._scope is not None:
            raise AlreadyRunning("the session is busy with another run; wait for it or abort it")
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                yield
            finally:
                self._scope = None
        if scope.cancelled_caught:
            raise AbortError("the run was aborted")


class RunTracker:
    """Follows the events of a session: text and tool calls of the current run."""

    def __init__(self, bus: EventBus) -> None:
        self._texts: list[str] = []
        self._tools: dict[str, ToolState] = {}
        bus.on_any(self._update)

    @property
    def text(self) -> str:
        """What the model has written in this run so far."""
        return "".join(self._texts)

    @property
    def tools(self) -> tuple[ToolState, ...]:
        """All tool calls of the run, in the order in which they started."""
        return tuple(self._tools.values())

    def active_tools(self) -> list[ToolState]:
        """Return the tool calls that have no result yet."""
        return [state for state in self._tools.values() if state.is_running]

    def reset(self) -> None:
        """Forget the last run."""
        self._texts.clear()
        self._tools.clear()

    def _update(self, envelope: Envelope) -> None:
        if envelope.task_id:
            return
        match envelope.event:
            case TextDelta(text=text):
                self._texts.append(text)
            case ToolStarted() | ServerToolStarted() as event:
                state = start_state(event.call_id, event.name, event.arguments)
                self._tools[event.call_id] = state
            case ToolEnded() as event:
                report = report_call(
                    event.data,
                    denied=event.denied,
                    error_code=event.error_code,
                    failed=event.failed,
                )
                started = self._started(event.call_id, event.name)
                self._tools[event.call_id] = end_state(
                    started, report, text=event.display, failed=event.failed
                )
            case ServerToolEnded() as event:
                started = self._started(event.call_id, event.name)
                self._tools[event.call_id] = end_state(
                    started, ToolReport(), text=event.text, failed=event.failed
                )
            case _:
                pass

    def _started(self, call_id: str, name: str) -> ToolState:
        return self._tools.get(call_id) or ToolState(tool_name=name, call_id=call_id)


class RunOutcome:
    """Publishes how a run starts and ends, and makes its result.

    `UserMessage` is followed by exactly one of `RunCompleted`, `RunInterrupted`, `RunFailed`.
    """

    def __init__(
        self, bus: EventBus, tracker: RunTracker, label: str, run_id: RunId | None
    ) -> None:
        self._bus = bus
        self._tracker = tracker
        self._label = label
        self._before = Spending()
        self._first = EntryId(1)
        self.run_id = run_id or new_run_id()
        self.result: ExecutionResult | None = None

    def start(self, state: SessionState | None) -> None:
        """Announce the run."""
        if state is not None:
            self._before = state.journal.spending
            self._first = EntryId(len(state.journal.entries) + 1)
        self._tracker.reset()
        self._bus.publish(UserMessage(text=self._label, run_id=self.run_id))
        self._bus.publish(Thinking(active=True))

    def complete(self, state: SessionState, answer: Answer) -> None:
        """Announce an answer."""
        self.result = replace(
            self._make(state, replace_surrogates(answer.message.text)),
            stop_reason=answer.reason,
            stop_detail=answer.detail,
            last_call=answer.usage,
        )
        self._bus.publish(RunCompleted(self.result))
        self._bus.publish(Thinking(active=False))

    def interrupt(self, state: SessionState) -> None:
        """Announce an abort; the response is what had arrived."""
        self.result = replace(self._make(state, self._tracker.text), interrupted=True)
        self._bus.publish(RunInterrupted(self.result))
        self._bus.publish(Thinking(active=False))

    def fail(self, error: BaseException) -> None:
        """Announce a failure."""
        message = str(error) or type(error).__name__
        self._bus.publish(
            RunFailed(message=message, error_type=type(error).__name__, run_id=self.run_id)
        )
        self._bus.publish(Thinking(active=False))

    def _make(self, state: SessionState, text: str) -> ExecutionResult:
        context, entries = state.state(), state.journal.entries
        return ExecutionResult(
            response=text,
            run_id=self.run_id,
            tool_summaries=self._tracker.tools,
            context_state=context,
            usage=measure_usage(self._before, state.journal.spending, context),
            first_entry=self._first,
            last_entry=entries[-1].id if entries else EntryId(0),
        )


def measure_usage(before: Spending, after: Spending, state: ContextState) -> UsageSnapshot | None:
    """Return what was spent between two readings; None when no model was called."""
    if after.calls == before.calls:
        return None
    used, earlier = after.usage, before.usage
    prompt = used.input_tokens - earlier.input_tokens
    completion = used.output_tokens - earlier.output_tokens
    total = prompt + completion
    is_exact = total > 0 and after.uncounted == before.uncounted
    return UsageSnapshot(
        kind="exact" if is_exact else "estimated",
        total_tokens=total if is_exact else max(total, state.used_tokens),
        prompt_tokens=prompt,
        completion_tokens=completion,
        cache_read_tokens=used.cache_read_tokens - earlier.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens - earlier.cache_write_tokens,
        context_used_tokens=state.used_tokens,
        context_max_tokens=state.max_tokens,
        context_used_percentage=state.used_percentage,
        cost_status="unknown" if after.unpriced > before.unpriced else "estimated",
        cost_usd=after.usd - before.usd,
    )


async def record_failure(state: SessionState | None, error: BaseException) -> None:
    """Write down why a run failed, where the journal can be written, and call the hooks."""
    if state is None or not isinstance(error, ClewError) or isinstance(error, StoreError):
        return
    await state.journal.append(Noted(topic="error", text=str(error)))
    await failed(state, error)
