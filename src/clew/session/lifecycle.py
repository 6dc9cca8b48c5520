"""The life of a session: create its state, open the journal, switch models, close."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import anyio
from anyio import to_thread
from msgspec.structs import asdict, replace

from clew.context.estimate import text_units
from clew.context.recall import RECALL
from clew.core.entries import Entry, MessageAdded, SessionRecord, SetupChanged
from clew.core.events import EntryAdded, Warned
from clew.core.ids import EntryId, SessionId, new_session_id
from clew.core.messages import Role
from clew.core.models import ModelFacts
from clew.core.permissions import PermissionMode
from clew.core.text import pluralize
from clew.hooks.protocol import HookEvent
from clew.log.protocol import LoggedSession
from clew.providers.protocol import Provider
from clew.providers.tokenizers import meter_for
from clew.session.config import (
    SessionOptions,
    choose_strategy,
    complete_options,
    index_tools,
    make_gate,
    make_policy,
    make_reasoning_policy,
    override_window,
    subscribe_callbacks,
)
from clew.session.event_bus import EventBus
from clew.session.hook_events import fire, fire_session_start
from clew.session.journal import (
    Journal,
    answer_open_calls,
    make_unopened_journal,
    new_record,
    prove_view,
)
from clew.session.limits import LoopGuard, make_cost_limit
from clew.session.model_window import find_facts
from clew.session.option_types import check_provider
from clew.session.plan_mode import select_tools
from clew.session.recall_tool import RECALL_SPEC, Recall
from clew.session.state import SessionState
from clew.stores.record import StoredSession
from clew.stores.stored_entries import find_damaged_ids
from clew.tools.protocol import ToolContext

if TYPE_CHECKING:
    from clew.checkpoints.file_checkpoints import FileCheckpoints
    from clew.session.calibrations import CalibrationFile

_MOST_NAMED = 10


class ModelOptions(TypedDict, total=False):
    """What can be given along with another model."""

    provider: Provider | None
    """Default: the provider that the session has."""
    max_context_tokens: int | None
    """The model's window. Default: the window in the model catalogue."""
    request_options: Mapping[str, Any] | None
    """Fields of the provider's own API. Default: none for another provider, else as before."""


def create_state(provider: Provider, model: str, given: SessionOptions) -> SessionState:
    """Return the state of a session that is not open yet.

    Raises:
        ConfigError: The options contradict each other, or one is out of range.
        TypeError: The provider or an option has the wrong type.
    """
    check_provider(provider)
    options = complete_options(given)
    tools, cwd, name = options["tools"], cast("Path", options["cwd"]), options["summary_model"]
    specs = (*(tool.spec for tool in tools), *([RECALL_SPEC] if options["recall"] else []))
    setup = SetupChanged(
        model=override_window(provider.facts(model), options["max_context_tokens"]),
        system=options["system_message"],
        tools=specs,
    )
    record = new_record(SessionId(options["session_id"] or new_session_id()), cwd)
    gate = make_gate(options)
    state = SessionState(
        options=options,
        journal=make_unopened_journal(options["store"], record, setup),
        provider=provider,
        gate=gate,
        policy=make_policy(options),
        strategy=choose_strategy(options),
        reasoning=make_reasoning_policy(options),
        tools=index_tools(tools),
        all_specs=specs,
        tool_context=ToolContext(
            cwd=cwd,
            env=dict(options["env"]),
            documents=options["documents"],
            terminal=options["terminal"],
            redact_values=_list_secrets(provider, options),
            find_denied=gate.find_denied_paths,
        ),
        cost_limit=make_cost_limit(options["budget_usd"], options["prices"]),
        loop_guard=LoopGuard(enabled=options["detect_loops"]),
        request_options=options["request_options"],
        summary_model=provider.facts(name) if name else None,
    )
    options["event_bus"].session_id = record.id
    subscribe_callbacks(options)
    if (telemetry := options["telemetry"]) is not None:
        bus = options["event_bus"]
        bus.on_own(telemetry.listen(bus, lambda: state.tool_context.redact_values or ()))
    return state


def _list_secrets(provider: Provider, options: SessionOptions) -> tuple[str, ...] | None:
    """Return the texts to redact besides those that look like secrets; None for nothing."""
    if not options["redact"]:
        return None
    return tuple(dict.fromkeys((*options["redact_values"], *getattr(provider, "secrets", ()))))


