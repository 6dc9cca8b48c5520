"""The window of a session's model: what the server reports, and what a refusal has taught.

The catalogue names the largest window. A server may run the model with a smaller one, and an
account may have a smaller limit; both are known only after asking, or after a request was refused.
"""

import anyio
from anyio import to_thread

from clew.core.errors import ProviderError
from clew.core.models import ModelFacts
from clew.providers.protocol import HasAddress, Provider, ReportsWindow
from clew.session.config import LEAST_WINDOW, override_window
from clew.session.state import SessionState

_PATIENCE = 30.0
"""Seconds to wait for a server that loads the model first."""


async def find_facts(state: SessionState, provider: Provider, facts: ModelFacts) -> ModelFacts:
    """Return `facts` with the window that applies at the provider's server."""
    if not facts.known and isinstance(provider, ReportsWindow):
        facts = await _ask(provider, facts)
    calibrations = state.options["calibrations"]
    if calibrations is None:
        return facts
    key = _key(provider, facts.name)
    learned = await to_thread.run_sync(calibrations.load_window, key, state.clock())
    if learned is None or not LEAST_WINDOW <= learned < facts.window:
        return facts
    return override_window(facts, learned)


async def remember_window(state: SessionState, tokens: int) -> None:
    """Keep the window that the provider named for later sessions with the model."""
    calibrations = state.options["calibrations"]
    if calibrations is not None:
        key = _key(state.provider, state.journal.view.setup.model.name)
        await to_thread.run_sync(calibrations.save_window, key, tokens, state.clock())


async def _ask(provider: ReportsWindow, facts: ModelFacts) -> ModelFacts:
    try:
        with anyio.move_on_after(_PATIENCE):
            return await provider.load_facts(facts.name)
    except ProviderError as error:
        # The first call fails in the same way, and the user reads why.
        import logging  # noqa: PLC0415 - slow to import, and seldom needed

        logging.getLogger(__name__).info("the window of %s is unknown: %s", facts.name, error)
    return facts


def _key(provider: Provider, model: str) -> str:
    address = provider.address if isinstance(provider, HasAddress) else ""
    return f"{model}@{address or provider.name}"
