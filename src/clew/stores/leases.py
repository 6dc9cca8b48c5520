"""Leases: one writer for each session, and a dead process never blocks it.

A lease names the process that holds it. On the same machine, a process is dead when its id is
free or belongs to a process that started at another time. Other machines and containers cannot
see that: for them, a holder is dead when it has not renewed its lease for `LEASE_TIMEOUT`
seconds. A holder that was taken for dead but is alive gets an error at its next write.
"""

import os
import platform
import socket
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from weakref import WeakMethod

from msgspec import Struct

from clew.core.errors import SessionBusy
from clew.core.ids import SessionId

HEARTBEAT_INTERVAL = 20.0
"""Seconds between two renewals of a lease."""
LEASE_TIMEOUT = 90.0
"""Seconds without a renewal after which a holder on another machine is taken for dead."""


class LeaseHolder(Struct, frozen=True, kw_only=True):
    """A process that writes to a session."""

    owner: str
    """A random name, different for each store object."""
    pid: int
    started: str
    """When the process started, in a form that only its machine understands."""
    machine: str
    host: str
    since: float = 0.0


class SessionHeld(SessionBusy):
    """Another process that is alive writes to this session."""

    def __init__(self, session_id: SessionId, holder: LeaseHolder) -> None:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.since))
        super().__init__(
            f"session {session_id} is in use by process {holder.pid} on {holder.host} since "
            f"{since}; close it there, or continue with a fork of it"
        )
        self.holder = holder


def current_holder() -> LeaseHolder:
    """Return a holder for a new store object of this process."""
    pid = os.getpid()
    return LeaseHolder(
        owner=os.urandom(8).hex(),
        pid=pid,
        started=_start_time(pid),
        machine=_machine(),
        host=socket.gethostname(),
    )


def is_dead(holder: LeaseHolder, *, me: LeaseHolder, silent: float) -> bool:
    """Return whether a holder that renewed its lease `silent` seconds ago is dead."""
    if holder.machine == me.machine:
        return not _is_alive(holder.pid, holder.started)
    return silent > LEASE_TIMEOUT


class Heartbeat:
    """Calls a method at regular intervals on a thread, from `start` to `stop`.

    It stops by itself when the object that the method belongs to is gone.
    """

    def __init__(self, beat: Callable[[], None], *, interval: float = HEARTBEAT_INTERVAL) -> None:
        self._beat = WeakMethod(beat)
        self._interval = interval
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, if it is not running."""
        if self._thread is None:
            self._stopped = threading.Event()
            self._thread = threading.Thread(
                target=_call_repeatedly,
                args=(self._beat, self._stopped, self._interval),
                name="clew-lease",
                daemon=True,
            )
            self._thread.start()

    def stop(self) -> bool:
        """Stop the thread, and wait for a call in progress; return whether it was running."""
        thread, self._thread = self._thread, None
        if thread is None:
            return False
        self._stopped.set()
        thread.join()
        return True


def _call_repeatedly(
    beat: WeakMethod[Callable[[], None]], stopped: threading.Event, interval: float
) -> None:
    while not stopped.wait(interval):
        method = beat()
        if method is None:
            return
        method()
        del method  # or this thread would keep the object alive


def _is_alive(pid: int, started: str) -> bool:
    if started:
        return _start_time(pid) == started
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _start_time(pid: int) -> str:
    """Return when a process started, in ticks since the machine did; empty if it is gone."""
    try:
        facts = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The command in parentheses may hold any character, so the fields are counted after it.
    fields = facts.rpartition(")")[2].split()
    is_zombie = fields[0] == "Z"
    return "" if is_zombie else fields[19]


@cache
def _machine() -> str:
    """Return a name that two processes share if they can see each other's process ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        # Other systems have only the host name; Windows cannot tell whether a process exists.
        return platform.node() if os.name == "posix" else os.urandom(8).hex()
