"""Telling those who watch a session what happens in it."""

import logging
from collections.abc import Callable

from clew.core.entries import Noted
from clew.core.errors import ClewError, ProviderError, StoreError
from clew.core.events import Event, RunEnded
from clew.session.hooking import failed
from clew.session.state import SessionState

logger = logging.getLogger(__name__)

Listener = Callable[[Event], None]


class Listeners:
    """Hands each event to every listener, in order. One that raises breaks nothing."""

    def __init__(self, *listeners: Listener | None) -> None:
        self._listeners = tuple(filter(None, listeners))

    def __call__(self, event: Event) -> None:
        """Tell everyone."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                logger.exception("a listener failed on %s", type(event).__name__)


async def report_failure(kit: SessionState | None, emit: Listener, error: BaseException) -> None:
    """Note why a run ended early, in the journal where that is possible, and tell the screen."""
    worth_noting = isinstance(error, ClewError) and not isinstance(error, StoreError)
    if kit is not None and isinstance(error, ClewError) and worth_noting:
        await kit.journal.append(Noted(topic="error", text=str(error)))
        if isinstance(error, ProviderError):
            await failed(kit, error)
    interrupted = not isinstance(error, Exception)
    text = "" if interrupted else str(error) or type(error).__name__
    emit(RunEnded(text="", interrupted=interrupted, error=text))
