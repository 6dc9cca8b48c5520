"""The session of `clew -p`: in this process, or on a server."""

from argparse import Namespace
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.lowlevel

from clew.cli.environment import own_environment
from clew.cli.printer import Printer
from clew.core.events import PermissionRequest
from clew.core.permissions import Approval
from clew.sdk.client import SessionClient
from clew.sdk.launch import launch
from clew.sdk.session import InteractiveSession
from clew.sdk.spec import SessionSpec

_DENIED = "nobody can be asked: this prompt was sent by `clew -p`"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintSession:
    """An open session for print mode."""

    client: SessionClient
    model: str
    local: InteractiveSession | None = None
    """The same if it runs in this process: its agents end with the program."""
    start_answering: Callable[[], Callable[[], object]]
    """Have permission requests wait for an answer; returns what ends that."""
    drain: Callable[[], Awaitable[None]]
    """Wait until all events so far were printed."""


@asynccontextmanager
async def open_local(
    arguments: Namespace, spec: SessionSpec, printer: Printer
) -> AsyncGenerator[PrintSession, None]:
    """Open a session in this process; its events go to the printer."""
    environ = own_environment(arguments)
    async with launch(spec, on_envelope=printer, environ=environ) as launched:
        session = launched.session
        yield PrintSession(
            client=session,
            model=launched.choice.model,
            local=session,
            start_answering=lambda: session.on("permission_request", lambda _: None),
            drain=anyio.lowlevel.checkpoint,
        )


@asynccontextmanager
async def open_on_server(
    arguments: Namespace, printer: Printer
) -> AsyncGenerator[PrintSession, None]:
    """Open a session on a server; its events go to the printer."""
    from clew.cli.remote import connect, remote_choice  # noqa: PLC0415 - seldom needed
    from clew.sdk.remote.opened import open_remote  # noqa: PLC0415

    async with open_remote(connect(arguments), remote_choice(arguments)) as opened:
        now = await opened.client.snapshot()
        feed = _EventFeed(opened.client, printer, now.seq)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed.run)
            yield PrintSession(
                client=opened.client,
                model=now.model,
                start_answering=feed.start_answering,
                drain=feed.drain,
            )
            tasks.cancel_scope.cancel()


class _EventFeed:
    """Passes the events of a session on a server to the printer."""

    def __init__(self, client: SessionClient, printer: Printer, position: int) -> None:
        self._client, self._printer, self._position = client, printer, position
        self._moved = anyio.Event()
        self._is_answering = False

    def start_answering(self) -> Callable[[], object]:
        """Leave permission requests to the caller, until the returned function is called."""
        self._is_answering = True

        def stop() -> None:
            self._is_answering = False

        return stop

    async def drain(self) -> None:
        """Wait until the printer has all events so far."""
        newest = (await self._client.snapshot()).seq
        while self._position < newest:
            await self._moved.wait()

    async def run(self) -> None:
        """Read events until cancelled."""
        async with aclosing(self._client.events(after=self._position)) as events:
            async for envelope in events:
                self._printer(envelope)
                match envelope.event:
                    case PermissionRequest(request_id=request_id) if not self._is_answering:
                        await self._client.answer(request_id, Approval.NO, reply=_DENIED)
                    case _:
                        pass
                self._position = envelope.seq
                self._moved.set()
                self._moved = anyio.Event()
