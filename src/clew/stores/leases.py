"""Leases: one writer for each session, and a dead process never blocks it.

A lease names the process that holds it. On the same machine, a process is dead when its id is
free or belongs to a process that started at another time. Other machines and containers cannot
see that: for them, a holder is dead when it has not renewed its lease for `LEASE_TIMEOUT`
seconds. A holder that promised to renew its lease more often (`silent_after`) is dead when it
breaks that promise, on any machine: a process that is stopped still exists.

Each holder gets an epoch, which only grows, and every write checks it. A holder that was taken for
dead but is alive gets `LeaseLost` at its next write, even after its successor has finished.
"""

import os
import platform
import socket
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias
from weakref import WeakMethod

from msgspec import Struct

from clew.core.errors import SessionBusy
from clew.core.ids import SessionId

HEARTBEAT_INTERVAL = 20.0
"""Seconds between two renewals of a lease."""
_BEATS_PER_TIMEOUT = 5
_SHORTEST_INTERVAL = 0.1
LEASE_TIMEOUT = 90.0
"""Seconds without a renewal after which a holder on another machine is taken for dead."""


ProcessKey: TypeAlias = tuple[int, str, str]
"""The id of a process, when it started, and its machine; no two processes share all three."""


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

    @property
    def process(self) -> ProcessKey:
        """The process of the holder."""
        return self.pid, self.started, self.machine


class SessionHeld(SessionBusy):
    """Another process that is alive writes to this session."""

    def __init__(self, session_id: SessionId, holder: LeaseHolder) -> None:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.since))
        super().__init__(
            f"session {session_id} is in use by process {holder.pid} on {holder.host} since "
            f"{since}; close it there, or continue with a fork of it"
        )
        self.holder = holder


class LeaseLost(SessionBusy):
    """Another process took this session over, because this one was taken for dead."""

    def __init__(self, session_id: SessionId, successor: LeaseHolder | None) -> None:
        by = "" if successor is None else f" by process {successor.pid} on {successor.host}"
        super().__init__(
            f"session {session_id} was taken over{by}, because this process did not renew its "
            "lease in time; nothing was written. Open the session again to continue it"
        )
        self.successor = successor


class Lease(Struct, frozen=True, kw_only=True):
    """A lease as it is stored; it stays after its release, so that epochs only grow."""

    holder: LeaseHolder
    """The last holder; its `owner` is empty after the release."""
    epoch: int
    silent: float
    """Seconds since the last renewal."""
    silent_after: float | None
    """The holder is dead when it is silent for that long; None for the rules of its machine."""

    def is_dead(self, *, me: LeaseHolder) -> bool:
        """Return whether the holder is dead, as far as this process can tell."""
        if self.silent_after is not None and self.silent >= self.silent_after:
            return True
        return is_dead(self.holder, me=me, silent=self.silent)


class OwnLease(Struct, frozen=True, kw_only=True):
    """A lease that a store took."""

    epoch: int
    was_held: bool = False
    """True when its last holder died with it, so that a run may have been cut."""


class Writer(Struct, frozen=True, kw_only=True):
    """Who wants to write to a session."""

    holder: LeaseHolder
    epoch: int | None = None
    """The epoch of the lease that it took; None if it has none."""
    now: float
    """The time by its clock."""

    def has(self, lease: Lease | None) -> bool:
        """Return whether a lease is the one that this writer took."""
        return (
            lease is not None
            and lease.holder.owner == self.holder.owner
            and lease.epoch == self.epoch
        )


def heartbeat_interval(silent_after: float | None) -> float:
    """Return how often to renew a lease whose holder is dead after that many silent seconds."""
    if silent_after is None:
        return HEARTBEAT_INTERVAL
    return min(HEARTBEAT_INTERVAL, max(_SHORTEST_INTERVAL, silent_after / _BEATS_PER_TIMEOUT))


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
        return has_ended(holder.process, me=me)
    return silent > LEASE_TIMEOUT


def has_restarted(holder: LeaseHolder, *, me: LeaseHolder) -> bool:
    """Return whether the machine of a holder was started again since, so that the holder is gone.

    A container on this machine is another machine with the same boot id: it cannot be recognised.
    """
    (before, is_known, _), (now, _, _) = holder.machine.partition("/"), me.machine.partition("/")
    return holder.host == me.host and bool(is_known) and before != now


def has_ended(process: ProcessKey, *, me: LeaseHolder) -> bool:
    """Return whether a process of this machine is gone; False when that is unknown."""
    pid, started, machine = process
    return machine == me.machine and not _is_alive(pid, started)


class Heartbeat:
    """Calls a method at regular intervals on a thread, from `start` to `stop`.

    It stops by itself when the object that the method belongs to is gone.
    """

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = WeakMethod(beat)
        self._pace = _Pace()
        self._thread: threading.Thread | None = None

    def start(self, interval: float = HEARTBEAT_INTERVAL) -> None:
        """Start the thread; if it is running, it calls at the shorter one of the intervals."""
        if self._thread is not None:
            self._pace.shorten(interval)
            return
        self._pace = _Pace(interval)
        self._thread = threading.Thread(
            target=_call_repeatedly, args=(self._beat, self._pace), name="clew-lease", daemon=True
        )
        self._thread.start()

    def stop(self) -> bool:
        """Stop the thread, and wait for a call in progress; return whether it was running."""
        thread, self._thread = self._thread, None
        if thread is None:
            return False
        self._pace.stop()
        thread.join()
        return True


class _Pace:
    """How often a thread calls; it can be changed and stopped from another thread."""

    def __init__(self, interval: float = HEARTBEAT_INTERVAL) -> None:
        self._interval = interval
        self._changed = threading.Event()
        self._is_stopped = False

    def wait(self) -> bool:
        """Wait for the time of the next call; return False when there is none."""
        while self._changed.wait(self._interval) and not self._is_stopped:
            self._changed.clear()
        return not self._is_stopped

    def shorten(self, interval: float) -> None:
        """Call at least this often from now on."""
        if interval < self._interval:
            self._interval = interval
            self._changed.set()

    def stop(self) -> None:
        """End the calls."""
        self._is_stopped = True
        self._changed.set()


def _call_repeatedly(beat: WeakMethod[Callable[[], None]], pace: _Pace) -> None:
    while pace.wait():
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
