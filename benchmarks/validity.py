"""Whether a request is still valid after a compaction at any point of a recorded session."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.recordings import session_files
from benchmarks.results import Section, judge, publish
from clew.context.compaction_plan import make_budget
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Stuck
from clew.context.policy import ContextPolicy
from clew.context.render import find_problems
from clew.context.strategies import STRATEGIES, make_strategy
from clew.context.view import View
from clew.core.entries import Entry, MessageAdded, SetupChanged
from clew.core.ids import EntryId
from clew.core.models import ModelFacts
from clew.importers.reader import read_session

WINDOW = 40_000


def main() -> None:
    """Measure, print and write the section."""
    files = session_files()
    if not files:
        print("validity: there are no recordings; nothing was measured")
        return
    publish(measure(files))


def measure(files: list[Path]) -> Section:
    """Compact every recorded session before every call it made, under every strategy."""
    counts = {name: [0, 0, 0] for name in STRATEGIES}
    for path in files:
        for view in _views_before_calls(path):
            for name in STRATEGIES:
                made, valid = _compact_once(view, name)
                counts[name][0] += 1
                counts[name][1] += made
                counts[name][2] += not valid
    invalid = sum(numbers[2] for numbers in counts.values())
    return Section(
        title="Validity",
        command="python -m benchmarks validity",
        columns=("strategy", "points", "compactions", "invalid requests"),
        rows=[(name, *(f"{n:,}" for n in numbers)) for name, numbers in counts.items()],
        notes=[
            f"target: no invalid request: {invalid}, {judge(invalid == 0)}",
            f"{len(files)} recorded sessions, before every call they made, in a window of "
            f"{WINDOW:,}",
            "checked before `render` could repair anything",
        ],
    )


def _views_before_calls(path: Path) -> Iterator[View]:
    session = read_session(path)
    setup = SetupChanged(model=ModelFacts(name=session.model, window=WINDOW), system="")
    view = View().apply(Entry(id=EntryId(1), at=0.0, body=setup))
    for number, step in enumerate(session.steps, start=2):
        if step.model and not step.is_summary:
            yield view
        body = MessageAdded(message=step.message)
        view = view.apply(Entry(id=EntryId(number), at=step.at, body=body))


def _compact_once(view: View, name: str) -> tuple[bool, bool]:
    """Return whether `view` was compacted, and whether the result is valid."""
    strategy = make_strategy(name)
    plan = strategy.plan(view, make_budget(view, ContextPolicy(), strategy))
    if isinstance(plan, Stuck):
        return False, True
    summary = WrittenSummary(text="What was said." if plan.dropped else "", author="rules")
    body = build_compaction(view, plan, summary, trigger="auto", strategy=name)
    shown = view.apply(Entry(id=EntryId(10**9), at=0.0, body=body))
    messages = [item.message for item in shown.items]
    return True, all("first message" in problem for problem in find_problems(messages))


if __name__ == "__main__":
    main()