async def open_session(state: SessionState) -> None:
    """Create or reopen the journal; calling it again does nothing.

    Raises:
        SessionClosed: The session was shut down.
        StoreError: The journal cannot be read or written.
    """
    state.check_open()
    if state.is_open:
        return
    # Made here because anyio imports its locks when they are first used.
    state.opening = state.opening or anyio.Lock(fast_acquire=True)
    async with state.opening:
        if state.is_open:
            return
        options, draft = state.options, state.journal
        setup = draft.view.setup
        journal = await Journal.open(
            options["store"],
            cwd=state.tool_context.cwd,
            session_id=SessionId(options["session_id"]) if options["session_id"] else None,
            new_id=draft.record.id,
            meter=meter_for(setup.model.name) or text_units,
        )
        if not journal.entries:
            journal.record = _add_origin(journal.record, options)
        try:
            await _start(state, journal, setup)
            state.check_open()
        except BaseException:
            state.journal = draft
            with anyio.CancelScope(shield=True):
                await journal.aclose()
            raise
        state.is_open = True
    state.opening = None


def _add_origin(record: SessionRecord, options: SessionOptions) -> SessionRecord:
    """Return the record of a new session with the session that it works for, if there is one."""
    parent, kind = options["parent"], options["kind"]
    if (not parent and not kind) or isinstance(record, StoredSession):
        # A crash may have come between the record and the first entry.
        return record
    return StoredSession(**asdict(record), parent=SessionId(parent) or None, kind=kind)


async def close_session(state: SessionState, reason: str) -> None:
    """Fire SessionEnd, end the log and release the journal; calling it again does nothing."""
    if state.is_closed:
        return
    state.is_closed = True
    if not state.is_open:
        return
    with anyio.CancelScope(shield=True):
        try:
            if state.preparation is not None:
                await state.preparation.aclose()
            await fire(state, HookEvent.SESSION_END, reason=reason)
            if (log := state.options["session_log"]) is not None:
                log.end(reason)
        finally:
            await state.journal.aclose()


async def _start(state: SessionState, journal: Journal, setup: SetupChanged) -> None:
    source = _find_source(journal)
    _warn_of_damage(state, find_damaged_ids(entry for _, entry in journal.entries.iter_made()))
    checkpoints = _make_checkpoints(state.options, journal)
    if not state.options["record_calls"]:
        await answer_open_calls(journal)
    state.journal = journal
    state.published_todos = journal.view.todos
    # Without `state`: a cycle would keep each session alive until the garbage collector runs.
    journal.on_entry = partial(_publish_entry, state.options["event_bus"])
    stored = journal.view.mode
    # The mode that asks about nothing must be chosen again each time a session is opened.
    if stored and stored != PermissionMode.BYPASS and not state.options.get("permission_mode"):
        state.gate.mode = PermissionMode(stored)
    state.plan_mode_told = stored == PermissionMode.PLAN
    effort = state.options["effort"] or journal.view.setup.effort
    _connect_tools(state)
    setup = replace(setup, tools=select_tools(state), effort=effort)
    if state.options["max_context_tokens"] is None:
        setup = replace(setup, model=await find_facts(state, state.provider, setup.model))
    await _record_setup(journal, setup, state.options["calibrations"])
    _warn_if_unknown(state, setup.model)
    _warn_if_effortless(state)
    if checkpoints is not None:
        state.checkpoints = checkpoints
        state.tool_context = replace(state.tool_context, before_change=checkpoints.keep)
    _begin_log(state, resumed=source != "startup")
    await fire_session_start(state, source)


def _publish_entry(bus: EventBus, entry: Entry) -> None:
    if bus.wants(EntryAdded):
        bus.publish(EntryAdded(entry))


def _connect_tools(state: SessionState) -> None:
    """Add the tools that need the journal, and those that come and go."""
    if state.options["recall"]:
        recall = Recall(state.options["store"], state.journal, state.policy)
        state.tools = {RECALL: recall, **index_tools(state.options["tools"])}
    if state.options["tool_source"] is not None:
        # Few sessions have such tools.
        from clew.session.tool_sources import connect_source  # noqa: PLC0415

        connect_source(state, state.options["tool_source"])


def _find_source(journal: Journal) -> str:
    """Return the source of the session for SessionStart: `startup`, `resume` or `fork`."""
    record = journal.record
    if not journal.entries:
        return "startup"
    if not isinstance(record, StoredSession) or record.parent is None:
        return "resume"
    own = journal.since(record.forked_at or EntryId(0))
    is_used = any(
        isinstance(entry.body, MessageAdded) and entry.body.message.role is Role.USER
        for entry in own
    )
    return "resume" if is_used else "fork"


def _begin_log(state: SessionState, *, resumed: bool) -> None:
    if (log := state.options["session_log"]) is not None:
        log.begin(
            LoggedSession(
                journal=state.journal,
                provider=state.provider.name,
                max_concurrency=state.options["max_parallel_tools"],
                resumed=resumed,
                warn=lambda text: state.emit(Warned(text)),
                secrets=state.tool_context.redact_values or (),
            )
        )


