"""`Session`: one conversation with a model, with tools, a journal and a window it minds."""

from collections.abc import Mapping
from typing import Any, Self, Unpack

import anyio

from clew.checkpoints.values import CheckpointSummary
from clew.core.entries import Compacted, Entry
from clew.core.events import RunEnded
from clew.core.ids import EntryId
from clew.core.messages import Message
from clew.core.text import replace_surrogates
from clew.providers.protocol import Provider
from clew.session import edits
from clew.session.compaction import compact, preview
from clew.session.config import SessionConfig, SessionOptions, facts_for
from clew.session.controls import Controls
from clew.session.delegating import Delegate, delegate
from clew.session.hooking import farewell
from clew.session.listeners import Listener, Listeners, report_failure
from clew.session.opening import open_kit, remember, switch_model
from clew.session.rewind import Rewind, Wish, checkpoints, rewind
from clew.session.state import SessionState
from clew.session.turn import Prompt, run_turn
from clew.session.work import Work
from clew.tools.protocol import ToolOutput


class Session(Controls):
    """Holds the parts of a conversation and hands them to the functions that do the work.

    Use as `async with`, or call `open` first. Provider and store stay the caller's to
    close. With the id of a session that the store has, goes on with that one.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        model: str,
        on_event: Listener | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        self._parts = SessionConfig.of(provider, model, options)
        self._emit = Listeners(self._parts.log, on_event)
        self._work = Work()
        self._opening = anyio.Lock()
        self._kit: SessionState | None = None
        self._ended = False

    async def open(self) -> Self:
        """Begin or reopen the journal; harmless when called again.

        Raises:
            StoreError: The journal cannot be read or written.
        """
        async with self._opening:
            if self._kit is None:
                self._kit = await open_kit(self._parts, self._emit)
        return self

    async def run(
        self,
        prompt: str | Message,
        *,
        display_input: str | None = None,
        raw_input: str | None = None,
    ) -> str:
        """Send a prompt, run the tools the model asks for, and return its last words.

        A prompt that was made from what somebody typed is shown as `display_input`, and
        hooks judge `raw_input` in its place.

        Raises:
            AbortError: `abort` was called; what had arrived is in the history.
            AlreadyRunning: Another run, compaction or command is under way.
            ClewError: See `clew.core.errors`; the session stays usable.
        """
        asked = Prompt(message=edits.as_prompt(prompt), display=display_input, raw=raw_input)
        with self._work.begin():
            try:
                await self.open()
                answer = await run_turn(self._opened(), asked, max_turns=self._parts.max_turns)
            except BaseException as error:
                await report_failure(self._kit, self._emit, error)
                raise
            await remember(self._opened(), self._parts.calibrations)
        self._opened().runs += 1
        text = replace_surrogates(answer.message.text)
        self._emit(
            RunEnded(
                text=text,
                stop_reason=answer.reason,
                detail=answer.detail,
                usage=answer.usage,
            )
        )
        return text

    async def delegate(self, prompt: str, work: Delegate) -> str:
        """Let `work` answer a prompt in the model's place; both join the conversation.

        Raises:
            AbortError: `abort` was called; the prompt is in the history.
            AlreadyRunning: Another run, compaction or command is under way.
        """
        asked = Prompt(message=edits.as_prompt(prompt))
        with self._work.begin():
            return await delegate(self._opened(), asked, work)

    def abort(self) -> None:
        """End what is under way; does nothing when nothing is."""
        self._work.abort()

    @property
    def is_running(self) -> bool:
        """True while a run, a compaction or a command is under way."""
        return self._work.running

    async def compact(self, instructions: str = "", *, force: bool = False) -> Compacted:
        """Make the view smaller now.

        Args:
            instructions: What the summary should keep.
            force: Compact even if that saves less than a tenth of the tokens.

        Raises:
            NothingToDrop: Nothing may go, or too little would be gained.
        """
        with self._work.begin():
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
        with self._work.begin():
            kit = self._opened()
            provider = provider or kit.provider
            if request_options is not None or provider.name != kit.provider.name:
                kit.request_options = request_options or {}
            facts = facts_for(provider.facts(model), max_context_tokens=max_context_tokens)
            await switch_model(kit, facts, provider, self._parts.calibrations)

    async def undo(self) -> Entry:
        """Take back the newest compaction, clear or rewind; returns the entry that was undone."""
        with self._work.begin():
            return await edits.undo(self._opened())

    async def rewind(self, entry_id: int, **wish: Unpack[Wish]) -> Rewind:
        """Go back to before an entry, files and conversation; `undo` takes it back.

        Raises:
            AlreadyRunning: A run, a compaction or a command is under way.
            SessionError: There is no such entry, or its files are no longer kept.
        """
        with self._work.begin():
            return await rewind(self._opened(), EntryId(entry_id), wish)

    async def checkpoints(self) -> list[CheckpointSummary]:
        """Return what `rewind` can restore files to: one checkpoint per prompt, oldest first."""
        return await checkpoints(self._opened())

    async def run_tool(self, name: str, arguments: str, *, said: str) -> ToolOutput:
        """Run a tool on a person's behalf and put its result into the conversation."""
        with self._work.begin():
            return await edits.run_by_hand(self._opened(), name, arguments, said=said)

    async def clear_history(self) -> None:
        """Begin the conversation anew; `undo` brings the old one back."""
        with self._work.begin():
            await edits.clear(self._opened())

    async def inject_message(self, message: Message) -> None:
        """Add a message without asking the model for an answer.

        Raises:
            SessionError: The message would make the history invalid.
        """
        with self._work.begin():
            await edits.inject(self._opened().journal, message)

    async def set_system_message(self, text: str) -> None:
        """Begin every request with other words from here on."""
        with self._work.begin():
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
