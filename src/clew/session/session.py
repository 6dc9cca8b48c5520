"""`Session`: one conversation with a model, with tools, a journal and a managed window."""

from typing import TYPE_CHECKING, Literal, Self, TypedDict, Unpack

from msgspec.structs import replace

from clew.checkpoints.values import CheckpointSummary
from clew.context.economy import Economy
from clew.core.context_state import ContextState
from clew.core.entries import Compacted, Entry, Noted
from clew.core.errors import AbortError
from clew.core.ids import EntryId, RunId, SessionId
from clew.core.messages import Message
from clew.core.permissions import PermissionMode
from clew.core.results import ExecutionResult
from clew.core.usage import Spending
from clew.permissions.policy import Grant
from clew.providers.protocol import Provider
from clew.session import conversation_edits as edits
from clew.session.config import SessionOptions
from clew.session.event_bus import Listener, Unsubscribe
from clew.session.journal import Journal
from clew.session.lifecycle import (
    ModelOptions,
    close_session,
    create_state,
    open_session,
    switch_model,
)
from clew.session.plan_mode import change_mode
from clew.session.recall_tool import answer_request, find_entries
from clew.session.rewind import Rewind, RewindOptions, list_checkpoints, rewind
from clew.session.runs import Runs
from clew.session.state import ThresholdShares
from clew.session.turn import Prepare, make_prompt
from clew.session.window_fit import compact_now, preview
from clew.tools.protocol import ToolOutput

if TYPE_CHECKING:
    from clew.session.history import HistoryEntry
    from clew.session.recall import RecallAnswer, RecallRequest


class RunOptions(TypedDict, total=False):
    """What can be given along with a prompt."""

    display_input: str | None
    """What clients show in place of the prompt."""
    raw_input: str | None
    """What hooks get in place of the prompt."""
    attach: bool | str
    """Attach the files and sessions that `@path` and `@session:ID` name: in the prompt, or in
    this text. Default: False."""
    prepare: Prepare | None
    """Writes the prompt that the model gets, once the run has begun. Default: None."""
    run_id: RunId | None
    """Names the run in its events. Default: a new id."""


