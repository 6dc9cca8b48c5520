"""The gate before each tool call: rules decide, and a person is asked where they cannot."""

from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from clew.core.access import Access, Approval, Decision, PermissionMode, Verdict
from clew.permissions.policy import Grant, Policy
from clew.permissions.rules import DEFAULT_ALLOW, Rule, parse_rule

Ask: TypeAlias = Callable[[Access, Decision], Awaitable[Approval]]
"""Puts a question to a person: what is wanted, and why it was not decided."""


@cache
def _always_allowed() -> tuple[Rule, ...]:
    """Return the rules that let a model read the configuration folders, in every session."""
    return tuple(parse_rule(text, source="built in") for text in DEFAULT_ALLOW)


class Gate(Struct, kw_only=True):
    """Judges accesses for one session. Without somebody to ask, a question is a no."""

    cwd: Path
    mode: PermissionMode = PermissionMode.DEFAULT
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    ask_rules: tuple[Rule, ...] = ()
    """What a person is asked about even where an allow rule matches."""
    ask: Ask | None = None
    bypass_disabled: bool = False
    """True when the mode that asks about nothing may not be chosen."""
    grants: list[Grant] = field(default_factory=list)
    """What was allowed for the rest of the session, by argument shape."""

    def policy(self, mode: PermissionMode | None = None) -> Policy:
        """Return all that decides, as it is now or as it would be in another mode."""
        return Policy(
            cwd=self.cwd,
            mode=mode or self.mode,
            allow=(*_always_allowed(), *self.allow),
            ask=self.ask_rules,
            deny=self.deny,
            grants=tuple(self.grants),
        )

    def decide(self, access: Access, *, mode: PermissionMode | None = None) -> Decision:
        """Return what rules and mode say; `ASK` where they leave it to a person."""
        # Reading command lines takes its time to load, and not every program judges calls.
        from clew.permissions.decide import decide  # noqa: PLC0415

        return decide(access, self.policy(mode))

    async def judge(self, access: Access, *, wish: Decision | None = None) -> Decision:
        """Return a final decision: never `ASK`.

        A hook's `wish` may spare a question or demand one; it cannot lift a denial, nor
        quiet a rule that asks.
        """
        decision = self.decide(access)
        if wish is not None and self._heeds(wish, access, decision):
            decision = wish
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
                self.grant(access)
                return Decision(Verdict.ALLOW, "the user allowed calls like this one")
            case Approval.PROJECT:
                self.grant(access)
                return Decision(
                    Verdict.ALLOW,
                    "the user allowed calls like this one in this project",
                    self._rules(access),
                )

    def grant(self, access: Access) -> Grant:
        """Allow calls of this shape until the session ends; returns what was allowed.

        Where a rule asks about the call, only this very call is allowed.
        """
        from clew.permissions.grants import exact_grant, grant_for  # noqa: PLC0415

        exact = self._asks_by_rule(access)
        grant = exact_grant(access) if exact else grant_for(access, self.cwd)
        if grant not in self.grants:
            self.grants.append(grant)
        return grant

    def revoke(self, grant: Grant) -> None:
        """Take one grant back; nothing happens if it is not there."""
        if grant in self.grants:
            self.grants.remove(grant)

    def clear_grants(self) -> None:
        """Take back all that was allowed for this session."""
        self.grants.clear()

    def _heeds(self, wish: Decision, access: Access, decision: Decision) -> bool:
        match decision.verdict:
            case Verdict.DENY:
                return False
            case Verdict.ALLOW:
                return wish.verdict is Verdict.ASK
            case Verdict.ASK:
                return wish.verdict is not Verdict.ALLOW or not self._asks_by_rule(access)

    def _asks_by_rule(self, access: Access) -> bool:
        from clew.permissions.decide import asks_by_rule  # noqa: PLC0415

        return asks_by_rule(access, self.policy())

    def _rules(self, access: Access) -> tuple[str, ...]:
        from clew.permissions.grants import rules_for  # noqa: PLC0415

        return rules_for(access, self.cwd)
