"""What can be asked of a session at any time; nothing here changes it."""

from clew.core.entries import Entry, MessageAdded
from clew.core.errors import SessionError
from clew.core.ids import SessionId
from clew.core.messages import Message
from clew.core.spending import Spending
from clew.core.state import ContextState
from clew.session.journal import Journal
from clew.session.kit import Kit
from clew.session.recall import search


class Readings:
    """The questions that an open session answers."""

    _kit: Kit | None = None

    def get_cost(self) -> Spending:
        """Return what the session has cost so far: calls, tokens, US dollars."""
        return self.journal.spending

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

    def _opened(self) -> Kit:
        if self._kit is None:
            raise SessionError("the session is not open: use `async with`, or await `open` first")
        return self._kit
