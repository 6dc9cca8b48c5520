"""Keeps the line of the user's own status command up to date."""

import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from clew._version import __version__
from clew.core.sanitize import sanitize_line
from clew.sdk.status_command import run_status_command
from clew.tui.status import SessionStatus

_PAUSE: Final = 0.3
"""Seconds between two calls of the command."""
_MAX_LINE: Final = 300


class Caller(Protocol):
    """Runs a function in the session's thread, or later."""

    def call(
        self, work: Callable[[], Awaitable[str]], done: "Callable[[Future[str]], None]"
    ) -> None:
        """Run `work` there, and `done` afterwards in the terminal's thread."""
        ...

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Call a function after some time."""
        ...


class CustomStatus:
    """Runs the command when the status has changed, one call at a time.

    Args:
        command: The command; empty for none.
        padding: Spaces before the line.
        cwd: Where it runs.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        command: str,
        *,
        padding: int,
        cwd: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command, self._padding, self._cwd = command, padding, cwd
        self._clock = clock
        self._shown: SessionStatus | None = None
        self._last = -_PAUSE
        self._is_running = False
        self._newest: SessionStatus | None = None
        self._again_at = 0.0
        """When the command is called again, because the status changed soon after a call."""
        self.line = ""
        """What the command printed; empty if there is none, or it failed."""

    def update(self, status: SessionStatus, caller: Caller) -> None:
        """Call the command if the status has changed since the last call."""
        now = self._clock()
        self._newest = status
        if not self._command or self._is_running or status == self._shown:
            return
        if now < self._last + _PAUSE:
            self._update_later(self._last + _PAUSE - now, caller)
            return
        self._is_running, self._shown, self._last = True, status, now
        facts = describe_status(status, cwd=str(self._cwd))
        caller.call(partial(run_status_command, self._command, facts, cwd=self._cwd), self._take)

    def _update_later(self, seconds: float, caller: Caller) -> None:
        now = self._clock()
        if now < self._again_at:
            return
        self._again_at = now + seconds

        def update() -> None:
            self._again_at = 0.0
            if self._newest is not None:
                self.update(self._newest, caller)

        caller.later(seconds, update)

    def _take(self, future: "Future[str]") -> None:
        self._is_running = False
        if not future.cancelled() and future.exception() is None:
            line = sanitize_line(future.result(), _MAX_LINE)
            self.line = " " * self._padding + line if line else ""


def describe_status(status: SessionStatus, *, cwd: str) -> dict[str, Any]:
    """Return what the command reads, with the names of Claude Code where there are any."""
    context = status.context
    return {
        "hook_event_name": "Status",
        "session_id": status.session_id,
        "session_name": status.name,
        "cwd": cwd,
        "model": {"id": status.model, "display_name": status.model},
        "workspace": {"current_dir": cwd, "project_dir": cwd},
        "version": __version__,
        "permission_mode": status.mode,
        "cost": {"total_cost_usd": status.cost_usd},
        "context_window": {
            "used_tokens": context.used_tokens if context else 0,
            "context_window_size": context.max_tokens if context else 0,
            "used_percentage": context.used_percentage if context else 0.0,
        },
        "queued": status.queued,
        "background_tasks": status.tasks,
    }
