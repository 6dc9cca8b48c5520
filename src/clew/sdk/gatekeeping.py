"""The gate of an interactive session: tells of denials, and keeps what is allowed for good."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from clew.core.access import Access, Decision, PermissionMode, Verdict
from clew.sdk.options import OnDenied
from clew.session.gate import Ask, Gate

Remember: TypeAlias = Callable[[Sequence[str]], Awaitable[None]]
"""Keeps rules that a person allowed for the project."""


class ProjectGate(Gate, kw_only=True):
    """A gate that also tells what it denied, and which mode would have allowed it."""

    whom: Callable[[], Ask | None] | None = None
    """Says before each call whom to ask; without it, `ask` stays who it is."""
    on_denied: OnDenied | None = None
    remember: Remember | None = None

    async def judge(
        self, access: Access, *, decision: Decision | None = None, wish: Decision | None = None
    ) -> Decision:
        """Return a final decision; tell of a no, keep what holds for the project."""
        if self.whom is not None:
            self.ask = self.whom()
        final = await Gate.judge(self, access, decision=decision, wish=wish)
        if final.verdict is Verdict.DENY and self.on_denied is not None:
            self.on_denied(access, final, self._remedy(access))
        if final.remember and self.remember is not None:
            await self.remember(final.remember)
        return final

    def _remedy(self, access: Access) -> str:
        for mode in (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.BYPASS):
            if self.decide(access, self.policy(mode)).verdict is Verdict.ALLOW:
                return f"--permission-mode {mode} would allow it"
        return "no permission mode allows it"
