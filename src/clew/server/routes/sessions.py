"""Routes of sessions as a whole: list, search, create, open, fork, export, close, delete."""

from typing import Annotated, Any, Literal

from aiohttp import web
from anyio import to_thread
from msgspec import Meta, Struct

from clew.core.errors import SessionNotFound
from clew.core.ids import SessionId
from clew.sdk.client import SessionSnapshot
from clew.sdk.server_values import (
    ForkSession,
    FoundSession,
    SessionPage,
    SessionRequest,
    SessionSummary,
)
from clew.sdk.session_admin import (
    SearchHit,
    StoredSession,
    delete_sessions,
    fork_session,
    load_transcript,
)
from clew.server.errors import RequestError
from clew.server.method_route import SESSION_ERRORS, SessionPath
from clew.server.route import AnyRoute, Call, Example, NoFields, Route
from clew.server.service import Service

JSON_LINES = "application/x-ndjson"
MARKDOWN = "text/markdown"
_Limit = Annotated[int, Meta(ge=1, le=1_000)]


class ListParams(Struct, frozen=True, kw_only=True):
    """Which sessions are listed."""

    limit: _Limit = 50
    after: str | None = None
    """The last session of the page before."""
    folder: str | None = None
    """Only sessions of this folder."""


class SearchParams(Struct, frozen=True, kw_only=True):
    """What is searched for."""

    q: Annotated[str, Meta(min_length=1)]
    """Words, or starts of words."""
    limit: _Limit = 20


class DeleteParams(SessionPath, frozen=True, kw_only=True):
    """Which session is deleted."""

    force: bool = False
    """Also while clients use it."""


class ExportParams(SessionPath, frozen=True, kw_only=True):
    """How a session is exported."""

    format: Literal["markdown", "json"] = "markdown"
    """`json` has everything, one entry a line; `clew sessions import` reads it."""


async def _list(call: Call[ListParams, Any]) -> SessionPage:
    params, stores = call.params, call.service.sessions.stores
    folder = stores.check_folder(params.folder) if params.folder is not None else None
    found = await stores.list_sessions(folder=folder)
    start = 0
    if params.after is not None:
        ids = [record.id for record in found]
        if params.after not in ids:
            raise SessionNotFound("there is no session with the id in `after`; list from the start")
        start = ids.index(SessionId(params.after)) + 1
    page = found[start : start + params.limit]
    more = len(found) > start + params.limit
    return SessionPage(
        sessions=tuple(_summarize(record, call.service) for record in page),
        next=page[-1].id if more else None,
    )


async def _search(call: Call[SearchParams, Any]) -> list[FoundSession]:
    hits = await call.service.sessions.stores.search(call.params.q, limit=call.params.limit)
    return [_describe_hit(hit, call.service) for hit in hits]


async def _create(call: Call[NoFields, SessionRequest]) -> SessionSnapshot:
    async with call.service.sessions.create(call.body) as live:
        return await live.client.snapshot()


async def _open(call: Call[SessionPath, Any]) -> SessionSnapshot:
    async with call.service.sessions.use(call.params.session_id) as live:
        return await live.client.snapshot()


async def _close(call: Call[SessionPath, Any]) -> None:
    if not await call.service.sessions.close(call.params.session_id):
        await call.service.sessions.stores.find(call.params.session_id)


async def _fork(call: Call[SessionPath, ForkSession]) -> SessionSnapshot:
    sessions, body = call.service.sessions, call.body
    found = await sessions.stores.find(call.params.session_id)
    last = found.record.entries
    if body.at is not None and body.at > last:
        raise RequestError(
            404, f"the session has no entry {body.at}; its last is {last}", kind="EntryNotFound"
        )
    _, fork = await fork_session(found.place, found.record.id, upto=body.at, name=body.name)
    async with sessions.use(fork.id) as live:
        return await live.client.snapshot()


