"""What several hooks say together.

A deny outweighs an ask, and an ask an allow, in whatever order they come. Of several reasons
the first counts; of several changes to the same thing, the last. What was overruled is
reported, never dropped in silence.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from clew.core.access import Decision, Verdict
from clew.core.text import replace_surrogates
from clew.hooks.protocol import HookVerdict

Named: TypeAlias = tuple[str, HookVerdict]
"""A hook, as a person knows it, and what it says."""

_WEIGHT = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}


def combine(named: Sequence[Named]) -> HookVerdict:
    """Make one verdict of those of all hooks, which are in the order of the settings."""
    decision, also = _weightiest(named)
    denied = decision is not None and decision.verdict is Verdict.DENY
    input_, inputs = _last(named, lambda verdict: None if denied else verdict.updated_input)
    output, outputs = _last(named, lambda verdict: verdict.updated_output)
    block, blocks = _first(named, lambda verdict: verdict.block)
    stop, stops = _first(named, lambda verdict: verdict.stop)
    path, paths = _first(named, lambda verdict: verdict.worktree_path or None)
    return HookVerdict(
        decision=decision,
        updated_input=input_,
        updated_output=output,
        block=block,
        stop=stop,
        context=tuple(text for _, verdict in named for text in verdict.context),
        messages=tuple(text for _, verdict in named for text in verdict.messages),
        reports=(
            *(f"{name}: {text}" for name, verdict in named for text in verdict.reports),
            *(f"{name} also says {one.verdict}: {one.reason}" for name, one in also),
            *(f"{name} also blocks: {text}" for name, text in blocks),
            *(f"{name} also stops the run: {text}" for name, text in stops),
            *(f"{name} also made a worktree, which is not used: {text}" for name, text in paths),
            *(f"{name} changed the input too; a later hook's change is used" for name in inputs),
            *(f"{name} changed the output too; a later hook's change is used" for name in outputs),
        ),
        suppress_output=any(verdict.suppress_output for _, verdict in named),
        worktree_path=path or "",
    )


def mapped(verdict: HookVerdict, change: Callable[[str], str]) -> HookVerdict:
    """Return `verdict` with every text for a person or a model passed through `change`.

    What a tool is to run with or has answered is left as it is: a changed argument would be
    another call.
    """

    def texts(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(change(replace_surrogates(value)) for value in values)

    def text(value: str | None) -> str | None:
        return None if value is None else change(replace_surrogates(value))

    decision = verdict.decision
    if decision is not None:
        decision = Decision(decision.verdict, change(replace_surrogates(decision.reason)))
    return msgspec.structs.replace(
        verdict,
        decision=decision,
        block=text(verdict.block),
        stop=text(verdict.stop),
        context=texts(verdict.context),
        messages=texts(verdict.messages),
        reports=texts(verdict.reports),
    )


def _weightiest(named: Sequence[Named]) -> tuple[Decision | None, list[tuple[str, Decision]]]:
    """Return the decision that counts, and the others of the same weight."""
    decided = [(name, verdict.decision) for name, verdict in named if verdict.decision]
    if not decided:
        return None, []
    heaviest = max(_WEIGHT[decision.verdict] for _, decision in decided)
    equal = [pair for pair in decided if _WEIGHT[pair[1].verdict] == heaviest]
    chosen = equal[0][1]
    return chosen, [pair for pair in equal[1:] if pair[1] != chosen]


def _said(named: Sequence[Named], part: Callable[[HookVerdict], Any]) -> Iterator[tuple[str, Any]]:
    for name, verdict in named:
        value = part(verdict)
        if value is not None:
            yield name, value


def _first(
    named: Sequence[Named], part: Callable[[HookVerdict], str | None]
) -> tuple[str | None, list[tuple[str, str]]]:
    said = list(_said(named, part))
    return (said[0][1], said[1:]) if said else (None, [])


def _last(named: Sequence[Named], part: Callable[[HookVerdict], Any]) -> tuple[Any, list[str]]:
    said = list(_said(named, part))
    if not said:
        return None, []
    value = said[-1][1]
    return value, [name for name, earlier in said[:-1] if earlier != value]
