"""`Services`: what each user has open, made at the first request and given back when unused."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

from clew.server.access import User
from clew.server.access.users import OWNER_USER
from clew.server.service import Service

_LONGEST_CHECK = 30.0


class Services:
    """The services by user.

    Args:
        make: Makes the service of a user.
        idle_seconds: What was not used for so long is closed: sessions, and the stores of users.
        keep: Never give back a service, because others refer to it.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        make: Callable[[User], Service],
        *,
        idle_seconds: float,
        keep: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.by_user: dict[User, Service] = {}
        self._make = make
        self._idle_seconds = idle_seconds
        self._keep = keep
        self._clock = clock
        self._requests: Counter[User] = Counter()
        self._last_used: dict[User, float] = {}

    def find(self, user: User) -> Service:
        """Return what a user may use."""
        if (found := self.by_user.get(user)) is None:
            found = self.by_user[user] = self._make(user)
        self._last_used[user] = self._clock()
        return found

    @contextmanager
    def use(self, user: User) -> Iterator[Service]:
        """Use a service for a request; it stays open meanwhile."""
        service = self.find(user)
        self._requests[user] += 1
        try:
            yield service
        finally:
            self._last_used[user] = self._clock()
            self._requests[user] -= 1
            if not self._requests[user]:
                del self._requests[user]

    async def watch(self) -> None:
        """Close what is idle, now and then."""
        while True:
            await anyio.sleep(min(_LONGEST_CHECK, self._idle_seconds / 2))
            for user, service in list(self.by_user.items()):
                service.sessions.close_idle()
                if self._is_idle(user, service):
                    del self.by_user[user], self._last_used[user]
                    await service.sessions.stores.aclose()

    async def close_sessions(self) -> None:
        """Close every session."""
        for service in self.by_user.values():
            await service.sessions.close_all()

    async def aclose(self) -> None:
        """Close every store; the sessions must be closed."""
        for service in self.by_user.values():
            await service.sessions.stores.aclose()

    def _is_idle(self, user: User, service: Service) -> bool:
        if self._keep or user == OWNER_USER or self._requests[user]:
            return False
        is_old = self._last_used[user] < self._clock() - self._idle_seconds
        return is_old and not service.sessions.list_open()
