"""What the input of a summary costs: after the conversation's cached prefix, or as text.

Every recorded session is replayed until its view reaches the compaction threshold for the first
time. There the modelled cost of both forms is compared, with the usual prices of a cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.recordings import session_files
from benchmarks.results import Section, judge, publish
from clew.context.calibration import estimate_tokens
from clew.context.compaction_plan import limit_summary, make_budget, plan_compaction
from clew.context.estimate import message_units, text_units
from clew.context.items import ItemKind
from clew.context.plan import Reduce
from clew.context.policy import ContextPolicy
from clew.context.strategies.tiered import Summarize
from clew.context.summary_cost import (
    MOST_OUTPUT,
    SummaryForm,
    SummaryPrices,
    SummarySizes,
    choose_form,
    serialised_cost,
    shared_cost,
)
from clew.context.summary_prompt import build_summary_instruction, split_transcript
from clew.context.view import View, fold
from clew.core.entries import Entry, MessageAdded, SetupChanged
from clew.core.ids import EntryId
from clew.core.messages import Message, Role
from clew.core.models import ModelFacts
from clew.importers.reader import read_session
from clew.session.summarizer import list_transcript

WINDOWS = (60_000, 200_000)
MODEL = ModelFacts(name="claude-sonnet-4-5", max_output=16_000)
PRICES = SummaryPrices()


@dataclass(frozen=True, slots=True)
class Summary:
    """The costs of one summary, in tokens at the price of uncached input."""

    shared: float
    text: float
    form: SummaryForm

    @property
    def chosen(self) -> float:
        """The cost of the form that a session chooses."""
        return self.shared if self.form is SummaryForm.SHARED else self.text


def compare(messages: Sequence[Message], window: int) -> Summary | None:
    """Return the costs of the first summary of a session; None if it never needs one."""
    policy, strategy = ContextPolicy(), Summarize()
    cached = 0
    for view in _replay(messages, window):
        used = estimate_tokens(view.calibration, view.units)
        if view.items[-1].message.role is Role.ASSISTANT:
            # The request before this answer is in the cache; the answer itself is not.
            cached = estimate_tokens(view.calibration, view.units - view.items[-1].units)
        if used < policy.thresholds.compact * window or not view.items.is_complete:
            continue
        budget = make_budget(view, policy, strategy)
        plan = plan_compaction(view, strategy, budget)
        if not isinstance(plan, Reduce) or not plan.dropped:
            continue
        budget = limit_summary(view, plan, budget)
        parts = split_transcript(list_transcript(view.items, plan), max_chars=window * 3 // 2)
        transcript = sum(text_units(line) for part in parts for line in part)
        rate = view.calibration.rate
        sizes = SummarySizes(
            view=used,
            cached=cached,
            instruction=message_units(build_summary_instruction(kept=9, max_units=budget.notes)),
            transcript=round(transcript * rate),
            output=min(MOST_OUTPUT, round(budget.notes * rate)),
            thinking=round(view.items.totals[ItemKind.REASONING] * 2 / len(view.items) * rate),
        )
        return Summary(
            shared_cost(sizes, PRICES),
            serialised_cost(sizes, PRICES),
            choose_form(sizes, PRICES, window=window),
        )
    return None


def _replay(messages: Sequence[Message], window: int) -> Iterator[View]:
    facts = ModelFacts(name=MODEL.name, window=window, max_output=MODEL.max_output)
    view = fold([Entry(id=EntryId(1), at=0.0, body=SetupChanged(model=facts))])
    for number, message in enumerate(messages, start=2):
        entry = Entry(id=EntryId(number), at=float(number), body=MessageAdded(message=message))
        view = view.apply(entry)
        yield view


def main() -> None:
    """Measure, print and write the section."""
    files = session_files()
    if not files:
        print("summaries: there are no recordings; nothing was measured")
        return
    sessions = [read_session(path).messages for path in files]
    rows = [_row(window, sessions) for window in WINDOWS]
    publish(
        Section(
            title="Input of a summary",
            command="python -m benchmarks summaries",
            columns=(
                "window",
                "summaries",
                "shared prefix chosen",
                "chosen / text",
                "never dearer",
            ),
            rows=rows,
            notes=[
                f"{len(sessions)} recorded sessions; the first time that each reaches 0.835 of the "
                "window, with a warm cache",
                "input: uncached 1, cache read 0.1, cache write 1.25; thinking before the notes, "
                "which only the shared form needs: 5; the notes cost the same in both forms",
                "text: the transcript up to the last message that leaves, tool output cut to 1,500 "
                "characters; in a small window that is so short that the prefix seldom pays",
            ],
        )
    )


def _row(window: int, sessions: Sequence[Sequence[Message]]) -> tuple[str, ...]:
    found = [one for messages in sessions if (one := compare(messages, window)) is not None]
    text = sum(one.text for one in found)
    return (
        f"{window // 1_000}k",
        str(len(found)),
        str(sum(one.form is SummaryForm.SHARED for one in found)),
        f"{sum(one.chosen for one in found) / max(1.0, text):.2f}",
        judge(all(one.chosen <= one.text for one in found)),
    )


if __name__ == "__main__":
    main()
