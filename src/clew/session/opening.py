"""Putting the parts of a session together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from msgspec.structs import replace

from clew.context.estimate import text_units
from clew.context.recall import RECALL
from clew.core.access import PermissionMode
from clew.core.entries import SetupChanged
from clew.core.events import EntryAdded, Envelope, Warned
from clew.core.ids import EntryId
from clew.core.models import ModelFacts
from clew.core.redaction import redact
from clew.log.protocol import LoggedSession, SessionLogger
from clew.providers.protocol import Provider
from clew.providers.tokenizers import meter_for
from clew.session.calibrations import CalibrationFile
from clew.session.compaction import compact
from clew.session.config import SessionConfig
from clew.session.event_bus import EventBus
from clew.session.hooking import greet
from clew.session.journal import Journal
from clew.session.loops import LoopGuard
from clew.session.recall_tool import Recall
from clew.session.state import Emit, SessionState
from clew.stores.stored_entries import damaged_ids
from clew.tools.protocol import ToolContext

if TYPE_CHECKING:
    from clew.checkpoints.file_checkpoints import FileCheckpoints

_MOST_NAMED = 10


async def open_kit(parts: SessionConfig, bus: EventBus) -> SessionState:
    """Begin or reopen the journal, and note there what requests begin with.

    Raises:
        StoreError: The journal cannot be read or written.
    """
    journal = await Journal.open(
        parts.store,
        cwd=parts.cwd,
        session_id=parts.session_id,
        meter=meter_for(parts.setup.model.name) or text_units,
    )
    bus.session_id = journal.record.id
    try:
        return await _kit(parts, journal, bus.publish)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await journal.aclose()
        raise


def subscribe_log(bus: EventBus, log: SessionLogger) -> None:
    """Have a log record the session's own events."""

    def record(envelope: Envelope) -> None:
        if not envelope.task_id:
            log(envelope.event)

    bus.on_any(record)


async def _kit(parts: SessionConfig, journal: Journal, emit: Emit) -> SessionState:
    resumed = bool(journal.entries)
    _warn_of_damage(damaged_ids(entry for _, entry in journal.entries.iter_made()), emit)
    checkpoints = _checkpoints(parts, journal)
    journal.on_entry = lambda entry: emit(EntryAdded(entry))
    # What asks nothing must be asked for anew each time a session is opened.
    if journal.view.mode and journal.view.mode != PermissionMode.BYPASS:
        parts.gate.mode = PermissionMode(journal.view.mode)
    await set_up(journal, parts.setup, parts.calibrations)
    _warn_if_unknown(parts.setup.model, emit)
    kit = SessionState(
        journal=journal,
        provider=parts.provider,
        tools={RECALL: Recall(journal.entries), **parts.tools} if parts.recall else parts.tools,
        gate=parts.gate,
        policy=parts.policy,
        strategy=parts.strategy,
        summary_model=parts.summary_model,
        extra_facts=parts.extra_facts,
        before_compact=parts.before_compact,
        compact_instructions=parts.compact_instructions,
        purse=parts.purse,
        reasoning=parts.reasoning,
        request_options=parts.request_options,
        hooks=parts.hooks,
        tool_timeout=parts.tool_timeout,
        provider_timeout=parts.provider_timeout,
        loops=LoopGuard(watching=parts.detect_loops),
        redact=redact if parts.redact else None,
        place=ToolContext(
            cwd=parts.cwd,
            env=dict(parts.env),
            before_change=checkpoints.keep if checkpoints else None,
        ),
        checkpoints=checkpoints,
        log=parts.log,
        emit=emit,
    )
    _begin_log(kit, resumed=resumed)
    await greet(kit, resumed=resumed)
    return kit


def _begin_log(kit: SessionState, *, resumed: bool) -> None:
    if kit.log is not None:
        kit.log.begin(
            LoggedSession(
                journal=kit.journal,
                provider=kit.provider.name,
                max_concurrency=kit.parallel_tools,
                resumed=resumed,
                warn=lambda text: kit.emit(Warned(text)),
            )
        )


def _checkpoints(parts: SessionConfig, journal: Journal) -> "FileCheckpoints | None":
    if parts.checkpoints is None:
        return None
    # Imported here because a session that keeps no files need not wait for it.
    from clew.checkpoints.file_checkpoints import FileCheckpoints  # noqa: PLC0415

    return FileCheckpoints(
        parts.checkpoints,
        journal.record.id,
        root=parts.cwd,
        floor=journal.entries[-1].id if journal.entries else EntryId(0),
        limits=parts.checkpoint_limits,
    )


def prove(kit: SessionState) -> None:
    """Before the first call, make sure that all of the view can be read."""
    if kit.journal.unproven:
        _warn_of_damage(kit.journal.prove(), kit.emit)


def _warn_of_damage(lost: Sequence[EntryId], emit: Emit) -> None:
    if lost:
        numbers = ", ".join(f"#{number}" for number in lost[:_MOST_NAMED])
        what = f"{len(lost)} entries" if len(lost) > 1 else "an entry"
        verb = "are" if len(lost) > 1 else "is"
        emit(Warned(f"{what} of this session {verb} damaged and left out: {numbers}"))


def _warn_if_unknown(model: ModelFacts, emit: Emit) -> None:
    if not model.known:
        emit(
            Warned(
                f"nothing is known of the model {model.name}: a window of {model.window:,} "
                f"tokens is assumed. If it is larger, say so: max_context_tokens, or --window."
            )
        )


async def set_up(
    journal: Journal, setup: SetupChanged, calibrations: CalibrationFile | None
) -> None:
    """Note what requests begin with, if the journal does not say so already.

    A model that is new to the journal starts from what earlier sessions learned of it.
    """
    now = journal.view.setup
    if setup.model.name != now.model.name and calibrations is not None:
        known = await to_thread.run_sync(calibrations.load, _key(setup.model.name))
        await journal.append(replace(setup, calibration=known))
    elif replace(now, calibration=None) != setup:
        await journal.append(setup)


async def switch_model(
    kit: SessionState, facts: ModelFacts, provider: Provider, calibrations: CalibrationFile | None
) -> None:
    """Go on with another model; what its window cannot hold is compacted first, by the old one."""
    used = kit.state().used_tokens
    if used >= (kit.policy.thresholds.compact or kit.policy.thresholds.block) * facts.window:
        await compact(kit, trigger="auto", window=facts.window)
    setup = replace(kit.journal.view.setup, model=facts, calibration=None)
    if provider.name != kit.provider.name:
        kit.summary_model = None
    kit.provider = provider
    kit.journal.measure_by(meter_for(facts.name) or text_units)
    await set_up(kit.journal, setup, calibrations)
    kit.report_state()


async def remember(kit: SessionState, calibrations: CalibrationFile | None) -> None:
    """Keep what this session learned of its model for the next one."""
    view = kit.journal.view
    if calibrations is not None and view.calls:
        name = _key(view.setup.model.name)
        await to_thread.run_sync(calibrations.save, name, view.calibration)


def _key(model: str) -> str:
    """What is learned with an exact tokenizer does not hold without it."""
    return f"{model}#exact" if meter_for(model) is not None else model
