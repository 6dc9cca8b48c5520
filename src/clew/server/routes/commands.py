"""Routes of commands: list them, read about one, run one."""

from typing import Any

import anyio
from aiohttp import web
from msgspec import Struct

from clew.core.errors import ClewError, UnknownCommand
from clew.core.text import one_line
from clew.sdk.client import CommandInfo, CommandOutcome
from clew.sdk.client_json import ErrorBody, encode_error
from clew.sdk.event_reader import EventReader, read_events
from clew.sdk.input_line import list_builtin_commands
from clew.server.access import record_session
from clew.server.access.headers import EVENT_STREAM
from clew.server.event_stream import EventResponse, ends_run
from clew.server.live_sessions import LiveSession
from clew.server.method_route import SESSION_ERRORS
from clew.server.route import JSON, AnyRoute, Call, Example, Route
from clew.server.service import Service

_SHOWN = 60


class CommandsParams(Struct, frozen=True, kw_only=True):
    """Whose commands are listed."""

    session_id: str | None = None
    """A session, which may have commands of its project; by default only the built-in ones."""


class CommandParams(CommandsParams, frozen=True, kw_only=True):
    """The command that a route is about."""

    name: str


class RunParams(Struct, frozen=True, kw_only=True):
    """The command to run."""

    name: str


class CommandCall(Struct, frozen=True, kw_only=True):
    """How a command is run."""

    session_id: str
    arguments: str = ""
    """As typed after its name."""


async def _list(call: Call[CommandsParams, Any]) -> list[CommandInfo]:
    return await _find_commands(call.service, call.params.session_id)


async def _describe(call: Call[CommandParams, Any]) -> CommandInfo:
    name = call.params.name
    for command in await _find_commands(call.service, call.params.session_id):
        if name in (command.name, f"{command.source}:{command.name}"):
            return command
    raise _unknown(name)


async def _find_commands(service: Service, session_id: str | None) -> list[CommandInfo]:
    if session_id is None:
        return list_builtin_commands()
    async with service.sessions.use(session_id) as live:
        return await live.client.commands()


async def _run(call: Call[RunParams, CommandCall]) -> CommandOutcome | web.StreamResponse:
    name, body = call.params.name, call.body
    record_session(call.request, body.session_id)
    if len(name.split()) != 1 or name != name.strip():
        raise _unknown(name)
    line = f"/{name} {body.arguments}".strip()
    async with call.service.sessions.use(body.session_id) as live:
        if not call.wants_stream:
            return await live.client.execute(line)
        return await _stream_command(call, live, line)


async def _stream_command(call: Call[Any, Any], live: LiveSession, line: str) -> web.StreamResponse:
    """Carry out a line, even if the client leaves; send its events, then its outcome or error."""
    streams = call.service.streams
    stream = EventResponse(call.request, streams)
    value: CommandOutcome | ErrorBody

    async def follow(reader: EventReader) -> None:
        with streams.track(call.request):
            await stream.follow(live, reader)

    await stream.start()
    with read_events(live.client, answering=False) as reader:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow, reader)
            try:
                value = await live.client.execute(line)
            except ClewError as error:
                value = encode_error(error)
            tasks.cancel_scope.cancel()
        with streams.track(call.request):
            await stream.send_pending(live, reader)
            if isinstance(value, CommandOutcome) and value.run_id is not None:
                await stream.follow(live, reader, is_last=ends_run(value.run_id))
            name = "result" if isinstance(value, CommandOutcome) else "stream_error"
            await stream.send_value(name, value)
    return stream.response


def _unknown(name: str) -> UnknownCommand:
    shown = one_line(name, _SHOWN)
    return UnknownCommand(f"there is no command /{shown}; GET /api/v1/commands lists them")


COMMAND_ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="GET",
        path="/commands",
        summary="List the commands.",
        handle=_list,
        params=CommandsParams,
        result=list[CommandInfo],
        errors=SESSION_ERRORS,
        example=Example(query={"session_id": "{session_id}"}),
    ),
    Route(
        method="GET",
        path="/commands/{name}",
        summary="Read about a command: its arguments, flags and subcommands.",
        handle=_describe,
        params=CommandParams,
        result=CommandInfo,
        errors=SESSION_ERRORS,
    ),
    Route(
        method="POST",
        path="/commands/{name}",
        summary="Run a command in a session; as an event stream, its progress comes first.",
        handle=_run,
        params=RunParams,
        body=CommandCall,
        result=CommandOutcome,
        media=(JSON, EVENT_STREAM),
        errors=SESSION_ERRORS,
        example=Example(body={"session_id": "{session_id}", "arguments": ""}),
    ),
)
