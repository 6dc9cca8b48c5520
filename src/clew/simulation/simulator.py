"""Simulate a recorded session with another context strategy.

The messages come from the recording; the simulator computes what each call would have sent. It
also models the provider: tokens are counted with the rates of the model's family, and the prefix
that a request shares with the previous one is read from the cache, unless the cache has expired.
Everything here is pure; rules write the summaries.
"""

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.context.calibration import default_for, estimate_tokens
from clew.context.clearing_plan import plan_clearing
from clew.context.compaction_plan import compact_by_rules
from clew.context.compaction_triggers import find_threshold
from clew.context.estimate import message_units
from clew.context.items import Item, ItemKind, Items
from clew.context.model_family import family_of
from clew.context.plan import Stuck
from clew.context.render import find_problems, render
from clew.context.view import View
from clew.context.window_state import compute_state
from clew.core.entries import Body, Entry, MessageAdded, SetupChanged
from clew.core.ids import EntryId
from clew.core.messages import Message, Role
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.importers.recorded_session import RecordedSession, RecordedStep
from clew.simulation.recall import LookupModel, SessionNames
from clew.simulation.scenario import Scenario, SimulationPoint, SimulationRun

Observer: TypeAlias = Callable[[str, View, int], None]
"""Called with a scenario's name, the view before a call, and the index of the recorded answer."""


def simulate(
    session: RecordedSession,
    scenarios: Iterable[Scenario],
    model: ModelFacts,
    *,
    lookups: bool = True,
    report: Callable[[str], None] | None = None,
    observe: Observer | None = None,
) -> tuple[SimulationRun, ...]:
    """Simulate `session` with each of `scenarios`, in their order.

    Args:
        session: The recording.
        scenarios: What to compare.
        model: Determines the window, the token rates and the caching of reasoning.
        lookups: Add and charge the calls that retrieve forgotten names.
        report: Called with the name of each scenario when it is done.
        observe: Called before each recorded call; see `Observer`.
    """
    steps = replayable_steps(session)
    messages = [step.message for step in steps]
    names = SessionNames(messages)
    setup = SetupChanged(model=model, system=session.system, tools=session.tools)
    runs = []
    for scenario in scenarios:
        simulation = _Simulation(
            setup,
            scenario,
            names,
            lookup_model=LookupModel(names, messages) if lookups else None,
            observe=observe,
        )
        for step in steps:
            simulation.add(step)
        runs.append(simulation.result())
        if report is not None:
            report(scenario.name)
    return tuple(runs)


def replayable_steps(session: RecordedSession) -> list[RecordedStep]:
    """Return the steps without the summaries of recorded compactions.

    The recording contains the messages that those replaced, so the simulated strategy manages
    them. A summary at the very beginning stays, because nothing else is known.
    """
    return [step for index, step in enumerate(session.steps) if index == 0 or not step.compacts]


class _Changes(Struct, frozen=True, kw_only=True):
    """What happened to the view before a call."""

    cleared: bool
    compacted: bool