async def _delete(call: Call[DeleteParams, Any]) -> None:
    sessions, session_id = call.service.sessions, call.params.session_id
    found = await sessions.stores.find(session_id)
    live = sessions.get(session_id)
    if live is not None and live.is_busy and not call.params.force:
        raise RequestError(
            409,
            "the session works or clients use it; to delete it all the same, add ?force=true",
            kind="SessionBusy",
        )
    await sessions.close(session_id)
    checkpoints = sessions.stores.find_checkpoints(found.record.cwd)
    await delete_sessions(found.place, [session_id], checkpoints=checkpoints)


async def _export(call: Call[ExportParams, Any]) -> web.Response:
    found = await call.service.sessions.stores.find(call.params.session_id)
    transcript = await load_transcript(found.place, found.record.id)
    if call.params.format == "markdown":
        text = await to_thread.run_sync(transcript.write_markdown)
        return web.Response(text=text, content_type=MARKDOWN, charset="utf-8")
    data = await to_thread.run_sync(lambda: b"".join(transcript.export()))
    return web.Response(body=data, content_type=JSON_LINES)


def _describe_hit(hit: SearchHit, service: Service) -> FoundSession:
    return FoundSession(
        session=_summarize(hit.session, service),
        entry_id=hit.entry_id,
        matches=hit.matches,
        excerpt=hit.excerpt,
    )


def _summarize(record: StoredSession, service: Service) -> SessionSummary:
    live = service.sessions.get(record.id)
    return SessionSummary(
        id=record.id,
        cwd=record.cwd,
        created_at=record.created_at,
        updated_at=record.updated_at,
        name=record.name,
        title=record.title,
        last_words=record.last_words,
        model=record.model,
        parent=record.parent,
        entries=record.entries,
        messages=record.messages,
        is_open=live is not None,
        executing=live is not None and live.client.is_executing(),
        questions=live.questions if live is not None else 0,
    )


_S = "/sessions/{session_id}"
SESSION_ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="GET",
        path="/sessions",
        summary="List the sessions, the last used first.",
        handle=_list,
        params=ListParams,
        result=SessionPage,
        errors=(404, 409),
        example=Example(query={"limit": "20"}),
    ),
    Route(
        method="GET",
        path="/sessions/search",
        summary="Search the names and messages of all sessions.",
        handle=_search,
        params=SearchParams,
        result=list[FoundSession],
        example=Example(query={"q": "parser"}),
    ),
    Route(
        method="POST",
        path="/sessions",
        summary="Create a session.",
        handle=_create,
        params=NoFields,
        body=SessionRequest,
        result=SessionSnapshot,
        status=201,
        errors=(404, 409),
        example=Example(body={"name": "parser", "permission_mode": "default"}),
    ),
    Route(
        method="GET",
        path=_S,
        summary="Open a session and take a snapshot of it.",
        handle=_open,
        params=SessionPath,
        result=SessionSnapshot,
        errors=SESSION_ERRORS,
    ),
    Route(
        method="POST",
        path=f"{_S}/resume",
        summary="Open a session and take a snapshot of it; the same as GET.",
        handle=_open,
        params=SessionPath,
        result=SessionSnapshot,
        errors=SESSION_ERRORS,
    ),
    Route(
        method="POST",
        path=f"{_S}/fork",
        summary="Copy a session, all of it or up to an entry, and open the copy.",
        handle=_fork,
        params=SessionPath,
        body=ForkSession,
        result=SessionSnapshot,
        status=201,
        errors=SESSION_ERRORS,
        example=Example(body={"name": "another way"}),
    ),
    Route(
        method="GET",
        path=f"{_S}/export",
        summary="Export a session as Markdown, or as JSON lines that can be imported.",
        handle=_export,
        params=ExportParams,
        result=str,
        media=(MARKDOWN, JSON_LINES),
        errors=SESSION_ERRORS,
        example=Example(query={"format": "markdown"}),
    ),
    Route(
        method="POST",
        path=f"{_S}/close",
        summary="Stop serving a session: abort what runs and close it; it stays stored.",
        handle=_close,
        params=SessionPath,
        errors=SESSION_ERRORS,
    ),
    Route(
        method="DELETE",
        path=_S,
        summary="Delete a session with all its data.",
        handle=_delete,
        params=DeleteParams,
        errors=SESSION_ERRORS,
    ),
)
