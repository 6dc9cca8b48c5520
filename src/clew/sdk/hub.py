"""Where clients of a session hear what happens: by name, in one order for all."""

import logging
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

from clew.core.errors import SessionError

logger = logging.getLogger(__name__)

EventName: TypeAlias = Literal[
    "user_message",
    "text_delta",
    "reasoning_delta",
    "tool_start",
    "tool_end",
    "thinking",
    "complete",
    "error",
    "interrupted",
    "context_update",
    "compaction",
    "queue",
    "warning",
    "permission_request",
    "permission_resolved",
    "background_task_event",
    "background_job_group_event",
]
"""What can be listened to; `docs/sdk.md` says what each brings."""
EVENT_NAMES: tuple[str, ...] = get_args(EventName)

Listener: TypeAlias = Callable[[Any], object]
AnyListener: TypeAlias = Callable[[EventName, Any], object]
Unsubscribe: TypeAlias = Callable[[], None]


class Hub:
    """Hands each event to all who listen, before the next one. One that raises breaks nothing."""

    def __init__(self) -> None:
        self._named: defaultdict[str, list[Listener]] = defaultdict(list)
        self._all: list[AnyListener] = []

    def on(self, name: EventName, listener: Listener) -> Unsubscribe:
        """Listen to one kind of event; returns how to stop.

        Raises:
            SessionError: There is no such event.
        """
        if name not in EVENT_NAMES:
            raise SessionError(f"there is no event {name!r}; there are: {', '.join(EVENT_NAMES)}")
        self._named[name].append(listener)
        return lambda: _remove(self._named[name], listener)

    def on_any(self, listener: AnyListener) -> Unsubscribe:
        """Listen to everything; returns how to stop."""
        self._all.append(listener)
        return lambda: _remove(self._all, listener)

    def hears(self, name: EventName) -> bool:
        """Say whether somebody listens to just this kind of event."""
        return bool(self._named[name])

    def emit(self, name: EventName, payload: Any) -> None:
        """Tell everyone who listens."""
        calls = [
            *(partial(listener, payload) for listener in self._named[name]),
            *(partial(listener, name, payload) for listener in self._all),
        ]
        for call in calls:
            try:
                call()
            except Exception:
                logger.exception("a listener failed on %s", name)


def _remove(listeners: list[Any], listener: object) -> None:
    if listener in listeners:
        listeners.remove(listener)
