"""The gate before each tool call: rules decide, and a person is asked where they cannot."""

from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from clew.core.access import Access, Approval, Decision, PermissionMode, Verdict
from clew.permissions.decide import decide
from clew.permissions.grants import Grant, grant_for
from clew.permissions.rules import DEFAULT_ALLOW, Rule, parse

Ask: TypeAlias = Callable[[Access, Decision], Awaitable[Approval]]
"""Puts a question to a person: what is wanted, and why it was not decided."""


@cache
def _always_allowed() -> tuple[Rule, ...]:
    """Return the rules that let a model read the configuration folders, in every session."""
    return tuple(parse(text) for text in DEFAULT_ALLOW)


class Gate(Struct, kw_only=True):
    """Judges accesses for one session. Without somebody to ask, a question is a no."""

    cwd: Path
    mode: PermissionMode = PermissionMode.DEFAULT
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    ask: Ask | None = None
    grants: list[Grant] = field(default_factory=list)
    """What was allowed for the rest of the session, by argument shape."""

    def decide(self, access: Access) -> Decision:
        """Return what rules and mode say; `ASK` where they leave it to a person."""
        return decide(
            access,
            mode=self.mode,
            allow=(*_always_allowed(), *self.allow),
            deny=self.deny,
            grants=tuple(self.grants),
            cwd=self.cwd,
        )

    async def judge(self, access: Access, *, wish: Decision | None = None) -> Decision:
        """Return a final decision: never `ASK`.

        A hook's `wish` may spare a question or demand one; it cannot lift a denial.
        """
        decision = self.decide(access)
        if wish is not None and Verdict.ASK in {wish.verdict, decision.verdict}:
            decision = wish if decision.verdict is not Verdict.DENY else decision
        if decision.verdict is not Verdict.ASK:
            return decision
        if self.ask is None:
            return Decision(Verdict.DENY, f"{decision.reason}; nobody is here to ask")
        match await self.ask(access, decision):
            case Approval.NO:
                return Decision(Verdict.DENY, "the user said no")
            case Approval.ONCE:
                return Decision(Verdict.ALLOW, "the user allowed this call")
            case Approval.SESSION:
                self.grants.append(grant_for(access, self.cwd))
                return Decision(Verdict.ALLOW, "the user allowed calls like this one")
