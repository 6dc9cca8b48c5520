"""Makes the values of `ContextClient` from a session and its journal."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from clew.context.compaction_triggers import find_threshold
from clew.context.view import View, fold, make_summary
from clew.core.context_state import LossReport
from clew.core.entries import Compacted, Entry, MessageAdded, ResultsCleared
from clew.core.errors import SessionError
from clew.core.ids import EntryId
from clew.core.timeline import EntryPlace, MarkKind
from clew.extensions.commands.entries import entry_author
from clew.sdk.context_client import (
    CompactionDetail,
    ContextSimulation,
    JournalEntry,
    RecallHit,
    RecallResult,
    SimulatedCall,
    SimulatedStrategy,
    WindowThresholds,
)
from clew.session.journal import Journal
from clew.session.state import SessionState

if TYPE_CHECKING:
    # Loaded by the first search and the first simulation.
    from clew.context.recall.search import Hit
    from clew.sdk.simulation import SimulatedSession, SimulationOptions, SimulationRun
    from clew.session.recall import RecallAnswer

Places = Mapping[EntryId, EntryPlace]


def list_thresholds(state: SessionState) -> WindowThresholds:
    """Return the thresholds of a session in tokens."""
    view, policy = state.journal.view, state.policy
    window = view.setup.model.window
    return WindowThresholds(
        warn=int(policy.thresholds.warn * window),
        compact=find_threshold(view, policy, window=window),
        block=int(policy.thresholds.block * window),
    )


def make_rows(rows: Iterable[tuple[Entry, str]], view: View, places: Places) -> list[JournalEntry]:
    """Return entries, each with its description, as clients get them."""
    sizes: dict[EntryId, int] = {}
    for item in view.items:
        sizes[item.entry_id] = sizes.get(item.entry_id, 0) + item.units
    return [
        _make_row(entry, text, view, place=places[entry.id], units=sizes.get(entry.id, 0))
        for entry, text in rows
    ]


def _make_row(
    entry: Entry, text: str, view: View, *, place: EntryPlace, units: int
) -> JournalEntry:
    body, rate = entry.body, view.calibration.rate
    return JournalEntry(
        id=entry.id,
        at=entry.at,
        kind=str(body.__struct_config__.tag),
        role=str(body.message.role) if isinstance(body, MessageAdded) else "",
        author=entry_author(body),
        text=text,
        tokens=round(_measure(view, entry) * rate),
        tokens_in_view=round(units * rate),
        standing=place.standing,
        by=place.by,
        pinned=entry.id in view.pinned,
    )


def _measure(view: View, entry: Entry) -> int:
    """Return the units of what an entry adds to a view."""
    match entry.body:
        case MessageAdded(message=message):
            return view.measure(entry.id, message).units
        case Compacted(summary=str(summary)) if summary:
            return make_summary(view, entry.id, summary).units
        case _:
            return 0


def describe_compaction(journal: Journal, entry_id: EntryId, places: Places) -> CompactionDetail:
    """Return what a compaction or a clearing of results did.

    Raises:
        SessionError: The entry is neither.
    """
    entry, undoable = journal.entry(entry_id), journal.view.undoable
    if entry is None or not isinstance(entry.body, Compacted | ResultsCleared):
        raise SessionError(f"entry #{entry_id} is not a compaction or a clearing of results")
    body, in_force = entry.body, entry_id in undoable
    detail = CompactionDetail(
        entry_id=entry_id,
        at=entry.at,
        kind=MarkKind.COMPACTION,
        trigger=body.trigger,
        report=_find_report(journal, entry_id, body),
        undone_by=None if in_force else places[entry_id].by,
        can_undo=in_force and undoable[-1] == entry_id,
        undo_first=tuple(one for one in reversed(undoable) if one > entry_id) if in_force else (),
    )
    if isinstance(body, ResultsCleared):
        return replace(detail, kind=MarkKind.RESULTS_CLEARED)
    return replace(
        detail, strategy=body.strategy, summary=body.summary, notes=body.notes, usage=body.usage
    )


def _find_report(
    journal: Journal, entry_id: EntryId, body: Compacted | ResultsCleared
) -> LossReport:
    if isinstance(body, Compacted):
        return body.report
    # Imported here because few clients ask for it.
    from clew.context.loss_report import report_clearing  # noqa: PLC0415

    earlier = (one for one in journal.entries if one.id < entry_id)
    return report_clearing(fold(earlier, meter=journal.view.meter), body)


def make_recall_result(answer: "RecallAnswer", places: Places) -> RecallResult:
    """Return the answer to a search as clients get it."""
    found = answer.found
    return RecallResult(
        hits=tuple(_make_hit(hit, places) for hit in found.hits),
        total=found.total,
        missing=found.missing,
        text=answer.text,
    )


def _make_hit(hit: "Hit", places: Places) -> RecallHit:
    unit, place = hit.unit, places[hit.unit.entry_id]
    return RecallHit(
        entry_id=unit.entry_id,
        at=unit.at,
        role=unit.role,
        tool=unit.tool,
        excerpts=tuple(snippet.text for snippet in hit.snippets),
        called_in=unit.called_in,
        same=hit.same,
        standing=place.standing,
        by=place.by,
    )


def make_simulation(
    simulated: "SimulatedSession", options: "SimulationOptions"
) -> ContextSimulation:
    """Return the runs of a simulation as clients get them."""
    none = simulated.runs[0]
    return ContextSimulation(
        model=simulated.model.name,
        window=simulated.model.window,
        strategies=tuple(_make_strategy(run, none) for run in options.select(simulated.runs)),
    )


def _make_strategy(run: "SimulationRun", none: "SimulationRun") -> SimulatedStrategy:
    from clew.sdk.simulation import compare_cost  # noqa: PLC0415 - loaded by the simulation

    calls = tuple(
        SimulatedCall(tokens=point.tokens, compacted=point.compacted, cleared=point.cleared)
        for point in run.timeline
    )
    return SimulatedStrategy(
        strategy=run.strategy,
        calls=calls,
        input_tokens=run.input_tokens,
        cached_tokens=run.cached_tokens,
        cost=run.cost,
        relative_cost=compare_cost(run, none),
        peak_tokens=run.peak_tokens,
        compactions=run.compactions,
        clearings=run.clearings,
        lookups=run.lookups,
        oversized_requests=run.oversized_requests,
        recall=run.recall,
    )
