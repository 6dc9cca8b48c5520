"""The gate before each tool call: rules decide, and a person answers where they leave it open."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from inspect import isawaitable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from clew.core.permissions import (
    Access,
    Approval,
    DecidedBy,
    Decision,
    DeniedPaths,
    PermissionAnswer,
    PermissionMode,
    TargetKind,
    Verdict,
)
from clew.permissions.policy import Grant, Policy
from clew.permissions.rules import DEFAULT_ALLOW, Rule, parse_rule

Ask: TypeAlias = Callable[[Access, Decision], Awaitable[Approval | PermissionAnswer | None]]
"""Asks a person about a call. The decision says why, and what a longer approval would cover.
None means that no client can answer."""
HandlerAnswer: TypeAlias = Approval | PermissionAnswer | bool | None
"""True allows a call once, False denies it; None means that no client can answer."""
PermissionHandler: TypeAlias = Callable[
    [Access, Decision], Awaitable[HandlerAnswer] | HandlerAnswer
]
"""Answers for the user: a plain function, or a coroutine function. The decision says why the user
is asked. If the handler raises an exception, the call is denied."""
OnDenied: TypeAlias = Callable[[Access, Decision, str], object]
"""Called for each call that is denied: what it wanted, why not, and what would allow it."""
Remember: TypeAlias = Callable[[Sequence[str]], Awaitable[None]]
"""Stores rules that the user allowed for the project."""


@cache
def _always_allowed() -> tuple[Rule, ...]:
    """Return the rules that let a model read the configuration folders, in every session."""
    return tuple(parse_rule(text, source="built in") for text in DEFAULT_ALLOW)


@cache
def _load_decide() -> Callable[[Access, Policy], Decision]:
    # The shell analysis is slow to import, and many programs never judge a call.
    from clew.permissions.decide import decide  # noqa: PLC0415

    return decide


class Gate(Struct, kw_only=True):
    """Judges the calls of one session. Without an `ask` callback, a question is a denial."""

    cwd: Path
    mode: PermissionMode = PermissionMode.DEFAULT
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    ask_rules: tuple[Rule, ...] = ()
    """Calls to ask about even where an allow rule matches."""
    ask: Ask | None = None
    bypass_disabled: bool = False
    """True when the user may not choose the mode that asks about nothing."""
    on_denied: OnDenied | None = None
    remember: Remember | None = None
    mode_after_plan: PermissionMode = PermissionMode.ACCEPT_EDITS
    """The mode in which a session continues when the user approves a plan and wants no questions
    about edits."""
    grants: list[Grant] = field(default_factory=list)
    """Calls that the user allowed for the rest of the session, by argument shape."""
    run_rules: list[Rule] = field(default_factory=list)
    """Allow rules that end with the run, also for its subagents: those of a skill."""
    followers: list[Callable[[PermissionMode], None]] = field(default_factory=list)
    """Called with each new mode, such as those of running subagents."""

    def policy(self, mode: PermissionMode | None = None) -> Policy:
        """Return everything that decides, as it is now or as it would be in another mode."""
        return Policy(
            cwd=self.cwd,
            mode=mode or self.mode,
            allow=(*_always_allowed(), *self.allow, *self.run_rules),
            ask=self.ask_rules,
            deny=self.deny,
            grants=tuple(self.grants),
        )

    def set_mode(self, mode: PermissionMode) -> None:
        """Change the mode; plan mode remembers that the user wanted no questions before."""
        if mode is PermissionMode.PLAN and self.mode is not PermissionMode.PLAN:
            asked_nothing = self.mode is PermissionMode.BYPASS
            self.mode_after_plan = self.mode if asked_nothing else PermissionMode.ACCEPT_EDITS
        self.mode = mode
        for follow in self.followers:
            follow(mode)

    @contextmanager
    def allow_during(self, rules: Sequence[Rule]) -> Iterator[None]:
        """Have rules allow calls until the block ends; denials and ask rules still come first."""
        before = len(self.run_rules)
        self.run_rules.extend(rules)
        try:
            yield
        finally:
            del self.run_rules[before:]

    @contextmanager
    def derive(self, *, cwd: Path, ask: Ask | None, on_denied: OnDenied | None) -> Iterator["Gate"]:
        """Make the gate of a subagent: the same rules and grants, and the mode as it changes.

        In a worktree, rules that forbid files of the project forbid their copies too.
        """
        gate = replace(self, cwd=cwd, ask=ask, on_denied=on_denied, followers=[])
        gate.deny = _move(self.deny, self.cwd, cwd)
        gate.ask_rules = _move(self.ask_rules, self.cwd, cwd)
        self.followers.append(gate.set_mode)
        try:
            yield gate
        finally:
            self.followers.remove(gate.set_mode)

    def decide(self, access: Access, policy: Policy | None = None) -> Decision:
        """Return the decision of the rules and the mode; `ASK` where they leave it to a person."""
        return _load_decide()(access, policy or self.policy())

    def find_denied_paths(self) -> DeniedPaths:
        """Return the existing paths that deny rules forbid; reads folders."""
        from clew.permissions.denied_paths import find_denied_paths  # noqa: PLC0415

        return find_denied_paths(self.deny, self.cwd)

    def find_targets(self, access: Access) -> tuple[str, ...]:
        """Return the real paths that a call would use now; links are followed."""
        if not access.targets:
            return ()
        from clew.permissions.targets import find_targets  # noqa: PLC0415 - as `_load_decide`

        return find_targets(access, self.cwd)

    async def judge(
        self, access: Access, *, decision: Decision | None = None, wish: Decision | None = None
    ) -> Decision:
        """Return a final decision: never `ASK`.

        Args:
            access: The call.
            decision: What `decide` said about this call, if that is known and still holds.
            wish: A hook's decision. It may spare a question or demand one; it cannot lift a
                denial, silence a rule that asks, or answer the question of a tool.
        """
        decision = decision or self.decide(access)
        if wish is None and decision.verdict is Verdict.ALLOW:
            return decision
        final = await self._settle(access, _combine(access, decision, wish))
        if final.verdict is Verdict.DENY and self.on_denied is not None:
            # A user who said no needs no advice how to say yes.
            remedy = "" if final.answer is not None else _find_remedy(self, access)
            self.on_denied(access, final, remedy)
        if final.remember and self.remember is not None:
            await self.remember(final.remember)
        return final

    def grant(self, access: Access) -> Grant:
        """Allow calls of this shape until the session ends; returns the grant.

        If a rule asks about the call, the grant covers exactly this call.
        """
        from clew.permissions.grants import session_grant  # noqa: PLC0415

        grant = session_grant(access, self.cwd, exact=self.decide(access).asked_by_rule)
        self._add_grant(grant)
        return grant

    def revoke(self, grant: Grant) -> None:
        """Take one grant back; nothing happens if it is not there."""
        if grant in self.grants:
            self.grants.remove(grant)

    def clear_grants(self) -> None:
        """Take back everything that was allowed for this session."""
        self.grants.clear()

    async def _settle(self, access: Access, decision: Decision) -> Decision:
        """Ask a person where the rules leave it open."""
        if decision.verdict is not Verdict.ASK:
            return decision
        asking = _ask_question if access.question else self._ask
        try:
            answer = None if self.ask is None else await asking(self.ask, access, decision)
        except Exception as error:  # noqa: BLE001 - it is the user's code; no answer, no call
            answer = _deny_after(error)
        if answer is None:
            why = f"{decision.reason}; there is no user to ask"
            answer = Decision(Verdict.DENY, why, DecidedBy.ANSWER)
        return replace(answer, question=decision.reason)

    async def _ask(self, ask: Ask, access: Access, decision: Decision) -> Decision | None:
        from clew.permissions.grants import describe_grant, rules_for, session_grant  # noqa: PLC0415

        exact = decision.asked_by_rule
        grant, targets = session_grant(access, self.cwd, exact=exact), self.find_targets(access)
        question = replace(
            decision,
            session_scope=describe_grant(grant, self.cwd),
            project_rules=() if exact else rules_for(access, self.cwd),
        )
        answer = await _get_answer(ask, access, question)
        if answer is None:
            return None
        if answer.approval is not Approval.NO and (changed := self._decide_again(access, targets)):
            return changed
        match answer.approval:
            case Approval.NO:
                why = "the user said no" + (f": {answer.reply}" if answer.reply else "")
                return Decision(Verdict.DENY, why, DecidedBy.ANSWER, answer=answer)
            case Approval.ONCE:
                return Decision(Verdict.ALLOW, "the user allowed this call", DecidedBy.ANSWER)
            case Approval.SESSION:
                self._add_grant(grant)
                why = "the user allowed calls like this one"
                return Decision(Verdict.ALLOW, why, DecidedBy.ANSWER)
            case Approval.PROJECT:
                self._add_grant(grant)
                return Decision(
                    Verdict.ALLOW,
                    "the user allowed calls like this one in this project",
                    DecidedBy.ANSWER,
                    remember=question.project_rules,
                )

    def _decide_again(self, access: Access, targets: tuple[str, ...]) -> Decision | None:
        """Return a denial if the answer is about something that has changed meanwhile."""
        if self.find_targets(access) != targets:
            why = "a path of this call leads elsewhere now than when the user was asked"
            return Decision(Verdict.DENY, why, DecidedBy.ANSWER)
        again = self.decide(access)
        return again if again.verdict is Verdict.DENY else None

    def _add_grant(self, grant: Grant) -> None:
        if grant not in self.grants:
            self.grants.append(grant)


def _deny_after(error: Exception) -> Decision:
    import logging  # noqa: PLC0415 - slow to import, and seldom needed

    logging.getLogger(__name__).warning("the permission handler failed", exc_info=error)
    why = f"the permission handler failed: {type(error).__name__}: {error}"
    return Decision(Verdict.DENY, why, DecidedBy.ANSWER)


def adapt_handler(handler: PermissionHandler) -> Ask:
    """Return a handler of the user as the gate calls it.

    Raises, when it is called:
        TypeError: The answer is none.
    """

    async def ask(access: Access, decision: Decision) -> PermissionAnswer | None:
        said = handler(access, decision)
        answer = await said if isawaitable(said) else said
        if answer is None or isinstance(answer, PermissionAnswer):
            return answer
        if isinstance(answer, bool):
            return PermissionAnswer(approval=Approval.ONCE if answer else Approval.NO)
        if answer not in tuple(Approval):
            raise TypeError(f"a permission handler returns an Approval, not {answer!r}")
        return PermissionAnswer(approval=Approval(answer))

    return ask


async def _ask_question(ask: Ask, access: Access, decision: Decision) -> Decision | None:
    """Ask the question of a tool; the tool gets the answer, whatever it is."""
    question = replace(decision, session_scope=access.session_choice)
    answer = await _get_answer(ask, access, question)
    if answer is None:
        return None
    said = f"the user answered: {answer.approval}"
    return Decision(Verdict.ALLOW, said, DecidedBy.ANSWER, answer=answer)


async def _get_answer(ask: Ask, access: Access, question: Decision) -> PermissionAnswer | None:
    answer = await ask(access, question)
    return PermissionAnswer(approval=answer) if isinstance(answer, Approval) else answer


def _find_remedy(gate: Gate, access: Access) -> str:
    """Return what would allow a call that was denied."""
    if access.kind is TargetKind.ADDRESS and (rules := _find_sufficient_rules(gate, access)):
        return f"the allow rule {', '.join(rules)} in your settings would allow it"
    for mode in (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.BYPASS):
        if gate.decide(access, gate.policy(mode)).verdict is Verdict.ALLOW:
            return f"--permission-mode {mode} would allow it"
    return "no permission mode allows it"


def _find_sufficient_rules(gate: Gate, access: Access) -> tuple[str, ...]:
    from clew.permissions.grants import rules_for  # noqa: PLC0415

    rules, policy = rules_for(access, gate.cwd), gate.policy()
    allow = (*policy.allow, *map(parse_rule, rules))
    decision = gate.decide(access, replace(policy, allow=allow))
    return rules if decision.verdict is Verdict.ALLOW else ()


def _combine(access: Access, decision: Decision, wish: Decision | None) -> Decision:
    """Return the hook's wish where it may replace what the rules decided."""
    match decision.verdict, wish:
        case (_, None) | (Verdict.DENY, _):
            return decision
        case Verdict.ALLOW, Decision(verdict=Verdict.ASK):
            return replace(wish, asked_by_rule=decision.asked_by_rule)
        case Verdict.ASK, Decision(verdict=Verdict.ALLOW) if (
            decision.asked_by_rule or access.question
        ):
            return decision
        case Verdict.ASK, _:
            return replace(wish, asked_by_rule=decision.asked_by_rule)
        case _:
            return decision


def _move(rules: tuple[Rule, ...], source: Path, target: Path) -> tuple[Rule, ...]:
    if source == target:
        return rules
    from clew.permissions.moved_rules import add_moved_rules  # noqa: PLC0415 - seldom needed

    return add_moved_rules(rules, source, target)
