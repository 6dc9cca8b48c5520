"""The WebSocket of a session: calls, commands and events over one connection.

Messages are JSON with a `type`. Every method of `SessionClient` can be called; commands report
their progress; envelopes follow after `subscribe`, or from the start if the address has `after`.
`stream_end` is the last message when the session is closed. What a client has started continues
when it leaves.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

import anyio
import msgspec
from aiohttp import WSMsgType, web
from anyio.abc import TaskGroup
from msgspec import Struct

from clew.core.errors import ClewError, EventsExpired
from clew.core.events import CompactionProgress, CompactionStarted, Event, ToolProgress, Warned
from clew.core.json_text import JsonDecoder
from clew.sdk.client import CommandOutcome
from clew.sdk.client_json import ErrorBody, call_method, encode_error
from clew.sdk.event_reader import EventReader, read_events
from clew.server.event_stream import BATCH, Streams
from clew.server.live_sessions import LiveSession

_MAX_CALLS = 64
_GOING_AWAY = 1001


class CallMessage(Struct, frozen=True, kw_only=True, tag="call"):
    """Calls a method of `SessionClient`; `result` or `error` answers with the same id."""

    id: int
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


class SubscribeMessage(Struct, frozen=True, kw_only=True, tag="subscribe"):
    """Sends the events after that number, or from now on, in place of an earlier subscription."""

    after: int | None = None
    answering: bool = True


class CommandRequest(Struct, frozen=True, kw_only=True, tag="command_request"):
    """Runs a command; `command_progress` and one `command_result` answer."""

    command: str
    """Its name, without the slash."""
    args: str = ""
    id: int | None = None
    """Repeated in the answers."""


class ResultMessage(Struct, frozen=True, kw_only=True, tag="result"):
    """The result of a call."""

    id: int
    value: msgspec.Raw


class ErrorMessage(Struct, frozen=True, kw_only=True, tag="error"):
    """The error of a call, or without an id: of a message or of the subscription."""

    error: ErrorBody
    id: int | None = None


class CommandProgress(Struct, frozen=True, kw_only=True, tag="command_progress"):
    """How far a command is."""

    command: str
    message: str
    percent: float | None = None
    id: int | None = None


class CommandEnded(Struct, frozen=True, kw_only=True, tag="command_result"):
    """The end of a command."""

    command: str
    success: bool
    result: CommandOutcome | None = None
    error: ErrorBody | None = None
    id: int | None = None


class StreamEnd(Struct, frozen=True, kw_only=True, tag="stream_end"):
    """The session was closed; all its events have been sent."""


ToServer: TypeAlias = CallMessage | SubscribeMessage | CommandRequest
_decode = JsonDecoder(ToServer).decode


async def serve_socket(
    request: web.Request, live: LiveSession, streams: Streams, *, after: int | None
) -> web.WebSocketResponse:
    """Serve one WebSocket until either side ends it."""
    socket = web.WebSocketResponse(
        heartbeat=streams.heartbeat, compress=False, max_msg_size=request.client_max_size
    )
    await socket.prepare(request)
    async with anyio.create_task_group() as watch:
        async with anyio.create_task_group() as calls:
            with streams.track(request):
                async with anyio.create_task_group() as tasks:
                    connection = SocketConnection(socket, live, streams, tasks=tasks, calls=calls)
                    if after is not None:
                        connection.subscribe(SubscribeMessage(after=after))
                    tasks.start_soon(connection.end_with_session)
                    await connection.serve()
                    tasks.cancel_scope.cancel()
            with anyio.move_on_after(1, shield=True):
                await socket.close(code=_GOING_AWAY)
            watch.start_soon(_cancel_with_session, live, calls.cancel_scope)
        watch.cancel_scope.cancel()
    return socket


async def _cancel_with_session(live: LiveSession, calls: anyio.CancelScope) -> None:
    """Cancel what a client has left behind when the session is closed."""
    await live.closed.wait()
    calls.cancel()


class SocketConnection:
    """One WebSocket to one session.

    Args:
        socket: The connection.
        live: The session.
        streams: The limits, and the count of what is sent.
        tasks: What ends with the connection.
        calls: What continues when the client leaves.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        live: LiveSession,
        streams: Streams,
        *,
        tasks: TaskGroup,
        calls: TaskGroup,
    ) -> None:
        self._socket = socket
        self._live = live
        self._streams = streams
        self._tasks = tasks
        self._calls = calls
        self._free_calls = anyio.Semaphore(_MAX_CALLS)
        self._subscription: anyio.CancelScope | None = None
        self._following = anyio.Lock()
        """Held while a subscription sends events."""
        self._pause: anyio.CancelScope | None = None
        """Where the subscription waits for events."""

    async def serve(self) -> None:
        """Carry out messages until the client leaves."""
        async for message in self._socket:
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                continue
            try:
                decoded = _decode(message.data)
            except msgspec.DecodeError as error:
                text = f"the message cannot be read: {error}"
                await self._send(ErrorMessage(error=_make_error("InvalidRequest", text)))
                continue
            match decoded:
                case SubscribeMessage():
                    self.subscribe(decoded)
                case CallMessage():
                    await self._start(self._call, decoded)
                case CommandRequest():
                    await self._start(self._run_command, decoded)

    async def end_with_session(self) -> None:
        """End the connection when the session is closed and its last events are sent.

        Without `stream_end`, the session continues elsewhere: another replica has taken it.
        """
        await self._live.closed.wait()
        if self._pause is not None:
            self._pause.cancel()
        async with self._following:
            if not self._live.is_lost:
                await self._send(StreamEnd())
        self._tasks.cancel_scope.cancel()

    def subscribe(self, wanted: SubscribeMessage) -> None:
        """Send events, in place of those of an earlier subscription."""
        if self._subscription is not None:
            self._subscription.cancel()
        self._subscription = anyio.CancelScope()
        self._tasks.start_soon(self._follow, wanted, self._subscription)

    async def _start(self, work: Callable[[Any], Awaitable[None]], message: ToServer) -> None:
        """Carry out a message in the background; too many of them wait here."""
        await self._free_calls.acquire()
        self._calls.start_soon(self._finish, work, message)

    async def _finish(self, work: Callable[[Any], Awaitable[None]], message: ToServer) -> None:
        try:
            await work(message)
        finally:
            self._free_calls.release()

    async def _call(self, message: CallMessage) -> None:
        try:
            value = await call_method(self._live.client, message.method, bytes(message.params))
        except ClewError as error:
            await self._send(ErrorMessage(id=message.id, error=encode_error(error)))
        else:
            await self._send(ResultMessage(id=message.id, value=msgspec.Raw(value)))

    async def _run_command(self, message: CommandRequest) -> None:
        name, line = message.command, f"/{message.command} {message.args}".strip()
        result = CommandEnded(command=name, success=False, id=message.id)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._report_progress, message)
            try:
                outcome = await self._live.client.execute(line)
            except ClewError as error:
                result = msgspec.structs.replace(result, error=encode_error(error))
            else:
                result = msgspec.structs.replace(result, success=outcome.success, result=outcome)
            tasks.cancel_scope.cancel()
        await self._send(result)

    async def _report_progress(self, message: CommandRequest) -> None:
        name, number = message.command, message.id
        with (
            read_events(self._live.client, answering=False) as reader,
            suppress(EventsExpired),
        ):
            while await reader.wait():
                for envelope in reader.read(BATCH):
                    if (told := describe_progress(envelope.event)) is not None:
                        text, percent = told
                        progress = CommandProgress(
                            command=name, message=text, percent=percent, id=number
                        )
                        await self._send(progress)

    async def _follow(self, wanted: SubscribeMessage, scope: anyio.CancelScope) -> None:
        """Send envelopes until the session is closed or another subscription begins."""
        live = self._live
        with scope:
            async with self._following:
                with read_events(
                    live.client, after=wanted.after, answering=wanted.answering
                ) as reader:
                    try:
                        while await self._wait(reader):
                            for envelope in reader.read(BATCH):
                                await self._write(live.envelopes.encode_message(envelope))
                                self._streams.sent += 1
                    except EventsExpired as error:
                        await self._send(ErrorMessage(error=encode_error(error)))

    async def _wait(self, reader: EventReader) -> bool:
        """Wait for events to send; False when the session is closed and all are sent."""
        if self._live.closed.is_set():
            return bool(reader.peek(1))
        with anyio.CancelScope() as self._pause:
            return await reader.wait()
        return bool(reader.peek(1))

    async def _send(self, message: Struct) -> None:
        await self._write(msgspec.json.encode(message))

    async def _write(self, data: bytes) -> None:
        """Send a message if the client is there; one that does not take it is disconnected."""
        if self._socket.closed:
            return
        try:
            with anyio.fail_after(self._streams.stall):
                await self._socket.send_frame(data, WSMsgType.TEXT)
        except (ConnectionError, TimeoutError):
            self._tasks.cancel_scope.cancel()


def describe_progress(event: Event) -> tuple[str, float | None] | None:
    """Return what an event says about a running command, and how far it is in percent."""
    match event:
        case CompactionStarted():
            return "compacting", None
        case CompactionProgress(stage=stage, done=done, total=total, background=False):
            return f"{stage} the summary", 100 * done / total if total else None
        case ToolProgress(line=line):
            return line, None
        case Warned(text):
            return text, None
        case _:
            return None


def _make_error(kind: str, message: str) -> ErrorBody:
    return ErrorBody(type=kind, message=message)
