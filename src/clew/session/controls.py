"""What can be changed of a session at any time, also while it runs."""

from typing import Literal

from msgspec.structs import replace

from clew.core.access import PermissionMode
from clew.core.entries import Charged, ModeChanged, Noted
from clew.core.errors import ConfigError
from clew.core.ids import EntryId
from clew.session import edits
from clew.session.asking import ask_model
from clew.session.cost_limit import cost_limit_for
from clew.session.readings import Readings


class Controls(Readings):
    """The switches of an open session."""

    async def pin(self, entry_id: int, *, pinned: bool = True) -> None:
        """Keep a message word for word through every compaction, or no longer."""
        await edits.pin(self._opened().journal, EntryId(entry_id), pinned=pinned)

    async def add_history_entry(self, topic: str, text: str, /, **data: object) -> None:
        """Add something for people to the journal; the model never sees it."""
        await self._opened().journal.append(Noted(topic=topic, text=text, data=data))

    async def ask_aside(self, prompt: str, *, model: str = "", why: str) -> str:
        """Ask a model outside the conversation; it counts for the session's cost and budget.

        Raises:
            BudgetReached: The session has cost as much as it may.
            ProviderError: The call failed.
        """
        kit = self._opened()
        kit.check_budget()
        name = model or kit.journal.view.setup.model.name
        reply = await ask_model(kit.provider, name, prompt)
        cost = kit.cost(reply.usage, name) if reply.usage is not None else None
        await kit.journal.append(Charged(why=why, usage=reply.usage, cost=cost))
        return reply.text

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        """Change how much runs without asking, from the next call on.

        Raises:
            ConfigError: It is the mode that asks about nothing, and the gate forbids it.
        """
        if mode is PermissionMode.BYPASS and self._opened().gate.bypass_disabled:
            raise ConfigError("the settings do not allow the mode bypassPermissions")
        await self._opened().journal.append(ModeChanged(mode=mode))
        self._opened().gate.mode = mode

    def clear_grants(self) -> None:
        """Take back all that was allowed for the rest of the session."""
        self._opened().gate.clear_grants()

    def set_auto_compact_threshold(self, share: float | Literal[False]) -> None:
        """Change when a compaction starts by itself; False for never."""
        kit = self._opened()
        kit.policy = replace(kit.policy, thresholds=replace(kit.policy.thresholds, compact=share))

    def set_budget(self, usd: float | None) -> None:
        """Change what the session may cost in all; None for no limit."""
        kit = self._opened()
        kit.purse = cost_limit_for(usd, kit.purse.prices)
