"""What can be asked of an interactive session at any time; nothing here changes it."""

from pathlib import Path

from clew.checkpoints.values import CheckpointSummary
from clew.core.context_state import ContextState
from clew.core.errors import SessionError
from clew.core.ids import SessionId
from clew.core.messages import Message
from clew.sdk.assembly import Assembly
from clew.sdk.bridge import Bridge
from clew.sdk.history import HistoryEntry, history
from clew.sdk.questions import Questions
from clew.sdk.turnstile import Turnstile
from clew.sdk.values import PermissionRequest, ToolState


class Queries:
    """The questions that an interactive session answers."""

    _cwd: Path
    _made: Assembly | None
    _bridge: Bridge
    _questions: Questions
    _turnstile: Turnstile

    def is_executing(self) -> bool:
        """Say whether a prompt or a command is under way."""
        return self._turnstile.busy

    def get_pending_prompt(self) -> str | None:
        """Return the prompt that waits; None when none does."""
        return self._turnstile.waiting

    def get_messages(self) -> list[Message]:
        """Return the conversation as the model sees it."""
        return self._assembly().session.get_history()

    def get_full_history(self) -> list[HistoryEntry]:
        """Return all that was said and all that happened beside it, oldest first."""
        return history(self._assembly().session.journal.entries)

    def get_context_state(self) -> ContextState:
        """Read how full the window is."""
        return self._assembly().session.get_context_state()

    def get_streaming_text(self) -> str:
        """Return what the model has said in this turn so far."""
        return self._bridge.text

    def get_active_tools(self) -> list[ToolState]:
        """Return the tool calls that have no result yet."""
        return self._bridge.tools.active()

    def get_open_questions(self) -> list[PermissionRequest]:
        """Return the questions that wait for an answer."""
        return self._questions.open

    def get_session_id(self) -> SessionId:
        """Return the id under which the session is kept."""
        return self._assembly().session.session_id

    def get_name(self) -> str:
        """Return what the user calls the session; empty for nothing."""
        return self._assembly().name

    async def list_edit_checkpoints(self) -> list[CheckpointSummary]:
        """Return what files can be restored to: one checkpoint per prompt, oldest first."""
        return await self._assembly().session.checkpoints()

    def _assembly(self) -> Assembly:
        if self._made is None:
            raise SessionError("the session is not open: use `async with`, or await `open` first")
        return self._made