class _Simulation:
    """Simulates one session in one scenario, step by step."""

    def __init__(
        self,
        setup: SetupChanged,
        scenario: Scenario,
        names: SessionNames,
        *,
        lookup_model: LookupModel | None,
        observe: Observer | None,
    ) -> None:
        self._scenario = scenario
        self._names = names
        self._lookup_model = lookup_model
        self._observe = observe
        self._window = setup.model.window
        self._counting = default_for(setup.model.name)
        self._keeps_reasoning = family_of(setup.model.name).keeps_reasoning
        self._view = View()
        self._entries = 0
        self._index = 0
        self._at = 0.0
        self._sent: Items | None = None
        """The items of the last request."""
        self._grew_only = False
        """True while the view has only grown since the last request."""
        self._was_valid = False
        self._compacted_at = 0
        self._run = SimulationRun(strategy=scenario.name)
        self._timeline: list[SimulationPoint] = []
        self._add(setup)

    def add(self, step: RecordedStep) -> None:
        """Add one message; for a response, simulate the call that produced it."""
        self._at = step.at or self._at
        if step.message.role is Role.ASSISTANT:
            self._answer(step.message)
        else:
            self._add(MessageAdded(message=step.message))
        self._index += 1

    def result(self) -> SimulationRun:
        """Return the measurements so far."""
        return replace(self._run, timeline=tuple(self._timeline))

    def _answer(self, answer: Message) -> None:
        changed = self._make_room()
        looked_up = (
            self._lookup_model.look_up(self._view, self._index) if self._lookup_model else []
        )
        if looked_up:
            self._send(looked_up[0], changed)
            for result in looked_up[1:]:
                self._add(MessageAdded(message=result))
            self._run = replace(self._run, lookups=self._run.lookups + 1)
            changed = self._make_room()
        if self._observe is not None:
            self._observe(self._scenario.name, self._view, self._index)
        self._send(answer, changed)

    def _make_room(self) -> "_Changes":
        """Do what a session does before a call."""
        return _Changes(cleared=self._clear(), compacted=self._compact())

    def _send(self, answer: Message, changed: "_Changes") -> None:
        """Send the current view, and add the response."""
        same = self._same()
        usage = self._count(answer, same)
        self._was_valid = self._valid(same)
        self._tally(usage, valid=self._was_valid)
        self._timeline.append(
            SimulationPoint(
                call=self._run.calls,
                tokens=usage.input_tokens,
                compacted=changed.compacted,
                cleared=changed.cleared,
            )
        )
        self._sent, self._grew_only = self._view.items, True
        self._add(MessageAdded(message=answer, usage=usage))

    def _clear(self) -> bool:
        made = plan_clearing(
            self._view, self._scenario.policy, self._scenario.strategy, now=self._at
        )
        if made is not None:
            self._shrink(made)
            self._run = replace(self._run, clearings=self._run.clearings + 1)
        return made is not None

    def _compact(self) -> bool:
        policy, strategy = self._scenario.policy, self._scenario.strategy
        used = compute_state(self._view, policy.thresholds, window=self._window).used_tokens
        threshold = find_threshold(self._view, policy, window=self._window)
        if not strategy.due(self._view, used=used, threshold=threshold):
            return False
        made = compact_by_rules(self._view, policy, strategy)
        if isinstance(made, Stuck):
            return False
        self._shrink(made)
        judged = self._names.recall(self._view, since=self._compacted_at, now=self._index)
        self._compacted_at = self._index
        self._run = replace(
            self._run,
            compactions=self._run.compactions + 1,
            needed_names=self._run.needed_names + judged.needed,
            found_names=self._run.found_names + judged.found,
            lost_names=tuple(dict.fromkeys((*self._run.lost_names, *judged.lost))),
        )
        return True

    def _same(self) -> int:
        """Return how many leading items the request shares with the last one."""
        if self._sent is None:
            return 0
        if self._grew_only:
            return len(self._sent)
        pairs = zip(self._sent, self._view.items, strict=False)
        return sum(1 for _ in takewhile(_equal, pairs))

    def _count(self, answer: Message, same: int) -> Usage:
        """Return the usage that the provider would report."""
        whole = estimate_tokens(self._counting, self._view.units)
        cached = estimate_tokens(self._counting, self._count_cached_units(same))
        return Usage(
            input_tokens=whole,
            output_tokens=estimate_tokens(
                self._counting, message_units(answer, framing=self._view.framing)
            ),
            cache_read_tokens=cached,
            cache_write_tokens=whole - cached,
        )

    def _count_cached_units(self, same: int) -> int:
        """Return the size of the view that the provider reads from its cache."""
        cold = self._at - self._view.called_at > self._scenario.policy.prices.cold_after
        if self._sent is None or cold:
            return 0
        fresh = self._view.items.units(same)
        if not self._keeps_reasoning:
            fresh -= _past_reasoning(self._view.items, same)
        return self._view.units - fresh

    def _valid(self, same: int) -> bool:
        """Return True when the request is valid without a repair.

        After a valid request, only the difference from it is checked.
        """
        items = self._view.items
        start = _last_answer(items, same) if self._was_valid else 0
        if start > 0:
            items = Items([items[0], *items[start:]])
        request = render(replace(self._view, items=items))
        asked = [item for item in items if item.message.parts]
        untouched = len(request) == len(asked) and all(
            item.kind is ItemKind.SUMMARY or item.message is message
            for item, message in zip(asked, request, strict=True)
        )
        return untouched and not find_problems(request)

    def _tally(self, usage: Usage, *, valid: bool) -> None:
        run, prices = self._run, self._scenario.policy.prices
        cached, written = usage.cache_read_tokens, usage.cache_write_tokens
        limit = self._scenario.policy.thresholds.block * self._window
        self._run = replace(
            run,
            calls=run.calls + 1,
            input_tokens=run.input_tokens + usage.input_tokens,
            cached_tokens=run.cached_tokens + cached,
            uncached_tokens=run.uncached_tokens + written,
            cost=run.cost + cached * prices.read_price + written * prices.write_price,
            peak_tokens=max(run.peak_tokens, usage.input_tokens),
            invalid_requests=run.invalid_requests + (not valid),
            oversized_requests=run.oversized_requests + (usage.input_tokens > limit),
        )

    def _shrink(self, body: Body) -> None:
        self._grew_only = False
        self._add(body)

    def _add(self, body: Body) -> None:
        self._entries += 1
        entry = Entry(id=EntryId(self._entries), at=self._at, body=body)
        self._view = self._view.apply(entry)


def _equal(pair: tuple[Item, Item]) -> bool:
    old, new = pair
    return old is new or old.message == new.message


def _last_answer(items: Items, end: int) -> int:
    """Return the index of the last response before `end`; its results may follow `end`."""
    answers = (n for n in range(end - 1, 0, -1) if items[n].message.role is Role.ASSISTANT)
    return next(answers, 0)


def _past_reasoning(items: Items, start: int) -> int:
    """Return the reasoning units between `start` and the last user message."""
    spoken = [n for n in range(start, len(items)) if items[n].kind is ItemKind.USER]
    if not spoken:
        return 0
    return sum(item.reasoning_units for item in items[start : spoken[-1]])
