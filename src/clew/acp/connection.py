"""JSON-RPC 2.0 over lines: requests of both sides, notifications and their errors.

Every request runs in a task of its own, so that a prompt does not hold up its cancellation. What
is sent keeps its order.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from math import inf
from typing import Any, TypeAlias, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import UNSET, Raw, Struct, UnsetType

from clew.acp.messages import CancelRequestParams
from clew.core.errors import ClewError
from clew.core.json_text import JsonDecoder, decode_json
from clew.core.text import make_encodable
from clew.sdk.stdio import MAX_LINE, Write

logger = logging.getLogger(__name__)

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
RESOURCE_NOT_FOUND = -32002

_T = TypeVar("_T")
_RequestId: TypeAlias = int | str | None


class RpcError(Exception):
    """A request failed; the other side gets the code and the message."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Reply(Struct, frozen=True):
    """The result of a request, and what to do once it is sent."""

    result: Struct
    then: Callable[[], None] | None = None


Handler: TypeAlias = Callable[[str, Raw], Awaitable[Reply | None]]
"""Carries out a method with its parameters; returns None for a notification."""


class _ErrorBody(Struct, frozen=True, omit_defaults=True):
    code: int
    message: str
    data: Any = None


class _Incoming(Struct, frozen=True):
    """A request, a notification or a response, whatever it is."""

    method: str | None = None
    id: _RequestId | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw | UnsetType = UNSET
    error: _ErrorBody | None = None


class _Request(Struct, frozen=True):
    jsonrpc: str
    id: int
    method: str
    params: Struct


class _Notification(Struct, frozen=True):
    jsonrpc: str
    method: str
    params: Struct


class _Result(Struct, frozen=True):
    jsonrpc: str
    id: _RequestId
    result: Struct


class _Failure(Struct, frozen=True):
    jsonrpc: str
    id: _RequestId
    error: _ErrorBody