def _make_checkpoints(options: SessionOptions, journal: Journal) -> "FileCheckpoints | None":
    folder = options["checkpoints"]
    if folder is None:
        return None
    # Imported here because most sessions keep no checkpoints, and the import takes time.
    from clew.checkpoints.file_checkpoints import FileCheckpoints  # noqa: PLC0415

    return FileCheckpoints(
        folder,
        journal.record.id,
        root=Path(options["cwd"]),
        floor=journal.entries[-1].id if journal.entries else EntryId(0),
        limits=options["checkpoint_limits"],
    )


def _warn_of_damage(state: SessionState, lost: Sequence[EntryId]) -> None:
    if lost:
        numbers = ", ".join(f"#{number}" for number in lost[:_MOST_NAMED])
        verb = "are" if len(lost) > 1 else "is"
        state.emit(
            Warned(
                f"{pluralize(len(lost), 'entry', 'entries')} of this session {verb} damaged and"
                f" left out: {numbers}"
            )
        )


def _warn_if_unknown(state: SessionState, model: ModelFacts) -> None:
    if not model.known:
        state.emit(
            Warned(
                f"the model {model.name} is not in the catalogue, so a window of"
                f" {model.window:,} tokens is assumed; set max_context_tokens or --window if that"
                " is wrong"
            )
        )


def _warn_if_effortless(state: SessionState) -> None:
    setup = state.journal.view.setup
    if state.find_effort_fields(setup.effort) is None:
        why = f"{setup.model.name} on {state.provider.name} has no choice of reasoning effort"
        state.emit(Warned(f"the effort {setup.effort} is not used: {why}"))


def check_view(state: SessionState) -> None:
    """Read the whole view once, before the first model call, and warn of damaged entries."""
    if state.journal.unproven:
        _warn_of_damage(state, prove_view(state.journal))


async def _record_setup(
    journal: Journal, setup: SetupChanged, calibrations: "CalibrationFile | None"
) -> None:
    """Append the setup, unless the journal has the same one already.

    A model that is new to the journal starts from what earlier sessions learned about it.
    """
    now = journal.view.setup
    if setup.model.name != now.model.name and calibrations is not None:
        known = await to_thread.run_sync(calibrations.load, _calibration_key(setup.model.name))
        await journal.append(replace(setup, calibration=known))
    elif replace(now, calibration=None) != setup:
        await journal.append(setup)


async def switch_model(state: SessionState, model: str, options: ModelOptions) -> None:
    """Continue with another model; the old one first compacts what the new window cannot hold.

    Raises:
        ConfigError: The window is too small to work with.
        TypeError: The provider is none.
    """
    provider = options.get("provider") or state.provider
    check_provider(provider)
    window = options.get("max_context_tokens")
    facts = override_window(provider.facts(model), window)
    if window is None:
        facts = await find_facts(state, provider, facts)
    request_options = options.get("request_options")
    if request_options is not None or provider.name != state.provider.name:
        state.request_options = request_options or {}
    thresholds = state.policy.thresholds
    limit = (thresholds.compact or thresholds.block) * facts.window
    if state.used_tokens >= limit:
        # Imported here because few sessions are ever compacted, and it loads much.
        from clew.session.compaction import compact  # noqa: PLC0415

        await compact(state, trigger="auto", window=facts.window)
    setup = replace(state.journal.view.setup, model=facts, calibration=None)
    if provider.name != state.provider.name:
        state.summary_model = None
    state.provider = provider
    if (known := state.tool_context.redact_values) is not None:
        found = _list_secrets(provider, state.options) or ()
        values = tuple(dict.fromkeys((*known, *found)))
        state.tool_context = replace(state.tool_context, redact_values=values)
        if (log := state.options["session_log"]) is not None:
            log.hide(values)
    state.journal.measure_by(meter_for(facts.name) or text_units)
    await _record_setup(state.journal, setup, state.options["calibrations"])
    _warn_if_effortless(state)
    state.report_context()


async def save_calibration(state: SessionState) -> None:
    """Keep the token counts that this session learned for later sessions."""
    view, calibrations = state.journal.view, state.options["calibrations"]
    if calibrations is not None and view.calibration.tokens:
        key = _calibration_key(view.setup.model.name)
        await to_thread.run_sync(calibrations.save, key, view.calibration)


def _calibration_key(model: str) -> str:
    """Return where a calibration is kept: one for exact tokenizers, one for estimates."""
    return f"{model}#exact" if meter_for(model) is not None else model
