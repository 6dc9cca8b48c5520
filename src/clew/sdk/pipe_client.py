"""A `SessionClient` over a pipe of JSON messages.

The pipe here is in memory; every value that passes is encoded to bytes, as it would be on a
socket. It shows that nothing but JSON is needed to use a session, and serves programs that want
a session in another thread or task.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import count
from math import inf
from typing import TypeAlias, TypeVar

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec import Struct

from clew.core.errors import ClewError, SessionClosed
from clew.core.events import Envelope
from clew.core.json_text import JsonDecoder, decode_json
from clew.sdk.client import (
    SessionClient,
)
from clew.sdk.client_json import (
    ErrorBody,
    call_method,
    decode_error,
    encode_error,
)
from clew.sdk.session_calls import SessionCalls

_T = TypeVar("_T")


class _Request(Struct, frozen=True, kw_only=True, tag="request"):
    id: int
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Subscribe(Struct, frozen=True, kw_only=True, tag="subscribe"):
    id: int
    after: int | None = None
    answering: bool = True


class _Unsubscribe(Struct, frozen=True, kw_only=True, tag="unsubscribe"):
    id: int


class _Result(Struct, frozen=True, kw_only=True, tag="result"):
    id: int
    value: msgspec.Raw


class _Failure(Struct, frozen=True, kw_only=True, tag="failure"):
    id: int
    error: ErrorBody


class _Delivery(Struct, frozen=True, kw_only=True, tag="event"):
    id: int
    envelope: Envelope


class _End(Struct, frozen=True, kw_only=True, tag="end"):
    id: int


_ToServer: TypeAlias = _Request | _Subscribe | _Unsubscribe
_ToClient: TypeAlias = _Result | _Failure | _Delivery | _End
_decode_request = JsonDecoder(_ToServer).decode
_decode_answer = JsonDecoder(_ToClient).decode
_Send: TypeAlias = Callable[[bytes], None]


async def serve(
    client: SessionClient, receive: MemoryObjectReceiveStream[bytes], send: _Send
) -> None:
    """Answer the messages of one pipe until it is closed."""
    streams: dict[int, anyio.CancelScope] = {}
    async with anyio.create_task_group() as tasks:
        async for message in receive:
            match _decode_request(message):
                case _Request() as request:
                    tasks.start_soon(_call, client, request, send)
                case _Subscribe(id=stream_id, after=after, answering=answering):
                    # The position is taken here: what happens from now on is not missed.
                    events = client.events(after=after, answering=answering)
                    scope = streams[stream_id] = anyio.CancelScope()
                    tasks.start_soon(_stream, events, stream_id, scope, send)
                case _Unsubscribe(id=stream_id):
                    if stream_id in streams:
                        streams.pop(stream_id).cancel()
        tasks.cancel_scope.cancel()


async def _call(client: SessionClient, request: _Request, send: _Send) -> None:
    try:
        value = await call_method(client, request.method, bytes(request.params))
    except ClewError as error:
        send(msgspec.json.encode(_Failure(id=request.id, error=encode_error(error))))
    else:
        send(msgspec.json.encode(_Result(id=request.id, value=msgspec.Raw(value))))


async def _stream(
    events: AsyncGenerator[Envelope, None], stream_id: int, scope: anyio.CancelScope, send: _Send
) -> None:
    with scope:
        try:
            async for envelope in events:
                send(msgspec.json.encode(_Delivery(id=stream_id, envelope=envelope)))
        except ClewError as error:
            send(msgspec.json.encode(_Failure(id=stream_id, error=encode_error(error))))
        else:
            send(msgspec.json.encode(_End(id=stream_id)))
        finally:
            with anyio.CancelScope(shield=True):
                await events.aclose()


class PipeTransport:
    """The client's end of a pipe; implements `Transport`. Made by `connect`."""

    def __init__(self, send: _Send) -> None:
        self._send = send
        self._ids = count(1)
        self._waiting: dict[int, MemoryObjectSendStream[_ToClient]] = {}
        self._closed = False

    async def call(self, method: str, params: Struct, result: type[_T]) -> _T:
        """Call a method and wait for its result."""
        call_id, answers = self._open()
        try:
            self._request(call_id, method, params)
            async for answer in answers:
                match answer:
                    case _Result(value=value):
                        return decode_json(bytes(value), type=result)
                    case _Failure(error=error):
                        raise decode_error(error)
                    case _:
                        pass
            raise SessionClosed("the pipe was closed before the session answered")
        finally:
            self._close(call_id, answers)

    def send(self, method: str, params: Struct) -> None:
        """Call a method without waiting for it."""
        self._request(next(self._ids), method, params)

    def events(self, *, after: int | None, answering: bool) -> AsyncGenerator[Envelope, None]:
        """Yield every event after that sequence number, or from now on."""
        stream_id, answers = self._open()
        subscription = _Subscribe(id=stream_id, after=after, answering=answering)
        self._send(msgspec.json.encode(subscription))
        return self._read(stream_id, answers)

    def deliver(self, message: bytes) -> None:
        """Take a message from the server."""
        answer = _decode_answer(message)
        waiting = self._waiting.get(answer.id)
        if waiting is not None:
            waiting.send_nowait(answer)

    def close(self) -> None:
        """End everything that waits for an answer."""
        self._closed = True
        for waiting in self._waiting.values():
            waiting.close()

    def _open(self) -> tuple[int, MemoryObjectReceiveStream[_ToClient]]:
        if self._closed:
            raise SessionClosed("the pipe to the session is closed")
        call_id = next(self._ids)
        send, receive = anyio.create_memory_object_stream[_ToClient](inf)
        self._waiting[call_id] = send
        return call_id, receive

    def _close(self, call_id: int, answers: MemoryObjectReceiveStream[_ToClient]) -> None:
        self._waiting.pop(call_id).close()
        answers.close()

    def _request(self, call_id: int, method: str, params: Struct) -> None:
        body = msgspec.Raw(msgspec.json.encode(params))
        self._send(msgspec.json.encode(_Request(id=call_id, method=method, params=body)))

    async def _read(
        self, stream_id: int, answers: MemoryObjectReceiveStream[_ToClient]
    ) -> AsyncGenerator[Envelope, None]:
        try:
            async for answer in answers:
                match answer:
                    case _Delivery(envelope=envelope):
                        yield envelope
                    case _Failure(error=error):
                        raise decode_error(error)
                    case _:
                        return
        finally:
            self._close(stream_id, answers)
            if not self._closed:
                self._send(msgspec.json.encode(_Unsubscribe(id=stream_id)))


@asynccontextmanager
async def connect(client: SessionClient) -> AsyncGenerator[SessionCalls, None]:
    """Reach a session through a pipe: everything that passes is encoded to JSON bytes."""
    to_server, requests = anyio.create_memory_object_stream[bytes](inf)
    to_client, answers = anyio.create_memory_object_stream[bytes](inf)
    transport = PipeTransport(_sender(to_server))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, client, requests, _sender(to_client))
        tasks.start_soon(_deliver_all, transport, answers)
        try:
            yield SessionCalls(transport)
        finally:
            transport.close()
            tasks.cancel_scope.cancel()
            for stream in (to_server, requests, to_client, answers):
                stream.close()


def _sender(stream: MemoryObjectSendStream[bytes]) -> _Send:
    def send(message: bytes) -> None:
        try:
            stream.send_nowait(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # The other end is gone; `close` fails the pending requests.
            return

    return send


async def _deliver_all(transport: PipeTransport, answers: MemoryObjectReceiveStream[bytes]) -> None:
    async for message in answers:
        transport.deliver(message)
