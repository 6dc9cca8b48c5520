"""Values: what a model wrote for a summary, and notes that are prepared in the background."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from clew.context.plan import Reduce
from clew.context.view import View
from clew.core.context_state import SummaryCheck
from clew.core.entries import Charged
from clew.core.models import ModelFacts
from clew.core.usage import Usage

if TYPE_CHECKING:
    import anyio

    from clew.session.task_owner import TaskOwner


FOREGROUND, BACKGROUND = "a summary", "a summary prepared in the background"
"""What the journal says about the cost of a draft."""


class Notes(Struct, frozen=True, kw_only=True):
    """What a model wrote, and what that took."""

    text: str
    usage: Usage
    author: str = ""
    """The name of the model."""
    cost: float | None = 0.0
    """US dollars; None if a price is unknown."""
    check: SummaryCheck | None = None
    """What a second call added; see `clew.session.summary_check`."""
    called_tools: bool = False
    """True if the answer asks for tools, so that its text is not the end of it."""


class Preparation(Struct, kw_only=True, eq=False):
    """A summary in preparation, or prepared; without notes, one that failed or was discarded.

    The session keeps a failed or discarded one until the next compaction, so that no second one
    is paid for before.
    """

    view: View
    """The view for which it was started."""
    plan: Reduce
    model: ModelFacts
    notes: Notes | None = None
    discarded: str = ""
    """Why it must not be used."""
    is_last: bool = False
    """True if the session should prepare no other one."""
    tokens: int = 0
    """Tokens that were read and written for it so far."""
    cost: float | None = 0.0
    """US dollars for these; None if the price is unknown."""
    done: "anyio.Event"
    scope: "anyio.CancelScope"
    tasks: "TaskOwner"
    unsubscribe: Callable[[], None] | None = None

    @property
    def is_usable(self) -> bool:
        """True while it is written, and until it is used or discarded."""
        return not self.discarded and (self.notes is not None or not self.done.is_set())

    def allows_next(self, view: View) -> bool:
        """Return whether another one may be started: after the next compaction, clear or undo."""
        return not self.is_usable and not self.is_last and self.view.undoable != view.undoable

    def add_charge(self, charge: Charged) -> None:
        """Add the tokens and the cost of a call."""
        self.tokens += charge.usage.context_tokens if charge.usage is not None else 0
        is_known = self.cost is not None and charge.cost is not None
        self.cost = (self.cost or 0.0) + (charge.cost or 0.0) if is_known else None

    def abort(self) -> None:
        """Cancel it while it is written; one that is written stays."""
        if self.is_usable and self.notes is None:
            self.discarded = "the session was aborted"
            self.scope.cancel()

    async def aclose(self) -> None:
        """Cancel it while it is written, and wait for its end."""
        self.abort()
        await self.tasks.aclose()
        self.stop_watching()

    def stop_watching(self) -> None:
        """Listen to no more entries; calling it again does nothing."""
        if self.unsubscribe is not None:
            self.unsubscribe()
            self.unsubscribe = None
