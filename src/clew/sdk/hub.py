"""Where clients of a session hear what happens: by name, in one order for all."""

import logging
from collections import defaultdict, deque
from collections.abc import Callable
from inspect import iscoroutinefunction
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


class _Subscription:
    """One listener, known by itself: others may be equal to it."""

    __slots__ = ("hear",)

    def __init__(self, hear: AnyListener) -> None:
        self.hear = hear


class Hub:
    """Hands each event to all who listen, before the next one. One that raises breaks nothing.

    What a listener causes is told when all have heard what they are being told now, so that
    the order is the same for everyone.
    """

    def __init__(self) -> None:
        self._named: defaultdict[str, list[_Subscription]] = defaultdict(list)
        self._all: list[_Subscription] = []
        self._waiting: deque[tuple[EventName, Any]] = deque()
        self._telling = False

    def on(self, name: EventName, listener: Listener) -> Unsubscribe:
        """Listen to one kind of event; returns how to stop.

        Raises:
            SessionError: There is no such event, or the listener would have to be awaited.
        """
        if name not in EVENT_NAMES:
            raise SessionError(f"there is no event {name!r}; there are: {', '.join(EVENT_NAMES)}")
        _refuse_coroutines(listener)
        return _subscribed(self._named[name], lambda _, payload: listener(payload))

    def on_any(self, listener: AnyListener) -> Unsubscribe:
        """Listen to everything; returns how to stop.

        Raises:
            SessionError: The listener would have to be awaited.
        """
        _refuse_coroutines(listener)
        return _subscribed(self._all, listener)

    def hears(self, name: EventName) -> bool:
        """Say whether somebody listens to just this kind of event."""
        return bool(self._named[name])

    def emit(self, name: EventName, payload: Any) -> None:
        """Tell everyone who listens."""
        self._waiting.append((name, payload))
        if self._telling:
            return
        self._telling = True
        try:
            while self._waiting:
                self._tell(*self._waiting.popleft())
        finally:
            self._telling = False

    def _tell(self, name: EventName, payload: Any) -> None:
        for one in (*self._named[name], *self._all):
            try:
                one.hear(name, payload)
            except Exception:
                logger.exception("a listener failed on %s", name)


def _subscribed(listeners: list[_Subscription], hear: AnyListener) -> Unsubscribe:
    one = _Subscription(hear)
    listeners.append(one)

    def stop() -> None:
        if one in listeners:
            listeners.remove(one)

    return stop


def _refuse_coroutines(listener: Callable[..., object]) -> None:
    if iscoroutinefunction(listener):
        raise SessionError(
            "a listener is called and not awaited: give a plain function, which may start a task"
        )
