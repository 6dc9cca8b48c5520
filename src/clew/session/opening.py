"""Putting the parts of a session together."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from clew.context.policy import ContextPolicy
from clew.context.tiered import Tiered
from clew.core.access import PermissionMode
from clew.core.entries import SetupChanged
from clew.core.errors import ConfigError
from clew.core.events import EntryAdded, Warned
from clew.core.ids import SessionId
from clew.core.models import ModelFacts
from clew.providers.protocol import Provider
from clew.session.gate import Gate
from clew.session.journal import Journal
from clew.session.kit import Emit, Kit
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


async def open_kit(parts: Parts, emit: Emit) -> Kit:
    """Begin or reopen the journal, and note there what requests begin with.

    Raises:
        StoreError: The journal cannot be read or written.
    """
    journal = await Journal.open(parts.store, cwd=parts.cwd, session_id=parts.session_id)
    journal.on_entry = lambda entry: emit(EntryAdded(entry))
    if journal.view.mode:
        parts.gate.mode = PermissionMode(journal.view.mode)
    if journal.view.setup != parts.setup:
        await journal.append(parts.setup)
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
        tools=parts.tools,
        gate=parts.gate,
        policy=parts.policy,
        strategy=Tiered(),
        place=Place(cwd=parts.cwd),
        emit=emit,
    )


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
