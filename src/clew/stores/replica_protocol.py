"""What replicas of a server need from a store: who they are, and who has which session."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from clew.core.ids import SessionId
from clew.stores.leases import OwnLease, ProcessKey


class ReplicaRow(Struct, frozen=True, kw_only=True):
    """A replica of a server."""

    replica: str
    """A random name."""
    address: str
    """Where the other replicas reach it, such as `http://10.0.0.5:8766`."""
    secret: str
    """What a request to it must show."""
    process: ProcessKey
    host: str
    users: tuple[str, ...] = ()
    """The users whose sessions it has opened."""
    silent_after: float
    """Seconds without a heartbeat after which it counts as dead."""
    silent: float = 0.0
    """Seconds since its last heartbeat."""
    is_dead: bool = False
    """As far as the process that asks can tell."""


class ReplicaStore(Protocol):
    """The replicas that share a store, and the leases of their sessions."""

    @property
    def process(self) -> ProcessKey:
        """This process."""
        ...

    async def beat(self, row: ReplicaRow) -> None:
        """Add a replica of this process, or note that it is alive."""
        ...

    async def list_replicas(self) -> list[ReplicaRow]:
        """Return all replicas, dead ones too."""
        ...

    async def remove(self, replica: str) -> None:
        """Forget a replica."""
        ...

    async def find_holder(self, session_id: SessionId) -> ProcessKey | None:
        """Return the process that has a session's lease; None if it is free or its holder dead."""
        ...

    async def list_held(self, process: ProcessKey) -> Sequence[SessionId]:
        """Return the sessions of people whose leases a process has, or had when it died."""
        ...

    async def list_own(self) -> dict[SessionId, int]:
        """Return the sessions whose leases this store has, with the epochs."""
        ...

    def find_own(self, session_id: SessionId) -> OwnLease | None:
        """Return a lease that this store took; it may have lost it since."""
        ...

    async def leave(self, session_id: SessionId) -> None:
        """Let others take over a session at once, as if this process had died."""
        ...
