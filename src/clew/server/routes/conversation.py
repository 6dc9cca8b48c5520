"""Routes of a conversation: prompts, lines, answers, events, and what the session is set to."""

import re
from typing import Any

from aiohttp import web
from msgspec import Struct

from clew.core.events import Envelope
from clew.core.ids import RunId
from clew.sdk.client import PromptInput
from clew.sdk.event_reader import read_events
from clew.server.access.headers import EVENT_STREAM
from clew.server.errors import RequestError
from clew.server.event_stream import EventResponse, ends_run
from clew.server.method_route import SESSION_ERRORS, SessionPath, make_method_route
from clew.server.route import JSON, AnyRoute, Call, Example, Route
from clew.server.websocket import serve_socket

_S = "/sessions/{session_id}"
_SEQUENCE_NUMBER = re.compile(r"[0-9]{1,19}")


class Accepted(Struct, frozen=True, kw_only=True):
    """A prompt that was accepted; the events of the run have its id."""

    run_id: RunId


class Cancelled(Struct, frozen=True, kw_only=True):
    """Whether a prompt was waiting."""

    cancelled: bool


class EventsParams(SessionPath, frozen=True, kw_only=True):
    """Where a stream of events begins."""

    after: int | None = None
    """A sequence number; by default, only new events are sent. The header `Last-Event-ID` counts
    before it."""
    answering: bool = True
    """False for a client that only watches."""


class SocketParams(SessionPath, frozen=True, kw_only=True):
    """Where the events of a WebSocket begin."""

    after: int | None = None
    """A sequence number; without it, events are sent when the client subscribes."""


async def _submit(call: Call[SessionPath, PromptInput]) -> object:
    async with call.service.sessions.use(call.params.session_id) as live:
        if not call.wants_stream:
            return Accepted(run_id=await live.client.submit(call.body))
        with read_events(live.client) as reader:
            run_id = await live.client.submit(call.body)
            stream = EventResponse(call.request, call.service.streams)
            with call.service.streams.track(call.request):
                await stream.start()
                await stream.follow(live, reader, is_last=ends_run(run_id))
        return stream.response


async def _cancel_queue(call: Call[SessionPath, Any]) -> Cancelled:
    async with call.service.sessions.use(call.params.session_id) as live:
        return Cancelled(cancelled=await live.client.cancel_queue())


async def _follow(call: Call[EventsParams, Any]) -> web.StreamResponse:
    after = _find_start(call)
    async with call.service.sessions.use(call.params.session_id) as live:
        with read_events(live.client, after=after, answering=call.params.answering) as reader:
            stream = EventResponse(call.request, call.service.streams)
            reader.check()
            with call.service.streams.track(call.request):
                await stream.start()
                await stream.follow(live, reader)
        return stream.response


async def _serve_socket(call: Call[SocketParams, Any]) -> web.StreamResponse:
    async with call.service.sessions.use(call.params.session_id) as live:
        if call.request.headers.get("Upgrade", "").lower() != "websocket":
            raise RequestError(426, "this address speaks WebSocket; GET …/events has the events")
        return await serve_socket(call.request, live, call.service.streams, after=call.params.after)


def _find_start(call: Call[EventsParams, Any]) -> int | None:
    last = call.request.headers.get("Last-Event-ID")
    if not last:
        return call.params.after
    if not _SEQUENCE_NUMBER.fullmatch(last):
        raise RequestError(400, "the header Last-Event-ID is not a sequence number of an event")
    return int(last)


CONVERSATION_ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="POST",
        path=f"{_S}/prompts",
        summary="Submit a prompt; as an event stream, follow its run to the end.",
        handle=_submit,
        params=SessionPath,
        body=PromptInput,
        result=Accepted,
        status=202,
        media=(JSON, EVENT_STREAM),
        errors=SESSION_ERRORS,
        example=Example(body={"text": "What is in this folder?"}),
    ),
    make_method_route(
        "execute",
        summary="Carry out a line as typed: a prompt, a /command, or ! and a shell command.",
        example=Example(body={"line": "/context"}),
    ),
    make_method_route("abort", summary="Abort the run, and cancel the prompt that waits."),
    Route(
        method="DELETE",
        path=f"{_S}/queue",
        summary="Cancel the prompt that waits.",
        handle=_cancel_queue,
        params=SessionPath,
        result=Cancelled,
        errors=SESSION_ERRORS,
    ),
    make_method_route(
        "answer",
        summary="Answer a permission request; the first answer counts.",
        example=Example(body={"request_id": "{request_id}", "approval": "once"}),
    ),
    make_method_route(
        "set_model",
        summary="Continue with another model: NAME, or PROVIDER/NAME.",
        example=Example(body={"name": "{model}"}),
    ),
    make_method_route(
        "set_mode",
        summary="Change the permission mode.",
        example=Example(body={"mode": "plan"}),
    ),
    make_method_route(
        "set_name",
        summary="Name the session.",
        example=Example(body={"name": "parser"}),
    ),
    make_method_route(
        "set_language",
        summary="Have the model answer in another language; empty for any.",
        example=Example(body={"language": "French"}),
    ),
    make_method_route(
        "complete_path",
        summary="Complete what was typed after an @ in a prompt.",
        example=Example(query={"fragment": "re", "limit": "5"}),
    ),
    make_method_route(
        "history",
        summary="Read the history, a page at a time.",
        example=Example(query={"after": "0", "limit": "20"}),
    ),
    Route(
        method="GET",
        path=f"{_S}/events",
        summary="Follow the events of a session, from now on or after a sequence number.",
        handle=_follow,
        params=EventsParams,
        result=Envelope,
        media=(EVENT_STREAM,),
        errors=(*SESSION_ERRORS, 410),
        example=Example(query={"after": "{seq}"}),
    ),
    Route(
        method="GET",
        path=f"{_S}/socket",
        summary="Open a WebSocket: calls, commands and events over one connection.",
        handle=_serve_socket,
        params=SocketParams,
        status=101,
        errors=(*SESSION_ERRORS, 426),
    ),
)
