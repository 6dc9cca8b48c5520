"""Routes of the server itself: health, metrics, the OpenAPI document, models, agents."""

from pathlib import Path
from typing import Annotated, Any, Literal

from aiohttp import web
from anyio import to_thread
from msgspec import Meta, Struct

from clew._version import __version__
from clew.core.errors import StoreError
from clew.sdk.model_list import ModelInfo, list_models
from clew.sdk.project_rosters import open_rosters
from clew.sdk.roster import RosterEntry
from clew.sdk.session_store import VARIABLE
from clew.server.metrics import Metrics
from clew.server.route import JSON, AnyRoute, Call, Example, NoFields, Route

PLAIN = "text/plain"


class Health(Struct, frozen=True, kw_only=True):
    """That the server runs."""

    status: Literal["ok"] = "ok"
    version: str = __version__


class RosterParams(Struct, frozen=True, kw_only=True):
    """Which agents are listed."""

    ended: Annotated[int, Meta(ge=0, le=1_000)] = 20
    """How many of those that have ended."""


async def _health(_: Call[NoFields, Any]) -> Health:
    return Health()


async def _metrics(call: Call[NoFields, Any]) -> web.Response:
    service = call.service
    sessions = service.sessions.list_open()
    executing = sum(live.client.is_executing() for live in sessions)
    text = service.metrics.write(
        {
            "clew_sessions_open": ("Sessions that are open.", len(sessions)),
            "clew_sessions_executing": ("Sessions that work on a prompt.", executing),
            "clew_streams_open": ("Event streams and WebSockets.", len(service.streams)),
            "clew_events_sent_total": ("Events that were sent to clients.", service.streams.sent),
        }
    )
    return web.Response(body=text.encode(), headers={"Content-Type": Metrics.content_type})


async def _openapi(call: Call[NoFields, Any]) -> web.Response:
    return web.Response(body=call.service.document(), content_type=JSON)


async def _models(call: Call[NoFields, Any]) -> list[ModelInfo]:
    options = call.service.options
    return await to_thread.run_sync(list_models, Path(options.defaults.cwd), options.environ)


async def _roster(call: Call[RosterParams, Any]) -> list[RosterEntry]:
    options = call.service.options
    environ = dict(options.environ)
    if options.defaults.store:
        environ[VARIABLE] = options.defaults.store
    async with open_rosters(Path(options.defaults.cwd), environ=environ) as rosters:
        found = await rosters.list(ended=call.params.ended)
        if rosters.problems:
            raise StoreError(rosters.problems[0])
        return found


SERVER_ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="GET",
        path="/health",
        summary="Say that the server runs.",
        handle=_health,
        params=NoFields,
        result=Health,
        open_to_all=True,
    ),
    Route(
        method="GET",
        path="/metrics",
        summary="Read the numbers of the server in the format of Prometheus.",
        handle=_metrics,
        params=NoFields,
        result=str,
        media=(PLAIN,),
    ),
    Route(
        method="GET",
        path="/openapi.json",
        summary="Read this document.",
        handle=_openapi,
        params=NoFields,
        result=dict[str, Any],
    ),
    Route(
        method="GET",
        path="/models",
        summary="List the models of all providers that are set up.",
        handle=_models,
        params=NoFields,
        result=list[ModelInfo],
        errors=(400,),
    ),
    Route(
        method="GET",
        path="/roster",
        summary="List the agents of all sessions of the folder.",
        handle=_roster,
        params=RosterParams,
        result=list[RosterEntry],
        errors=(503,),
        example=Example(query={"ended": "5"}),
    ),
)