class _Waiting:
    """A request that was sent and has no response yet."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.response: _Incoming | None = None


_decode = JsonDecoder(_Incoming).decode
_encode = msgspec.json.Encoder().encode


class Connection:
    """One end of a connection.

    Args:
        lines: The lines of the other side; None for one that is too long.
        write: Writes lines to the other side.
    """

    def __init__(self, lines: AsyncIterator[bytes | None], write: Write) -> None:
        self._lines = lines
        self._write = write
        self._ids = count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._running: dict[_RequestId, anyio.CancelScope] = {}
        self._outgoing, self._queue = anyio.create_memory_object_stream[Struct](inf)
        self._reading = anyio.CancelScope()
        self._closed = False

    async def serve(self, handler: Handler) -> None:
        """Answer requests until the other side closes the connection, or until `stop`."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_all)
            with self._reading:
                async for line in self._lines:
                    self._receive(line, handler, tasks)
            # Answers that are ready still go out; what waits for the other side does not.
            self._close()
            for scope in list(self._running.values()):
                scope.cancel()

    def stop(self) -> None:
        """Read no more requests, and cancel those that run."""
        self._reading.cancel()

    def notify(self, method: str, params: Struct) -> None:
        """Send a notification."""
        self._send(_Notification("2.0", method, params))

    async def request(self, method: str, params: Struct, result: type[_T]) -> _T:
        """Send a request and wait for its result.

        Raises:
            RpcError: The other side refuses, answers nonsense, or is gone.
        """
        if self._closed:
            raise RpcError(INTERNAL_ERROR, "the connection is closed")
        number, waiting = next(self._ids), _Waiting()
        self._waiting[number] = waiting
        self._send(_Request("2.0", number, method, params))
        try:
            await waiting.done.wait()
        finally:
            self._waiting.pop(number, None)
            if waiting.response is None and not self._closed:
                self.notify("$/cancel_request", CancelRequestParams(number))
        return _read_response(waiting.response, result)

    def _send(self, message: Struct) -> None:
        if not self._closed:
            self._outgoing.send_nowait(message)

    def _close(self) -> None:
        self._closed = True
        self._outgoing.close()
        for waiting in self._waiting.values():
            waiting.done.set()

    async def _send_all(self) -> None:
        """Write what was sent; messages that piled up are written together."""
        try:
            with self._queue:
                async for message in self._queue:
                    batch = [_encode_line(message)]
                    while self._queue.statistics().current_buffer_used:
                        batch.append(_encode_line(self._queue.receive_nowait()))
                    await self._write(b"".join(batch))
        except OSError as error:
            logger.info("the editor has closed its end: %s", error)
            self._close()
            self.stop()

    def _receive(self, line: bytes | None, handler: Handler, tasks: TaskGroup) -> None:
        if line is None:
            text = f"a message has more than {MAX_LINE:,} bytes"
            self._fail(None, RpcError(INVALID_REQUEST, text))
            return
        try:
            message = _decode(line)
        except msgspec.ValidationError as error:
            self._fail(None, RpcError(INVALID_REQUEST, f"not a JSON-RPC message: {error}"))
            return
        except msgspec.DecodeError as error:
            self._fail(None, RpcError(PARSE_ERROR, f"not JSON: {error}"))
            return
        if message.method == "$/cancel_request":
            self._cancel(message.params)
        elif message.method is not None:
            tasks.start_soon(self._run, handler, message)
        elif isinstance(message.id, int) and message.id in self._waiting:
            waiting = self._waiting[message.id]
            waiting.response = message
            waiting.done.set()
        elif message.result is UNSET and message.error is None:
            self._fail(None, RpcError(INVALID_REQUEST, "a message needs a method or a result"))

    def _cancel(self, params: Raw) -> None:
        try:
            number = read_params(params, CancelRequestParams).request_id
        except RpcError:
            return
        if number in self._running:
            self._running[number].cancel()

    async def _run(self, handler: Handler, message: _Incoming) -> None:
        """Carry out a request or a notification, and send what comes of it."""
        if message.id is UNSET:
            try:
                await handler(message.method or "", message.params)
            except (RpcError, ClewError) as error:
                logger.warning("%s failed: %s", message.method, error)
            except Exception:
                logger.exception("%s failed", message.method)
            return
        number = message.id
        with anyio.CancelScope() as scope:
            self._running[number] = scope
            try:
                await self._answer(handler, number, message)
            finally:
                if self._running.get(number) is scope:
                    del self._running[number]
        if scope.cancelled_caught:
            self._fail(number, RpcError(REQUEST_CANCELLED, "the request was cancelled"))

    async def _answer(self, handler: Handler, number: _RequestId, message: _Incoming) -> None:
        try:
            reply = await handler(message.method or "", message.params)
        except RpcError as error:
            self._fail(number, error)
        except ClewError as error:
            self._fail(number, explain(error))
        except Exception as error:
            logger.exception("%s failed", message.method)
            self._fail(number, RpcError(INTERNAL_ERROR, f"{type(error).__name__}: {error}"))
        else:
            if reply is None:
                text = f"{message.method} is a notification: send it without an id"
                self._fail(number, RpcError(INVALID_REQUEST, text))
                return
            self._send(_Result("2.0", number, reply.result))
            if reply.then is not None:
                reply.then()

    def _fail(self, number: _RequestId, error: RpcError) -> None:
        body = _ErrorBody(code=error.code, message=str(error), data=error.data)
        self._send(_Failure("2.0", number, body))


def read_params(params: Raw, kind: type[_T]) -> _T:
    """Decode the parameters of a method.

    Raises:
        RpcError: They are wrong.
    """
    try:
        return decode_json(bytes(params), type=kind)
    except msgspec.DecodeError as error:
        raise RpcError(INVALID_PARAMS, f"wrong parameters: {error}") from error


def explain(error: ClewError) -> RpcError:
    """Return the error of a session as one that an editor shows."""
    return RpcError(INTERNAL_ERROR, str(error), {"type": type(error).__name__})


def _read_response(response: _Incoming | None, result: type[_T]) -> _T:
    if response is None:
        raise RpcError(INTERNAL_ERROR, "the editor closed the connection")
    if response.error is not None:
        raise RpcError(response.error.code, response.error.message, response.error.data)
    body = Raw(b"{}") if response.result is UNSET else response.result
    return read_params(body, result)


def _encode_line(message: Struct) -> bytes:
    try:
        return _encode(message) + b"\n"
    except UnicodeEncodeError:
        # Lone surrogates, as in the name of a file that is not UTF-8.
        return _encode(make_encodable(msgspec.to_builtins(message))) + b"\n"
