"""Who may write to a session: one at a time, and never the dead.

A lease names the process that holds it. On the same machine a process is dead when its id is
free, or belongs to a process that began at another time. From another machine (or another
container) that cannot be seen: there a holder is dead when it has not been heard of for
`SILENCE` seconds. Whoever was taken for dead and is not is told so at its next write.
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

BEAT = 20.0
"""Seconds between two signs of life."""
SILENCE = 90.0
"""Seconds without one after which a holder on another machine is taken for dead."""


class Holder(Struct, frozen=True, kw_only=True):
    """A process that writes to a session."""

    owner: str
    """A name that no other store has."""
    pid: int
    started: str
    """When the process began, in a form that only its machine understands."""
    machine: str
    host: str
    since: float = 0.0


class SessionHeld(SessionBusy):
    """Another process writes to this session, and it is alive."""

    def __init__(self, session_id: SessionId, holder: Holder) -> None:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.since))
        super().__init__(
            f"session {session_id} is in use by process {holder.pid} on {holder.host} since "
            f"{since}; end it there, or go on with a fork of it"
        )
        self.holder = holder


def this_process() -> Holder:
    """Return a holder for a store of this process."""
    pid = os.getpid()
    return Holder(
        owner=os.urandom(8).hex(),
        pid=pid,
        started=_started(pid),
        machine=_machine(),
        host=socket.gethostname(),
    )


def is_dead(holder: Holder, *, me: Holder, silent: float) -> bool:
    """Say whether a holder that was last heard of `silent` seconds ago is gone."""
    if holder.machine == me.machine:
        return not _is_alive(holder.pid, holder.started)
    return silent > SILENCE


class Heart:
    """Gives signs of life on a thread of its own, from `start` until `stop`.

    It ends by itself when the object that beats is gone.
    """

    def __init__(self, beat: Callable[[], None], *, every: float = BEAT) -> None:
        self._beat = WeakMethod(beat)
        self._every = every
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; harmless when it has begun."""
        if self._thread is None:
            self._stopped = threading.Event()
            self._thread = threading.Thread(
                target=_keep_beating,
                args=(self._beat, self._stopped, self._every),
                name="clew-lease",
                daemon=True,
            )
            self._thread.start()

    def stop(self) -> None:
        """End, and wait for a beat that is under way."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopped.set()
            thread.join()


def _keep_beating(
    beat: WeakMethod[Callable[[], None]], stopped: threading.Event, every: float
) -> None:
    while not stopped.wait(every):
        method = beat()
        if method is None:
            return
        method()
        del method  # or this thread would keep alive what it waits to see gone


def _is_alive(pid: int, started: str) -> bool:
    if started:
        return _started(pid) == started
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _started(pid: int) -> str:
    """Return when a process began, in ticks since the machine did; empty when it is gone."""
    try:
        facts = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The command in parentheses may hold anything, so the fields are counted after it.
    fields = facts.rpartition(")")[2].split()
    is_zombie = fields[0] == "Z"
    return "" if is_zombie else fields[19]


@cache
def _machine() -> str:
    """Return what two processes share that can see each other's process ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        # Elsewhere the name must do; on Windows nobody can ask whether a process is there.
        return platform.node() if os.name == "posix" else os.urandom(8).hex()
