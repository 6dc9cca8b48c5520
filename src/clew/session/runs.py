"""Runs: one at a time, abortable, each with its events from start to end and its result."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TypeAlias, get_args

import anyio
from msgspec.structs import replace

from clew.core.context_state import ContextState
from clew.core.entries import Noted
from clew.core.errors import AbortError, AlreadyRunning, ClewError, StoreError
from clew.core.events import (
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
from clew.core.messages import PARAGRAPH
from clew.core.redaction import redact
from clew.core.results import ExecutionResult, UsageSnapshot
from clew.core.text import replace_surrogates
from clew.core.tool_states import ToolReport, ToolState, end_state, report_call, start_state
from clew.core.usage import Spending
from clew.session.event_bus import EventBus
from clew.session.hook_events import report_failure
from clew.session.lifecycle import open_session, save_calibration
from clew.session.model_call import ModelAnswer
from clew.session.state import SessionState
from clew.session.turn import Delegate, Prompt, continue_turn, delegate_turn, make_prompt, run_turn

_Tracked: TypeAlias = TextDelta | ToolStarted | ToolEnded | ServerToolStarted | ServerToolEnded


class RunGuard:
    """Lets one task at a time work in a session; the work can be aborted from outside."""

    def __init__(self, check_open: Callable[[], None]) -> None:
        self._check_open = check_open
        self._scope: anyio.CancelScope | None = None

    @property
    def running(self) -> bool:
        """True while work is in progress."""
        return self._scope is not None

    def abort(self) -> None:
        """Cancel the work in progress; does nothing when there is none."""
        if self._scope is not None:
            self._scope.cancel()

    def begin(self) -> AbstractContextManager[None]:
        """Do the work of the `with` block.

        Raises:
            SessionClosed: The session was shut down.
            AlreadyRunning: Other work is in progress.
            AbortError: `abort` was called while it ran.
        """
        self._check_open()
        if self._scope is not None:
            raise AlreadyRunning("the session is busy with another run; wait for it or abort it")
        return self

    def __enter__(self) -> None:
        self._scope = anyio.CancelScope().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        assert self._scope is not None  # noqa: S101 - `__enter__` set it
        scope, self._scope = self._scope, None
        is_handled = scope.__exit__(kind, error, trace)
        if scope.cancelled_caught:
            raise AbortError("the run was aborted")
        return is_handled


class RunTracker:
    """Follows the events of a session: text and tool calls of the current run."""

    def __init__(self, bus: EventBus) -> None:
        self._texts: list[str] = []
        self._is_separate = False
        """True if the next text does not continue the last one, because a tool ran."""
        self._tools: dict[str, ToolState] = {}
        bus.track(self._update, *get_args(_Tracked))

    @property
    def text(self) -> str:
        """What the model has written in this run so far; a blank line separates its answers."""
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
        self._is_separate = False
        self._tools.clear()

    def _update(self, event: _Tracked) -> None:
        match event:
            case TextDelta(text=text):
                self._add_text(text)
            case ToolStarted() | ServerToolStarted():
                self._is_separate = True
                state = start_state(event.call_id, event.name, event.arguments)
                self._tools[event.call_id] = state
            case ToolEnded():
                report = report_call(
                    event.data,
                    denied=event.denied,
                    error_code=event.error_code,
                    failed=event.failed,
                )
                started = self._find_started(event.call_id, event.name)
                self._tools[event.call_id] = end_state(
                    started, report, text=event.display, failed=event.failed
                )
            case ServerToolEnded():
                started = self._find_started(event.call_id, event.name)
                self._tools[event.call_id] = end_state(
                    started, ToolReport(), text=event.text, failed=event.failed
                )

    def _add_text(self, text: str) -> None:
        if self._is_separate and text:
            last = self._texts[-1][-1:] if self._texts else ""
            if last.strip() and not text[0].isspace():
                self._texts.append(PARAGRAPH)
            self._is_separate = False
        self._texts.append(text)

    def _find_started(self, call_id: str, name: str) -> ToolState:
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

    def start(self) -> None:
        """Announce the run."""
        self._tracker.reset()
        self._bus.publish(UserMessage(text=self._label, run_id=self.run_id))
        self._bus.publish(Thinking(active=True))

    def measure_from(self, state: SessionState) -> None:
        """Count entries and spending from here on; call it when the session is open."""
        self._before = state.journal.spending
        self._first = EntryId(len(state.journal.entries) + 1)

    def complete(self, state: SessionState, answer: ModelAnswer) -> None:
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
        """Announce an abort; the response is the text that arrived."""
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
        context, entries = state.context_state(), state.journal.entries
        return ExecutionResult(
            response=text,
            run_id=self.run_id,
            tool_summaries=self._tracker.tools,
            context_state=context,
            usage=measure_usage(self._before, state.journal.spending, context),
            first_entry=self._first,
            last_entry=entries[-1].id if entries else EntryId(0),
        )


class Runs:
    """Executes the runs of a session, one at a time."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._bus = state.options["event_bus"]
        self.guard = RunGuard(state.check_open)
        """Also protects compactions and commands, which do not run beside a run."""
        self.tracker = RunTracker(self._bus)
        """Text and tool calls of the current run."""

    def abort(self) -> None:
        """Abort what is in progress, and a summary that is prepared in the background."""
        self.guard.abort()
        if self._state.preparation is not None:
            self._state.preparation.abort()

    async def execute(self, prompt: Prompt, *, run_id: RunId | None = None) -> ExecutionResult:
        """Let the model answer a prompt; an abort is a result, not an error."""
        return await self._observe(partial(run_turn, self._state, prompt), prompt.label, run_id)

    async def continue_run(self, *, run_id: RunId | None = None) -> ExecutionResult:
        """Continue after the last entry without a new prompt."""
        return await self._observe(partial(continue_turn, self._state), "", run_id)

    async def delegate(
        self, prompt: str, work: Delegate, *, run_id: RunId | None = None
    ) -> ExecutionResult:
        """Let `work` answer a prompt in place of the model; both join the conversation."""
        asked = make_prompt(prompt)
        return await self._observe(partial(delegate_turn, self._state, asked, work), prompt, run_id)

    async def interrupt(self, label: str, *, run_id: RunId | None = None) -> ExecutionResult:
        """Publish and return the result of a prompt that was aborted before its run started."""

        async def abort() -> ModelAnswer:
            raise AbortError("the run was aborted before it started")

        return await self._observe(abort, label, run_id)

    async def _observe(
        self, work: Callable[[], Awaitable[ModelAnswer]], label: str, run_id: RunId | None
    ) -> ExecutionResult:
        state, outcome = self._state, RunOutcome(self._bus, self.tracker, label, run_id)
        try:
            with self.guard.begin():
                outcome.start()
                try:
                    await open_session(state)
                    outcome.measure_from(state)
                    answer = await work()
                    await save_calibration(state)
                    state.completed_runs += 1
                except AbortError:
                    outcome.interrupt(state)
                except Exception as error:
                    _hide_secrets(state, error)
                    if state.is_open:
                        await _record_failure(state, error)
                    outcome.fail(error)
                    raise
                except BaseException:
                    outcome.interrupt(state)
                    raise
                else:
                    outcome.complete(state, answer)
        except AbortError:
            pass  # the result says so
        assert outcome.result is not None  # noqa: S101 - every way out of the block sets it
        return outcome.result


def measure_usage(before: Spending, after: Spending, state: ContextState) -> UsageSnapshot | None:
    """Return the difference between two readings; None when no model was called."""
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


def _hide_secrets(state: SessionState, error: BaseException) -> None:
    """Redact the message of an error: a provider may repeat a key that the session knows."""
    values = state.tool_context.redact_values
    if values is not None and error.args and isinstance(error.args[0], str):
        error.args = (redact(error.args[0], extra_values=values), *error.args[1:])


async def _record_failure(state: SessionState, error: BaseException) -> None:
    """Add a note about a failed run to the journal, if it can be written, and fire StopFailure."""
    if isinstance(error, ClewError) and not isinstance(error, StoreError):
        await state.journal.append(Noted(topic="error", text=str(error)))
    await report_failure(state, error)