class Session:
    """A conversation with a model. Getters work before `open`; a run opens the session itself.

    The caller closes provider and store. The id of a stored session continues that session.
    """

    def __init__(
        self, provider: Provider, *, model: str, **options: Unpack[SessionOptions]
    ) -> None:
        self.state = create_state(provider, model, options)
        """Policy, provider, budget and what else the session's parts share."""
        self.gate = self.state.gate
        self.bus = self.state.options["event_bus"]
        """Publishes the events: `on` for one kind, `on_any` for all, `events` as a stream."""
        self.runs = Runs(self.state)

    async def open(self) -> Self:
        """Create or reopen the journal; raises `StoreError`, or once shut down `SessionClosed`."""
        await open_session(self.state)
        return self

    async def shutdown(self, reason: str = "other") -> None:
        """Abort what is in progress, fire SessionEnd once, release the journal, and stay closed."""
        self.abort()
        await close_session(self.state, reason)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    def on(self, name: str, listener: Listener) -> Unsubscribe:
        """Call `listener` with each event of that name; returns a function that unsubscribes."""
        return self.bus.on(name, listener)

    async def run(self, prompt: str | Message, **options: Unpack[RunOptions]) -> str:
        """Send a prompt, run the tools that the model calls, and return its final text.

        Raises:
            AbortError: `abort` was called; the text that arrived is in the history.
            AlreadyRunning: Another run, compaction or command is in progress.
            ClewError: See `clew.core.errors`; the session stays usable.
        """
        result = await self.execute(prompt, **options)
        if result.interrupted:
            raise AbortError("the run was aborted")
        return result.response

    async def execute(
        self, prompt: str | Message, **options: Unpack[RunOptions]
    ) -> ExecutionResult:
        """Do the same as `run` and return the whole result; an abort is a result, not an error."""
        raw, display = options.get("raw_input"), options.get("display_input")
        attach, prepare = options.get("attach", False), options.get("prepare")
        asked = make_prompt(prompt, raw=raw, display=display, attach=attach, prepare=prepare)
        return await self.runs.execute(asked, run_id=options.get("run_id"))

    async def continue_run(self, *, run_id: RunId | None = None) -> ExecutionResult:
        """Continue after the last entry without a new prompt, such as after a crash or an abort.

        Returns the last answer if nothing is left to do; raises `SessionError` if nothing was said.
        """
        return await self.runs.continue_run(run_id=run_id)

    def abort(self) -> None:
        """Abort the run, and a summary that is prepared in the background; else does nothing."""
        self.runs.abort()

    @property
    def is_running(self) -> bool:
        """True while a run, a compaction or a command is in progress."""
        return self.runs.guard.running

    async def compact(self, instructions: str = "", *, force: bool = False) -> Compacted:
        """Compact the view now, with `force` even if that saves little; see `compact_now`."""
        with self.runs.guard.begin():
            return await compact_now(self.state, instructions, force=force)

    def preview_compaction(self, strategy: str = "") -> Compacted:
        """Preview what `compact` would do, with a rule-based summary; changes nothing."""
        return preview(self.state, strategy)

    async def set_model(self, model: str, **options: Unpack[ModelOptions]) -> None:
        """Continue with another model; history, rules and pins stay."""
        with self.runs.guard.begin():
            await switch_model(self.state, model, options)

    async def set_system_message(self, text: str) -> None:
        """Change the system message from the next request on."""
        with self.runs.guard.begin():
            await edits.set_system_message(self.state, text)

    async def clear_history(self) -> None:
        """Start an empty conversation; `undo` brings the old one back."""
        with self.runs.guard.begin():
            await edits.clear_history(self.state)

    async def inject_message(self, message: edits.MessageOrRole, text: str = "") -> None:
        """Add a message, or a role and a text, without a model call."""
        with self.runs.guard.begin():
            await edits.inject_message(self.state, edits.make_message(message, text))

    async def run_tool(self, name: str, arguments: str, *, said: str) -> ToolOutput:
        """Run a tool on the user's behalf and add its result to the conversation."""
        with self.runs.guard.begin():
            return await edits.run_tool(self.state, name, arguments, said=said)

    async def undo(self, entry_id: EntryId | None = None) -> Entry:
        """Undo the newest compaction, clear or rewind and return it; `entry_id` must be its id."""
        with self.runs.guard.begin():
            return await edits.undo(self.state, entry_id)

    async def rewind(self, entry_id: int, **options: Unpack[RewindOptions]) -> Rewind:
        """Go back to before an entry, both files and conversation; `undo` reverts it."""
        with self.runs.guard.begin():
            return await rewind(self.state, EntryId(entry_id), options)

    async def list_checkpoints(self) -> list[CheckpointSummary]:
        """Return the checkpoints that `rewind` can restore files from, oldest first."""
        return await list_checkpoints(self.state)

    async def pin(self, entry_id: int, *, pinned: bool = True) -> None:
        """Keep a message word for word through every compaction, or no longer."""
        await edits.pin(self.state, EntryId(entry_id), pinned=pinned)

    async def add_history_entry(self, topic: str, text: str, /, **data: object) -> None:
        """Add an event to the history that the model never sees."""
        self.state.check_open()
        await self.journal.append(Noted(topic=topic, text=text, data=data))

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        """Change how much runs without asking; raises `ConfigError` if the mode is disabled."""
        await change_mode(self.state, mode)

    def get_permission_mode(self) -> PermissionMode:
        """Return how much runs without asking."""
        return self.gate.mode

    def list_grants(self) -> list[Grant]:
        """Return the calls that the user allowed for the rest of the session."""
        return list(self.gate.grants)

    def clear_grants(self) -> None:
        """Revoke everything that the user allowed for the rest of the session."""
        self.gate.clear_grants()

    def set_auto_compact_threshold(self, share: float | Literal[False]) -> None:
        """Change the share of the window at which a compaction starts; False disables it."""
        self.set_thresholds(compact=share)

    def get_auto_compact_threshold(self) -> float | Literal[False]:
        """Return the share of the window at which a compaction starts, or False."""
        return self.state.policy.thresholds.compact

    def set_thresholds(self, **shares: Unpack[ThresholdShares]) -> None:
        """Change when to warn, compact and block, from the next model call on."""
        self.state.set_thresholds(**shares)

    def set_economy(self, level: Economy | str) -> None:
        """Change how much of the window is used, from the next model call on; see `Economy`."""
        self.state.policy = replace(self.state.policy, economy=level)

    def get_context_state(self) -> ContextState:
        """Return how full the window is."""
        return self.state.context_state()

    def get_history(self) -> list[Message]:
        """Return the conversation as the model sees it, summary included."""
        return [item.message for item in self.journal.view.items]

    def get_full_history(self) -> "list[HistoryEntry]":
        """Return every message and event since the session was created."""
        return _project(self.journal)

    def get_message_count(self) -> int:
        """Return the number of runs that were completed since the session was opened."""
        return self.state.completed_runs

    def get_cost(self) -> Spending:
        """Return the calls, tokens and US dollars that the session has cost so far."""
        return self.journal.spending

    def search(self, query: str) -> list[Entry]:
        """Find entries by their words, the best first; `recall` is faster in long sessions."""
        return find_entries(self.journal, query)

    async def recall(self, request: "RecallRequest | str") -> "RecallAnswer":
        """Search by words and filters, or read entries; see `SessionRecall.answer`."""
        return await answer_request(self.state.options["store"], self.journal, request)

    @property
    def journal(self) -> Journal:
        """Every entry of the session, and the view computed from them."""
        return self.state.journal

    @property
    def session_id(self) -> SessionId:
        """The id of the session in its store."""
        return self.journal.record.id


def _project(journal: Journal) -> "list[HistoryEntry]":
    # Imported here because only clients show a history.
    from clew.session.history import project_history  # noqa: PLC0415

    return project_history(journal.entries)
