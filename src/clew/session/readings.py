"""What can be asked of a session at any time; nothing here changes it."""

from typing import Literal

from clew.context.policy import ContextPolicy
from clew.context.recall import search
from clew.core.access import PermissionMode
from clew.core.context_state import ContextState
from clew.core.entries import Entry, MessageAdded
from clew.core.errors import SessionError
from clew.core.ids import SessionId
from clew.core.messages import Message
from clew.core.usage import Spending
from clew.permissions.policy import Grant
from clew.providers.protocol import Provider
from clew.session.journal import Journal
from clew.session.state import SessionState
from clew.tools.protocol import ToolContext


class Readings:
    """The questions that an open session answers."""

    _kit: SessionState | None = None

    def get_cost(self) -> Spending:
        """Return what the session has cost so far: calls, tokens, US dollars."""
        return self.journal.spending

    def get_budget_left(self) -> float | None:
        """Return the US dollars that may still be spent; None for no limit."""
        budget = self._opened().purse.budget
        return None if budget is None else max(0.0, budget - self.journal.spending.usd)

    def get_context_state(self) -> ContextState:
        """Read how full the window is."""
        return self._opened().state()

    def get_history(self) -> list[Message]:
        """Return the conversation as it stands in the view, summary included."""
        return [item.message for item in self.journal.view.items]

    def get_full_history(self) -> list[Message]:
        """Return every message that was ever added, also those that have left the view."""
        return [
            entry.body.message
            for entry in self.journal.entries
            if isinstance(entry.body, MessageAdded)
        ]

    def list_grants(self) -> list[Grant]:
        """Return what was allowed for the rest of the session, by argument shape."""
        return list(self._opened().gate.grants)

    def get_permission_mode(self) -> PermissionMode:
        """Return how much runs without asking."""
        return self._opened().gate.mode

    def get_auto_compact_threshold(self) -> float | Literal[False]:
        """Return the share of the window from which a compaction starts by itself, or False."""
        return self._opened().policy.thresholds.compact

    def get_message_count(self) -> int:
        """Return how many runs were completed since the session was opened."""
        return self._opened().runs

    @property
    def policy(self) -> ContextPolicy:
        """How the session treats its window."""
        return self._opened().policy

    @property
    def place(self) -> ToolContext:
        """Where the session's tools work."""
        return self._opened().place

    @property
    def provider(self) -> Provider:
        """Who answers now."""
        return self._opened().provider

    def search(self, query: str) -> list[Entry]:
        """Find entries by their words, whether or not they are still in the view."""
        return search(self.journal.entries, query)

    @property
    def journal(self) -> Journal:
        """All that ever happened in this session, and the view it leads to."""
        return self._opened().journal

    @property
    def session_id(self) -> SessionId:
        """The id under which the store keeps this session."""
        return self.journal.record.id

    def _opened(self) -> SessionState:
        if self._kit is None:
            raise SessionError("the session is not open: use `async with`, or await `open` first")
        return self._kit
