"""The session of `clew -p`: in this process, or on a server."""

from argparse import Namespace
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
import anyio.lowlevel

from clew.cli.environment import own_environment
from clew.cli.printer import EventPrinter
from clew.core.errors import ClewError, EventsExpired, SessionError
from clew.core.events import (
    Event,
    PermissionRequest,
    RunCompleted,
    RunFailed,
    RunInterrupted,
)
from clew.core.permissions import Approval
from clew.sdk.client import SessionClient
from clew.sdk.host import Host
from clew.sdk.launch import launch
from clew.sdk.session import InteractiveSession
from clew.sdk.session_spec import SessionSpec

_DENIED = "no one can answer: `clew -p` sent this prompt"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintSession:
    """An open session for print mode."""

    client: SessionClient
    model: str
    local: InteractiveSession | None = None
    """The same if it runs in this process: its agents end with the program."""
    start_answering: Callable[[], Callable[[], object]]
    """Have permission requests wait for an answer; returns what ends that."""
    begin: Callable[[], Awaitable[None]]
    """Call it before a prompt."""
    drain: Callable[[], Awaitable[None]]
    """Wait until all events so far were printed."""


@asynccontextmanager
async def open_in_process(
    arguments: Namespace, spec: SessionSpec, printer: EventPrinter
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
            begin=anyio.lowlevel.checkpoint,
            drain=anyio.lowlevel.checkpoint,
        )


@asynccontextmanager
async def open_on_server(
    arguments: Namespace, printer: EventPrinter
) -> AsyncGenerator[PrintSession, None]:
    """Open a session on a server; its events go to the printer."""
    from clew.cli.remote import connect, remote_choice  # noqa: PLC0415 - seldom needed
    from clew.sdk.remote.opened import open_remote  # noqa: PLC0415

    async with open_remote(connect(arguments), remote_choice(arguments)) as opened:
        now = await opened.client.snapshot()
        feed = _EventFeed(opened.client, printer, now.seq)
        async with Host() as host:
            host.start_soon(feed.run)
            yield PrintSession(
                client=opened.client,
                model=now.model,
                start_answering=feed.start_answering,
                begin=feed.begin,
                drain=feed.drain,
            )


class _EventFeed:
    """Passes the events of a session on a server to the printer.

    Where no client answers questions of the prompt, it denies them, as a local session does.
    """

    def __init__(self, client: SessionClient, printer: EventPrinter, position: int) -> None:
        self._client, self._printer, self._position = client, printer, position
        self._moved = anyio.Event()
        self._has_ended = False
        self._is_answering = False
        self._is_own_run = False

    def start_answering(self) -> Callable[[], object]:
        """Leave permission requests to the caller, until the returned function is called."""
        self._is_answering = True

        def stop() -> None:
            self._is_answering = False

        return stop

    async def begin(self) -> None:
        """Start a prompt: the next run is its run, after the one of another client."""
        self._is_own_run = not (await self._client.snapshot()).executing

    async def drain(self) -> None:
        """Wait until the printer has all events so far, or none will come."""
        if self._has_ended:
            return
        with suppress(ClewError):
            newest = (await self._client.snapshot()).seq
            while self._position < newest and not self._has_ended:
                await self._moved.wait()
        self._is_own_run = False

    async def run(self) -> None:
        """Read events until the session is closed or out of reach; the prompt reports why."""
        try:
            while True:
                with suppress(EventsExpired):
                    await self._read()
                    return
                self._position = (await self._client.snapshot()).seq
        except ClewError:
            return
        finally:
            self._has_ended = True
            self._moved.set()

    async def _read(self) -> None:
        async with aclosing(self._client.events(after=self._position)) as events:
            async for envelope in events:
                self._printer(envelope)
                await self._apply(envelope.event)
                self._position = envelope.seq
                self._moved.set()
                self._moved = anyio.Event()

    async def _apply(self, event: Event) -> None:
        if isinstance(event, RunCompleted | RunInterrupted | RunFailed):
            self._is_own_run = True
        elif isinstance(event, PermissionRequest) and self._is_own_run and not self._is_answering:
            # Another client may have answered first.
            with suppress(SessionError):
                await self._client.answer(event.request_id, Approval.NO, reply=_DENIED)
