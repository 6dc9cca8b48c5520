"""What must be done to take checkpoints back, and what must not: a pure decision."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from clew.checkpoints.records import Checkpoint
from clew.checkpoints.states import State, Unkept, real
from clew.checkpoints.values import Skipped


class Step(Struct, frozen=True, kw_only=True):
    """One path that goes back."""

    path: str
    now: State
    target: State


class Rules(Struct, frozen=True, kw_only=True):
    """What a restore may do."""

    root: Path
    """The project's folder."""
    force: bool = False
    """Also overwrite what somebody else changed."""
    outside: bool = False
    """Also restore files that are not in the project's folder."""


def plan(
    chosen: Sequence[Checkpoint], now: Mapping[str, State], rules: Rules
) -> tuple[list[Step], list[Skipped]]:
    """Decide how to get to the state before `chosen`, which are given oldest first.

    Args:
        chosen: What is taken back.
        now: What stands at each path they kept.
        rules: What may be done.
    """
    steps: list[Step] = []
    skipped: list[Skipped] = []
    for path, turns in _by_path(chosen).items():
        found, target = now[path], turns[0].kept[path]
        if found == target:
            continue
        if (refusal := _refusal(path, turns, found, rules)) is not None:
            skipped.append(refusal)
        else:
            steps.append(Step(path=path, now=found, target=target))
    return steps, skipped


def _by_path(chosen: Iterable[Checkpoint]) -> dict[str, list[Checkpoint]]:
    paths: dict[str, list[Checkpoint]] = {}
    for checkpoint in chosen:
        for path in checkpoint.kept:
            paths.setdefault(path, []).append(checkpoint)
    return paths


def _refusal(path: str, turns: Sequence[Checkpoint], found: State, rules: Rules) -> Skipped | None:
    target = turns[0].kept[path]
    if isinstance(target, Unkept):
        return Skipped(path=path, why=f"it was not kept: {target.why}")
    if not rules.outside and not real(path).is_relative_to(rules.root):
        return Skipped(path=path, why="it is outside the project")
    if rules.force:
        return None
    if (why := _changed(path, turns, found)) is not None:
        return Skipped(path=path, why=why, forceable=True)
    if isinstance(found, Unkept):
        why = f"as it is now, it could not be brought back: {found.why}"
        return Skipped(path=path, why=why, forceable=True)
    return None


def _changed(path: str, turns: Sequence[Checkpoint], found: State) -> str | None:
    """Say where somebody else changed a path: after one of the turns, before the next, or now."""
    nexts = [*(turn.kept[path] for turn in turns[1:]), found]
    for turn, following in zip(turns, nexts, strict=True):
        left = turn.left.get(path)
        if left is None:
            return f"what checkpoint {turn.number} left there is not known"
        if left.state != following:
            return f"it was changed after checkpoint {turn.number} by somebody else"
    return None
