"""Prepares a summary while the session continues, for the next compaction to swap in.

One summary is prepared at a time, in a task that the session owns: an abort cancels it, and
closing the session waits for its end. It changes nothing until a compaction uses it for exactly
the messages it covers. It is discarded when those change. What it has cost is charged in any
case, and a failure is only a warning.
"""

from collections.abc import Callable

import anyio

from clew.context.compaction_pace import Tier
from clew.context.compaction_plan import limit_summary, make_budget
from clew.context.estimate import text_units
from clew.context.plan import Reduce
from clew.context.prepared_summary import find_change, frees_enough, plan_preparation
from clew.context.view import View
from clew.core.entries import (
    CallStarted,
    Charged,
    JobGroupChanged,
    MessageAdded,
    ModeChanged,
    Noted,
    TaskChanged,
    Trigger,
)
from clew.core.errors import ClewError
from clew.core.events import BackgroundSummary, EntryAdded, SummaryStage, Warned
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.session.state import SessionState
from clew.session.summary_notes import BACKGROUND, Notes, Preparation

_HARMLESS = (
    MessageAdded | Charged | Noted | ModeChanged | TaskChanged | JobGroupChanged | CallStarted
)
"""Entries that change no message of the view."""


async def start_preparation(state: SessionState) -> None:
    """Start to prepare a summary, unless it would save little or may not be asked for."""
    view = state.journal.view
    plan = plan_preparation(view, state.policy, state.strategy)
    if plan is None or not (model := _choose_model(state, plan)).summarises:
        return
    if not _may_ask(state, plan, model):
        return
    if state.preparation is not None:
        await state.preparation.aclose()
    await _start(state, view, plan, model)


def _may_ask(state: SessionState, plan: Reduce, model: ModelFacts) -> bool:
    """Return whether pace and budget allow a call, and the model's last summaries were usable."""
    if state.pace.choose_tier() is not Tier.MODEL:
        return False
    if state.summary_breaker.is_open(model.name, now=state.clock()):
        return False
    rate = state.journal.view.calibration.rate
    tokens = round(sum(item.units for item in plan.dropped) * rate)
    return state.affords(Usage(input_tokens=tokens), model.name)


async def _start(state: SessionState, view: View, plan: Reduce, model: ModelFacts) -> None:
    # Imported here because it loads asyncio, and most sessions prepare nothing.
    from clew.session.task_owner import TaskOwner  # noqa: PLC0415

    preparation = state.preparation = Preparation(
        view=view,
        plan=plan,
        model=model,
        done=anyio.Event(),
        scope=anyio.CancelScope(),
        tasks=TaskOwner(),
    )
    preparation.unsubscribe = _watch(state, preparation)
    await preparation.tasks.start()
    preparation.tasks.start_soon(_write, state, preparation)


async def find_prepared_plan(
    state: SessionState, trigger: Trigger, *, instructions: str, window: int | None = None
) -> Reduce | None:
    """Return the plan of a prepared summary that a compaction can use; waits until it is written.

    For another window there is none. After an overflow there is none either: the count on which
    it was planned was wrong.
    """
    preparation = state.preparation
    if preparation is None or not preparation.is_usable:
        return None
    if trigger == "overflow" or window is not None:
        return None
    if instructions:
        _discard(state, preparation, "other instructions were given")
        return None
    await preparation.done.wait()
    if preparation.notes is None:
        return None
    view, text = state.journal.view, preparation.notes.text
    why = find_change(preparation.view, preparation.plan, view)
    if not why and not frees_enough(
        view, preparation.plan, text, policy=state.policy, strategy=state.strategy
    ):
        why = "it would free too little now"
    if why:
        _discard(state, preparation, why)
        return None
    return preparation.plan


def take_prepared_notes(state: SessionState, plan: Reduce, *, instructions: str) -> Notes | None:
    """Return the notes that were prepared for `plan`, once; None if there are none.

    Instructions that a hook gave for this compaction are not in them, so they are discarded.
    """
    preparation = state.preparation
    if preparation is None or preparation.plan is not plan or preparation.notes is None:
        return None
    if instructions:
        preparation.is_last = True
        _discard(state, preparation, "a hook gave other instructions")
        state.emit(Warned("a hook instructs each compaction, so no more summaries are prepared"))
        return None
    notes, preparation.notes = preparation.notes, None
    preparation.stop_watching()
    preparation.discarded = "it was used"
    return notes


def _choose_model(state: SessionState, plan: Reduce) -> ModelFacts:
    if plan.summary_model:
        return state.provider.facts(plan.summary_model)
    return state.summary_model or state.journal.view.setup.model


async def _write(state: SessionState, preparation: Preparation) -> None:
    """Write the notes, and publish how that ends."""
    # Imported here because few sessions ever need it, and it loads much.
    from clew.session.summarizer import write_notes  # noqa: PLC0415
    from clew.session.summary_check import check_notes  # noqa: PLC0415

    _publish(state, preparation, SummaryStage.PREPARING)
    model, plan, fault = preparation.model, preparation.plan, "it was interrupted"
    try:
        with preparation.scope:
            budget = make_budget(preparation.view, state.policy, state.strategy)
            budget = limit_summary(preparation.view, plan, budget)
            notes = await write_notes(
                state,
                model,
                plan,
                budget=budget,
                instructions=state.options["compact_instructions"],
                why=BACKGROUND,
            )
            fault = _find_fault(notes, longest=budget.summary)
            if not fault:
                preparation.notes = await check_notes(
                    state, model, plan, budget=budget, notes=notes, why=BACKGROUND
                )
    except ClewError as error:
        fault = str(error)
    finally:
        if preparation.discarded:
            preparation.stop_watching()
            preparation.notes = None
            _publish(state, preparation, SummaryStage.DISCARDED, why=preparation.discarded)
        elif preparation.notes is not None:
            _publish(state, preparation, SummaryStage.PREPARED)
        else:
            preparation.stop_watching()
            _publish(state, preparation, SummaryStage.FAILED, why=fault)
            state.emit(Warned(f"no summary was prepared in the background: {fault}"))
        state.pace = state.pace.add_summary(preparation.tokens)
        preparation.done.set()
        preparation.tasks.stop()


def _find_fault(notes: Notes, *, longest: int) -> str:
    if not notes.text or notes.called_tools:
        return "the model wrote no notes"
    return "the notes were too long" if text_units(notes.text) > longest else ""


def _watch(state: SessionState, preparation: Preparation) -> Callable[[], None]:
    """Discard a preparation as soon as an entry changes what it covers; add up what it costs."""

    def check(event: EntryAdded) -> None:
        body = event.entry.body
        if isinstance(body, Charged) and body.why == BACKGROUND:
            preparation.add_charge(body)
        if isinstance(body, _HARMLESS) or preparation.discarded:
            return
        if why := find_change(preparation.view, preparation.plan, state.journal.view):
            _discard(state, preparation, why)

    return state.options["event_bus"].on("entry", check)


def _discard(state: SessionState, preparation: Preparation, why: str) -> None:
    """Use a preparation no more. One that is being written reports that when it was charged."""
    preparation.discarded = why
    if not preparation.done.is_set():
        preparation.scope.cancel()
        return
    preparation.stop_watching()
    if preparation.notes is not None:
        preparation.notes = None
        _publish(state, preparation, SummaryStage.DISCARDED, why=why)


def _publish(
    state: SessionState, preparation: Preparation, stage: SummaryStage, *, why: str = ""
) -> None:
    messages, cost = len(preparation.plan.dropped), preparation.cost
    state.emit(BackgroundSummary(stage=stage, messages=messages, why=why, cost=cost))
