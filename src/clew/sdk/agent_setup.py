"""What the subagents of one session have in common, and what each takes over from its parent."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from clew.core.entries import Charged
from clew.core.errors import ConfigError
from clew.core.ids import SessionId
from clew.core.usage import Spending, Usage
from clew.extensions.agent_definitions import GENERAL_PURPOSE, AgentDefinition
from clew.extensions.agent_discovery import find_agent
from clew.extensions.project import ProjectContext
from clew.hooks.protocol import Hooks, NoHooks
from clew.providers.protocol import Provider
from clew.sdk.permission_requests import PermissionRequests
from clew.sdk.saved_model import SavedModel, find_saved_model
from clew.session.config import SessionOptions
from clew.session.gate import Gate
from clew.session.limits import SharedBudget
from clew.session.session import Session
from clew.stores.protocol import Store
from clew.stores.record import StoredSession
from clew.tools.protocol import Tool

Charge: TypeAlias = Callable[[str, Spending], Awaitable[None]]
"""Charges the cost of an agent to its parent: the name of the agent, and what it has spent."""


class ParentState(Struct, frozen=True, kw_only=True):
    """The session that an agent works for, at the moment when the agent starts."""

    session_id: SessionId
    provider: Provider
    model: str
    window: int | None = None
    """The window of `model`; None for the window in the catalogue."""
    effort: str = ""
    before_change: Callable[[Path], None] | None = None
    """Keeps files for a rewind of the parent's turn before the agent changes them."""


class AgentSetup(Struct, kw_only=True):
    """Everything that subagents are made from."""

    definitions: Mapping[str, AgentDefinition]
    tools: Sequence[Tool]
    """The tools of the parent; the definition of an agent decides which of them it gets."""
    gate: Gate
    """The permissions of the parent. Agents have the same rules, mode and grants."""
    requests: PermissionRequests
    project: ProjectContext
    cwd: Path
    store: Store
    """Where the journals of agents are stored: with that of the parent."""
    provider_name: str
    """The provider that `options` were made for."""
    options: SessionOptions
    """The options of the parent that hold for its subagents too."""
    hooks: Hooks = field(default_factory=NoHooks)
    transcripts: Path | None = None
    """Where agents write a session log, if their parent writes one."""
    session: Session | None = None
    """The parent, if it is open in this process."""
    find_parent: Callable[[], ParentState] | None = None
    charge: Charge | None = None
    budget: SharedBudget | None = None

    def find_definition(self, name: str) -> AgentDefinition:
        """Return an agent's definition; an empty name means `general-purpose`.

        Raises:
            ConfigError: There is none of that name.
        """
        found = find_agent(self.definitions, name or GENERAL_PURPOSE.name)
        if found is None:
            known = ", ".join(sorted(self.definitions))
            raise ConfigError(f"there is no agent {name!r}; there are: {known}")
        return found

    def find_saved_model(self) -> SavedModel | None:
        """Return how the parent reaches its model now; None if that was not stored."""
        record = self.session.journal.record if self.session is not None else None
        return find_saved_model(record) if isinstance(record, StoredSession) else None

    @property
    def parent(self) -> ParentState:
        """The parent as it is now."""
        assert self.find_parent is not None  # noqa: S101 - set before an agent can start
        return self.find_parent()


def connect_parent(setup: AgentSetup, parent: Session) -> None:
    """Make a session the parent of the agents: they spend its budget, and it pays for them."""

    def find_parent() -> ParentState:
        now = parent.journal.view.setup
        return ParentState(
            session_id=parent.session_id,
            provider=parent.state.provider,
            model=now.model.name,
            window=now.model.window,
            effort=now.effort,
            before_change=parent.state.tool_context.before_change,
        )

    async def charge(name: str, spent: Spending) -> None:
        await charge_agent(parent, Charged(why=f"agent {name}"), spent)

    state = parent.state
    budget = state.shared_budget or SharedBudget(lambda: state.cost_limit.budget)
    budget.join("parent", lambda: state.journal.spending.usd + state.reserved_usd)
    state.shared_budget = setup.budget = budget
    setup.session, setup.find_parent, setup.charge = parent, find_parent, charge


async def charge_agent(parent: Session, charge: Charged, spent: Spending) -> None:
    """Record what an agent has cost in the journal of its parent.

    Args:
        parent: The session that pays.
        charge: Says what for.
        spent: What the agent has spent since the last charge.
    """
    if not spent.calls:
        return
    is_priced = spent.unpriced < spent.calls
    cost = spent.usd if is_priced else None
    await parent.journal.append(replace(charge, usage=spent.usage, cost=cost))
    if is_priced and spent.unpriced:
        why = f"{charge.why}, at an unknown price"
        await parent.journal.append(replace(charge, why=why, usage=Usage()))
