"""Charges durable agents to the session that follows them.

The journal of an agent says what it has cost, in whichever process it ran. A `Charged` entry in
the journal of the session says up to which entry of the agent that is paid. So each call is paid
once: after a takeover, after the session itself was closed, and for a message to an agent that had
ended.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from clew.core.entries import Charged, Entry, total_spending
from clew.core.errors import SessionNotFound
from clew.core.ids import SessionId
from clew.sdk.agent_setup import AgentSetup, charge_agent


class Payment(Struct, frozen=True, kw_only=True):
    """What a session has paid for an agent."""

    entries: int = 0
    """How many entries of the agent's journal are paid."""
    usd: float = 0.0


class DurableCosts:
    """Counts durable agents in the budget of a session, and charges them to it; a `TaskCosts`."""

    def __init__(self, setup: AgentSetup) -> None:
        self._setup = setup
        self._spent: dict[str, float] = {}

    def count(self, task_id: str, usd: float) -> None:
        """Count what an agent that runs has cost so far in the budget of the session."""
        session, budget = self._setup.session, self._setup.budget
        if session is None or budget is None:
            return
        if task_id not in self._spent:
            paid = find_payment(session.journal.entries, task_id).usd
            budget.join(task_id, lambda: max(0.0, self._spent.get(task_id, 0.0) - paid))
        self._spent[task_id] = usd

    async def charge(self, task_id: str, agent: str) -> None:
        """Charge what an agent has cost since it was charged last.

        Raises:
            StoreError: Its journal cannot be read, or that of the session not written.
        """
        session, budget = self._setup.session, self._setup.budget
        if session is None:
            return
        paid = find_payment(session.journal.entries, task_id)
        try:
            _, fresh = await self._setup.store.load(SessionId(task_id), after=paid.entries)
        except SessionNotFound:
            fresh = ()
        through = paid.entries + len(fresh)
        payment = Charged(why=f"agent {agent}", task_id=task_id, through=through)
        await charge_agent(session, payment, total_spending(fresh))
        self._spent.pop(task_id, None)
        if budget is not None:
            budget.leave(task_id)


def find_payment(entries: Sequence[Entry], task_id: str) -> Payment:
    """Return what the entries of a session say that it has paid for an agent."""
    paid = Payment()
    for entry in entries:
        body = entry.body
        if isinstance(body, Charged) and body.task_id == task_id:
            paid = replace(
                paid,
                entries=max(paid.entries, body.through),
                usd=paid.usd + (body.cost or 0.0),
            )
    return paid
