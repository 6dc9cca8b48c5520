"""The sessions that an editor has open, and those that are stored."""

import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from clew.acp.connection import INVALID_PARAMS, RESOURCE_NOT_FOUND, Connection, Reply, RpcError
from clew.acp.editor_files import EditorFiles
from clew.acp.editor_terminal import EditorTerminal
from clew.acp.messages import (
    ClientCapabilities,
    ConfigResult,
    Empty,
    FileSystem,
    ListSessionsParams,
    ListSessionsResult,
    NewSessionParams,
    OpenSessionParams,
    PromptParams,
    SessionInfo,
    SessionParams,
    SessionResult,
    SetConfigParams,
    SetModeParams,
)
from clew.acp.options import MODE
from clew.acp.session import EditorSession
from clew.core.errors import SessionNotFound
from clew.core.events import Envelope, Warned
from clew.core.ids import SessionId
from clew.core.text import one_line
from clew.sdk.launch import launch
from clew.sdk.session_admin import StoredSession, list_sessions, project_store
from clew.sdk.session_spec import SessionSpec

logger = logging.getLogger(__name__)

_PAGE = 50
_MAX_TITLE = 200
_SHOWN = 80


class Sessions:
    """Opens and closes sessions; each lives in a task of its own until it is closed.

    Args:
        connection: The editor.
        tasks: Where the sessions live.
        defaults: What sessions get that the editor does not say, such as the model.
        environ: Environment variables; by default those of the process.
        editor: What the editor offers.
    """

    def __init__(
        self,
        connection: Connection,
        tasks: TaskGroup,
        *,
        defaults: SessionSpec,
        environ: Mapping[str, str] | None,
        editor: ClientCapabilities,
    ) -> None:
        self._connection = connection
        self._files, self._has_terminal = editor.fs or FileSystem(), bool(editor.terminal)
        self._defaults = defaults
        self._environ = environ
        self._tasks = tasks
        self._open: dict[str, EditorSession] = {}

    async def new(self, params: NewSessionParams) -> Reply:
        """Open a new session."""
        session = await self._launch(self._make_spec(params), params)
        return Reply(await session.describe(is_new=True), session.start)

    async def load(self, params: OpenSessionParams) -> Reply:
        """Open a stored session and show its history."""
        session = await self._reopen(params)
        await session.restore(show=True)
        return Reply(await session.describe(), session.start)

    async def resume(self, params: OpenSessionParams) -> Reply:
        """Open a stored session whose history the editor has."""
        session = await self._reopen(params)
        await session.restore(show=False)
        return Reply(await session.describe(), session.start)

    async def fork(self, params: OpenSessionParams) -> Reply:
        """Open a copy of a stored session."""
        await self._check_stored(params.session_id, params.cwd)
        spec = replace(self._make_spec(params), fork=params.session_id)
        session = await self._launch(_without_choices(spec), params)
        await session.restore(show=False)
        return Reply(await session.describe(is_new=True), session.start)

    async def close(self, params: SessionParams) -> Reply:
        """Abort what runs in a session and close it; it stays stored."""
        session = self._find(params.session_id)
        session.closing.set()
        await session.closed.wait()
        return Reply(Empty())

    async def close_all(self) -> None:
        """Close every session and wait until their stores are written."""
        for session in list(self._open.values()):
            session.closing.set()
        for session in list(self._open.values()):
            await session.closed.wait()

    async def list(self, params: ListSessionsParams) -> Reply:
        """List the stored sessions of a folder, the most recently used first."""
        folder = Path(_check_folder(params.cwd) if params.cwd else self._defaults.cwd)
        start = _read_cursor(params.cursor)
        place = project_store(folder, self._environ, self._defaults.store)
        try:
            found = await list_sessions(place, limit=start + _PAGE + 1)
        finally:
            await place.store.aclose()
        page = found[start : start + _PAGE]
        more = str(start + _PAGE) if len(found) > start + _PAGE else None
        infos = tuple(_describe(one, folder) for one in page)
        return Reply(ListSessionsResult(sessions=infos, next_cursor=more))

    async def prompt(self, params: PromptParams) -> Reply:
        """Run a prompt to its end."""
        return Reply(await self._find(params.session_id).prompt(params.prompt))

    async def cancel(self, params: SessionParams) -> None:
        """Abort what runs in a session."""
        self._find(params.session_id).cancel()

    async def set_mode(self, params: SetModeParams) -> Reply:
        """Change the permission mode of a session."""
        await self._set_option(params.session_id, MODE, params.mode_id)
        return Reply(Empty())

    async def set_config(self, params: SetConfigParams) -> Reply:
        """Change an option of a session."""
        state = await self._set_option(params.session_id, params.config_id, params.value)
        return Reply(ConfigResult(config_options=state.config_options))

    async def _set_option(self, session_id: str, name: str, value: str) -> SessionResult:
        try:
            return await self._find(session_id).set_option(name, value)
        except ValueError as error:
            raise RpcError(INVALID_PARAMS, str(error)) from error

    def _find(self, session_id: str) -> EditorSession:
        session = self._open.get(session_id)
        if session is None:
            shown = one_line(session_id, _SHOWN)
            raise RpcError(
                RESOURCE_NOT_FOUND, f"the session {shown} is not open; load or resume it first"
            )
        return session

    def _make_spec(self, params: NewSessionParams) -> SessionSpec:
        folders = tuple(map(_check_folder, params.additional_directories or ()))
        return replace(
            self._defaults,
            cwd=_check_folder(params.cwd),
            add_dirs=(*self._defaults.add_dirs, *folders),
        )

    async def _reopen(self, params: OpenSessionParams) -> EditorSession:
        if params.session_id in self._open:
            return self._open[params.session_id]
        await self._check_stored(params.session_id, params.cwd)
        spec = replace(self._make_spec(params), resume=params.session_id)
        return await self._launch(_without_choices(spec), params)

    async def _check_stored(self, session_id: str, cwd: str) -> None:
        """Refuse names and starts of ids, which the command line accepts."""
        place = project_store(Path(_check_folder(cwd)), self._environ, self._defaults.store)
        try:
            await place.store.record(SessionId(session_id))
        except SessionNotFound as error:
            shown = one_line(session_id, _SHOWN)
            text = f"there is no session {shown} in {cwd}"
            raise RpcError(RESOURCE_NOT_FOUND, text) from error
        finally:
            await place.store.aclose()

    async def _launch(self, spec: SessionSpec, params: NewSessionParams) -> EditorSession:
        servers = {one.name: one.make_entry() for one in params.mcp_servers or ()}
        session: EditorSession = await self._tasks.start(self._host, spec, servers)
        return session

    async def _host(
        self,
        spec: SessionSpec,
        servers: Mapping[str, Mapping[str, Any]],
        *,
        task_status: TaskStatus[EditorSession],
    ) -> None:
        """Keep a session open until it is closed."""
        session: EditorSession | None = None
        files = EditorFiles(self._connection, self._files)
        terminal = EditorTerminal(self._connection) if self._has_terminal else None
        warnings: list[Envelope] = []

        def collect(envelope: Envelope) -> None:
            if session is None and isinstance(envelope.event, Warned):
                warnings.append(envelope)

        try:
            async with (
                launch(
                    spec,
                    on_envelope=collect,
                    environ=self._environ,
                    services={"documents": files, "terminal": terminal, "mcp_servers": servers},
                ) as launched,
                anyio.create_task_group() as tasks,
            ):
                client = launched.session
                session = EditorSession(client, self._connection, await client.snapshot(), tasks)
                session.warnings = warnings
                self._open[session.id] = session
                files.session_id = session.id
                if terminal is not None:
                    terminal.session_id, terminal.show = session.id, session.show_terminal
                task_status.started(session)
                await session.closing.wait()
                await session.end_turns()
                tasks.cancel_scope.cancel()
        except Exception:
            # Before the session is open, this is the answer to the editor's request.
            if session is None:
                raise
            logger.exception("the session %s has failed", session.id)
        finally:
            if session is not None:
                self._open.pop(session.id, None)
                session.closed.set()


def _without_choices(spec: SessionSpec) -> SessionSpec:
    """Return a spec for a stored session, which keeps its own model and mode."""
    return replace(
        spec, provider="", base_url="", model="", window=None, permission_mode="", effort=""
    )


def _check_folder(path: str) -> str:
    if not os.path.isabs(path):  # noqa: PTH117 - a path of the editor, as it is
        raise RpcError(INVALID_PARAMS, f"{one_line(path, _SHOWN)} is not an absolute path")
    return path


def _read_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal():
        raise RpcError(INVALID_PARAMS, "the cursor is not one of session/list")
    return int(cursor)


def _describe(record: StoredSession, folder: Path) -> SessionInfo:
    updated = datetime.fromtimestamp(record.updated_at, UTC).isoformat()
    return SessionInfo(
        session_id=record.id,
        cwd=record.cwd or str(folder),
        title=one_line(record.heading, _MAX_TITLE) or None,
        updated_at=updated,
    )
