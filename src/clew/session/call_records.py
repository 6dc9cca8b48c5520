"""Records which tool calls have begun, so that a successor knows which of them it may run again.

A crash loses the results of the calls that were running. What only reads can run again; what may
have changed something cannot, because it is unknown how far it came. So such a call is recorded in
the journal after it is allowed and before it runs: a call that waits for permission has not begun.
"""

from collections.abc import Sequence

import anyio

from clew.context.render import find_open_calls
from clew.core.entries import CallStarted
from clew.core.ids import CallId
from clew.core.messages import ToolCall
from clew.core.permissions import Access, Risk, Verdict
from clew.permissions.policy import Policy
from clew.session.gate import Gate
from clew.session.journal import Journal

OUTCOME_UNKNOWN = (
    "Error: the session ended while this tool call ran: interrupted, outcome unknown. Check what it"
    " has done before you repeat it."
)


class CallRecords:
    """Writes the records of the calls that begin at the same time as one entry."""

    def __init__(self) -> None:
        self._waiting: tuple[CallId, ...] = ()
        self._lock: anyio.Lock | None = None

    async def add(self, journal: Journal, call_id: CallId) -> None:
        """Record that a call is about to run; it is recorded when this returns.

        Raises:
            StoreError: It could not be written; the call must not run.
        """
        self._waiting += (call_id,)
        # Made here because anyio imports its locks when they are first used.
        self._lock = self._lock or anyio.Lock()
        try:
            # The lock lets other tasks run first, so the calls of one answer are there by then.
            async with self._lock:
                if call_id in self._waiting:
                    ids = self._waiting
                    await journal.append(CallStarted(call_ids=ids))
                    self._remove(*ids)
        finally:
            self._remove(call_id)

    def _remove(self, *ids: CallId) -> None:
        self._waiting = tuple([one for one in self._waiting if one not in ids])


def only_reads(gate: Gate, access: Access) -> bool:
    """Return whether a call cannot change anything, whatever the rules say about it."""
    if access.risk is Risk.INSPECT:
        return True
    # Without rules, default mode allows a command line only if it reads.
    return gate.decide(access, Policy(cwd=gate.cwd)).verdict is Verdict.ALLOW


def split_open_calls(journal: Journal) -> tuple[Sequence[ToolCall], Sequence[ToolCall]]:
    """Return the calls without a result: those to run again, and those that had begun."""
    items = journal.view.items
    calls = [] if items.is_complete else find_open_calls(items)
    if not calls:
        return (), ()
    asked = next(item.entry_id for item in reversed(items) if item.asks)
    begun = {
        call_id
        for entry in journal.since(asked)
        if isinstance(entry.body, CallStarted)
        for call_id in entry.body.call_ids
    }
    again = [call for call in calls if call.call_id not in begun]
    return again, [call for call in calls if call.call_id in begun]
