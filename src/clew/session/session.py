"""`Session`: one conversation with a model, with tools, a journal and a window it minds."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Self, Unpack

import anyio

from clew.checkpoints.values import CheckpointSummary
from clew.core.entries import Compacted, Entry
from clew.core.errors import AbortError
from clew.core.events import Envelope
from clew.core.ids import EntryId, RunId
from clew.core.messages import Message
from clew.core.results import ExecutionResult
from clew.providers.protocol import Provider
from clew.session import edits
from clew.session.call import Answer
from clew.session.compaction import compact, preview
from clew.session.config import SessionConfig, SessionOptions, facts_for
from clew.session.controls import Controls
from clew.session.delegating import Delegate, delegate
from clew.session.event_bus import EnvelopeListener, Listener, Unsubscribe
from clew.session.hooking import farewell
from clew.session.opening import open_kit, remember, subscribe_log, switch_model
from clew.session.rewind import Rewind, Wish, checkpoints, rewind
from clew.session.runs import RunGuard, RunOutcome, RunTracker, record_failure
from clew.session.state import SessionState
from clew.session.turn import Prompt, continue_turn, run_turn
from clew.tools.protocol import ToolOutput


class Session(Controls):
    """Holds the parts of a conversation and hands them to the functions that do the work.

    Use as `async with`, or call `open` first. Provider and store stay the caller's to
    close. With the id of a session that the store has, goes on with that one.
    """

    def __init__(
        self, provider: Provider, *, model: str, **options: Unpack[SessionOptions]
    ) -> None:
        self._config = SessionConfig.of(provider, model, options)
        self._bus = self._config.event_bus
        if self._config.log is not None:
            subscribe_log(self._bus, self._config.log)
        self.tracker = RunTracker(self._bus)
        """Text and tool calls of the current run."""
        self._guard = RunGuard()
        self._opening = anyio.Lock()
        self._kit: SessionState | None = None
        self._ended = False

    async def open(self) -> Self:
        """Create or reopen the journal; calling it again does nothing.

        Raises:
            StoreError: The journal cannot be read or written.
        """
        async with self._opening:
            if self._kit is None:
                self._kit = await open_kit(self._config, self._bus)
        return self

    def on(self, name: str, listener: Listener) -> Unsubscribe:
        """Call `listener` with each event of that name; returns a function that unsubscribes.

        Raises:
            SessionError: There is no such event, or the listener is a coroutine function.
        """
        return self._bus.on(name, listener)

    def on_any(self, listener: EnvelopeListener) -> Unsubscribe:
        """Call `listener` with every envelope; returns a function that unsubscribes."""
        return self._bus.on_any(listener)

    def events(self, *, after: int | None = None) -> AsyncGenerator[Envelope, None]:
        """Yield every event after that sequence number, or from now on."""
        return self._bus.events(after=after)

    async def run(
        self,
        prompt: str | Message,
        *,
        display_input: str | None = None,
        raw_input: str | None = None,
    ) -> str:
        """Send a prompt, run the tools that the model calls, and return its final text.

        Raises:
            AbortError: `abort` was called; what had arrived is in the history.
            AlreadyRunning: Another run, compaction or command is in progress.
            ClewError: See `clew.core.errors`; the session stays usable.
        """
        result = await self.execute(prompt, display_input=display_input, raw_input=raw_input)
        if result.interrupted:
            raise AbortError("the run was aborted")
        return result.response

    async def execute(
        self,
        prompt: str | Message,
        *,
        display_input: str | None = None,
        raw_input: str | None = None,
        run_id: RunId | None = None,
    ) -> ExecutionResult:
        """Do the same as `run`, and return the whole result; an abort is a result, not an error.

        Args:
            prompt: What the model is sent.
            display_input: What people are shown in its place.
            raw_input: What hooks are asked about in its place.
            run_id: Names the run in its events.
        """
        message = edits.as_prompt(prompt)
        asked = Prompt(message=message, display=display_input, raw=raw_input)

        async def work(state: SessionState) -> Answer:
            return await run_turn(state, asked, max_turns=self._config.max_turns)

        return await self.observe_run(display_input or message.text, work, run_id=run_id)

    async def continue_run(self, *, run_id: RunId | None = None) -> ExecutionResult:
        """Resume after the last entry without a new prompt, such as after a crash.

        Tool calls that were cut short have a failed result; the model reads it and carries on.
        Returns the last answer when there is nothing left to do.

        Raises:
            SessionError: Nothing was said yet.
            ClewError: As `run` does.
        """

        async def work(state: SessionState) -> Answer:
            return await continue_turn(state, max_turns=self._config.max_turns)

        return await self.observe_run("", work, run_id=run_id)

    async def delegate(
        self, prompt: str, work: Delegate, *, run_id: RunId | None = None
    ) -> ExecutionResult:
        """Let `work` answer a prompt in place of the model; both join the conversation."""
        asked = Prompt(message=edits.as_prompt(prompt))

        async def answer(state: SessionState) -> Answer:
            return await delegate(state, asked, work)

        return await self.observe_run(prompt, answer, run_id=run_id)

    async def observe_run(
        self,
        label: str,
        work: Callable[[SessionState], Awaitable[Answer | None]],
        *,
        run_id: RunId | None = None,
    ) -> ExecutionResult:
        """Do `work` as one run: with its events, its guard and its result.

        Work that is aborted, or raises `AbortError`, makes an interrupted result.
        """
        outcome = RunOutcome(self._bus, self.tracker, label, run_id)
        with suppress(AbortError), self._guard.begin():
            outcome.start(self._kit)
            try:
                await self.open()
                state = self._opened()
                answer = await work(state)
                assert answer is not None  # noqa: S101 - work answers or raises
                await remember(state, self._config.calibrations)
                state.runs += 1
            except AbortError:
                outcome.interrupt(self._opened())
            except Exception as error:
                await record_failure(self._kit, error)
                outcome.fail(error)
                raise
            except BaseException as error:
                if self._kit is None:
                    outcome.fail(error)
                else:
                    outcome.interrupt(self._kit)
                raise
            else:
                outcome.complete(state, answer)
        assert outcome.result is not None  # noqa: S101 - every way out of the block sets it
        return outcome.result

    def abort(self) -> None:
        """End what is under way; does nothing when nothing is."""
        self._guard.abort()

    @property
    def is_running(self) -> bool:
        """True while a run, a compaction or a command is under way."""
        return self._guard.running

    async def compact(self, instructions: str = "", *, force: bool = False) -> Compacted:
        """Make the view smaller now.

        Args:
            instructions: What the summary should keep.
            force: Compact even if that saves less than a tenth of the tokens.

        Raises:
            NothingToDrop: Nothing may go, or too little would be gained.
        """
        with self._guard.begin():
            done = await compact(
                self._opened(), trigger="manual", instructions=instructions, force=force
            )
        assert done is not None  # noqa: S101 - only an automatic compaction may do nothing
        return done

    def preview_compaction(self) -> Compacted:
        """Return what a compaction would do now, with words by rules; changes nothing.

        Raises:
            NothingToDrop: Nothing may go, or too little would be gained.
        """
        return preview(self._opened())

    async def set_model(
        self,
        model: str,
        *,
        provider: Provider | None = None,
        max_context_tokens: int | None = None,
        request_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Go on with another model, and provider if need be; history, rules and pins stay.

        Options for requests are those of one provider's API: another one gets its own, or none.
        """
        with self._guard.begin():
            kit = self._opened()
            provider = provider or kit.provider
            if request_options is not None or provider.name != kit.provider.name:
                kit.request_options = request_options or {}
            facts = facts_for(provider.facts(model), max_context_tokens=max_context_tokens)
            await switch_model(kit, facts, provider, self._config.calibrations)

    async def undo(self) -> Entry:
        """Take back the newest compaction, clear or rewind; returns the entry that was undone."""
        with self._guard.begin():
            return await edits.undo(self._opened())

    async def rewind(self, entry_id: int, **wish: Unpack[Wish]) -> Rewind:
        """Go back to before an entry, files and conversation; `undo` takes it back.

        Raises:
            AlreadyRunning: A run, a compaction or a command is under way.
            SessionError: There is no such entry, or its files are no longer kept.
        """
        with self._guard.begin():
            return await rewind(self._opened(), EntryId(entry_id), wish)

    async def checkpoints(self) -> list[CheckpointSummary]:
        """Return what `rewind` can restore files to: one checkpoint per prompt, oldest first."""
        return await checkpoints(self._opened())

    async def run_tool(self, name: str, arguments: str, *, said: str) -> ToolOutput:
        """Run a tool on a person's behalf and put its result into the conversation."""
        with self._guard.begin():
            return await edits.run_by_hand(self._opened(), name, arguments, said=said)

    async def clear_history(self) -> None:
        """Begin the conversation anew; `undo` brings the old one back."""
        with self._guard.begin():
            await edits.clear(self._opened())

    async def inject_message(self, message: Message) -> None:
        """Add a message without asking the model for an answer.

        Raises:
            SessionError: The message would make the history invalid.
        """
        with self._guard.begin():
            await edits.inject(self._opened().journal, message)

    async def set_system_message(self, text: str) -> None:
        """Begin every request with other words from here on."""
        with self._guard.begin():
            await edits.set_system_message(self._opened(), text)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def shutdown(self, reason: str = "other") -> None:
        """End the session: abort what is under way and tell the hooks why; once is enough."""
        self.abort()
        if self._kit is None or self._ended:
            return
        self._ended = True
        with anyio.CancelScope(shield=True):
            await farewell(self._kit, reason)

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()
