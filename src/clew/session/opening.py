"""Putting the parts of a session together."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from clew.context.estimate import text_units
from clew.context.plan import Strategy
from clew.context.policy import ContextPolicy
from clew.core.access import PermissionMode
from clew.core.entries import SetupChanged
from clew.core.errors import ConfigError
from clew.core.events import EntryAdded, Warned
from clew.core.ids import SessionId
from clew.core.models import ModelFacts
from clew.providers.protocol import Provider
from clew.providers.tokenizers import meter_for
from clew.session.calibrations import CalibrationFile
from clew.session.gate import Gate
from clew.session.journal import Journal
from clew.session.kit import Emit, Kit
from clew.session.recall import RECALL
from clew.session.recall_tool import Recall
from clew.session.stores.protocol import Store
from clew.tools.protocol import Place, Tool

_LEAST_WINDOW = 256


class Parts(Struct, frozen=True, kw_only=True):
    """What a session is made of, before its journal is open."""

    provider: Provider
    setup: SetupChanged
    tools: Mapping[str, Tool]
    store: Store
    session_id: SessionId | None
    cwd: Path
    gate: Gate
    policy: ContextPolicy
    strategy: Strategy
    summary_model: ModelFacts | None = None
    extra_facts: Callable[[], Sequence[str]] | None = None
    recall: bool = True
    calibrations: CalibrationFile | None = None


async def open_kit(parts: Parts, emit: Emit) -> Kit:
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
    journal.on_entry = lambda entry: emit(EntryAdded(entry))
    # What asks nothing must be asked for anew each time a session is opened.
    if journal.view.mode and journal.view.mode != PermissionMode.BYPASS:
        parts.gate.mode = PermissionMode(journal.view.mode)
    await set_up(journal, parts.setup, parts.calibrations)
    model = parts.setup.model
    if not model.known:
        emit(
            Warned(
                f"nothing is known of the model {model.name}: a window of {model.window:,} "
                f"tokens is assumed. Set max_context_tokens if it is larger."
            )
        )
    return Kit(
        journal=journal,
        provider=parts.provider,
        tools={RECALL: Recall(journal.entries), **parts.tools} if parts.recall else parts.tools,
        gate=parts.gate,
        policy=parts.policy,
        strategy=parts.strategy,
        summary_model=parts.summary_model,
        extra_facts=parts.extra_facts,
        place=Place(cwd=parts.cwd),
        emit=emit,
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


async def remember(kit: Kit, calibrations: CalibrationFile | None) -> None:
    """Keep what this session learned of its model for the next one."""
    view = kit.journal.view
    if calibrations is not None and view.calls:
        name = _key(view.setup.model.name)
        await to_thread.run_sync(calibrations.save, name, view.calibration)


def _key(model: str) -> str:
    """What is learned with an exact tokenizer does not hold without it."""
    return f"{model}#exact" if meter_for(model) is not None else model


def by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return tools under their names.

    Raises:
        ConfigError: Two of them have the same name.
    """
    named: dict[str, Tool] = {}
    for tool in tools:
        if tool.spec.name in named:
            raise ConfigError(f"two tools are called {tool.spec.name}; rename one of them")
        named[tool.spec.name] = tool
    return named


def facts_for(facts: ModelFacts, *, max_context_tokens: int | None) -> ModelFacts:
    """Apply a user's own window to what is known of a model.

    Raises:
        ConfigError: The window is too small to work with.
    """
    if max_context_tokens is None:
        return facts
    if max_context_tokens < _LEAST_WINDOW:
        raise ConfigError(
            f"a window of {max_context_tokens} tokens is too small; the least is {_LEAST_WINDOW}"
        )
    return ModelFacts(
        name=facts.name,
        window=max_context_tokens,
        max_output=min(facts.max_output, max(64, max_context_tokens // 4)),
        calls_tools=facts.calls_tools,
        summarises=facts.summarises,
    )
