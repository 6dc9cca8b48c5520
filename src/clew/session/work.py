"""One thing at a time, and a way to end it."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from clew.core.errors import AbortError, AlreadyRunning


class Work:
    """Lets one task at a time do something that can be aborted from outside."""

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None

    @property
    def running(self) -> bool:
        """True while something is under way."""
        return self._scope is not None

    def abort(self) -> None:
        """Cancel what is under way; does nothing when nothing is."""
        if self._scope is not None:
            self._scope.cancel()

    @contextmanager
    def begin(self) -> Iterator[None]:
        """Do the work of the `with` block.

        Raises:
            AlreadyRunning: Something else is under way.
            AbortError: `abort` was called meanwhile.
        """
        if self._scope is not None:
            raise AlreadyRunning("the session is busy with another run; wait for it or abort it")
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                yield
            finally:
                self._scope = None
        if scope.cancelled_caught:
            raise AbortError("the run was aborted")
