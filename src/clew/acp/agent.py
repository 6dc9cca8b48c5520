"""The agent's side of the protocol: which method does what.

The parts that sessions need are imported with the first session: an editor waits for the answer to
`initialize` when it starts.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import anyio
from anyio.abc import TaskGroup
from msgspec import Raw

from clew._version import __version__
from clew.acp.connection import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Connection,
    Reply,
    RpcError,
    read_params,
)
from clew.acp.messages import (
    AuthenticateParams,
    ClientCapabilities,
    Implementation,
    InitializeParams,
    InitializeResult,
    ListSessionsParams,
    NewSessionParams,
    OpenSessionParams,
    PromptParams,
    SessionParams,
    SetConfigParams,
    SetModeParams,
)
from clew.core.sanitize import sanitize_line
from clew.sdk.session_spec import SessionSpec
from clew.sdk.stdio import Write

if TYPE_CHECKING:
    from clew.acp.sessions import Sessions

_P = TypeVar("_P")
_Method: TypeAlias = Callable[["Sessions", Raw], Awaitable[Reply | None]]
_SHOWN = 60


async def serve(
    lines: AsyncIterator[bytes | None],
    write: Write,
    *,
    defaults: SessionSpec,
    environ: Mapping[str, str] | None = None,
    stopping: anyio.Event | None = None,
) -> None:
    """Serve one editor until it closes the connection, then close its sessions.

    Args:
        lines: The lines of the editor; see `clew.sdk.stdio.split_lines`.
        write: Writes lines to the editor.
        defaults: What sessions get that the editor does not say, such as the model.
        environ: Environment variables; by default those of the process.
        stopping: Set it to end as if the editor had closed the connection.
    """
    connection = Connection(lines, write)

    async def stop_later(stopping: anyio.Event) -> None:
        await stopping.wait()
        connection.stop()

    async with anyio.create_task_group() as tasks:
        agent = Agent(connection, defaults, environ, tasks)
        if stopping is not None:
            tasks.start_soon(stop_later, stopping)
        try:
            await connection.serve(agent.handle)
        finally:
            with anyio.CancelScope(shield=True):
                await agent.aclose()
        tasks.cancel_scope.cancel()


class Agent:
    """Carries out the methods of one editor."""

    def __init__(
        self,
        connection: Connection,
        defaults: SessionSpec,
        environ: Mapping[str, str] | None,
        tasks: TaskGroup,
    ) -> None:
        self._connection = connection
        self._defaults = defaults
        self._environ = environ
        self._tasks = tasks
        self._editor: InitializeParams | None = None
        self._sessions: Sessions | None = None

    async def handle(self, method: str, params: Raw) -> Reply | None:
        """Carry out a method.

        Raises:
            RpcError: There is no such method, or its parameters are wrong.
        """
        if method == "initialize":
            return self._initialize(read_params(params, InitializeParams))
        if method == "authenticate":
            wanted = read_params(params, AuthenticateParams).method_id
            raise RpcError(
                INVALID_PARAMS,
                f"there is no method {sanitize_line(wanted, _SHOWN)}: Clew reads keys from its"
                " settings and the environment",
            )
        found = _METHODS.get(method)
        if found is None:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {sanitize_line(method, _SHOWN)}")
        if self._editor is None:
            raise RpcError(INVALID_REQUEST, "the first request must be initialize")
        return await found(self._open_sessions(), params)

    async def aclose(self) -> None:
        """Close every session."""
        if self._sessions is not None:
            await self._sessions.close_all()

    def _initialize(self, params: InitializeParams) -> Reply:
        self._editor = params
        info = Implementation(name="clew", title="Clew", version=__version__)
        return Reply(InitializeResult(agent_info=info))

    def _open_sessions(self) -> "Sessions":
        if self._sessions is None:
            from clew.acp.sessions import Sessions  # noqa: PLC0415 - see above

            self._sessions = Sessions(
                self._connection,
                self._tasks,
                defaults=self._defaults,
                environ=self._environ,
                editor=(self._editor and self._editor.client_capabilities) or ClientCapabilities(),
            )
        return self._sessions


def _method(
    kind: type[_P], choose: Callable[["Sessions"], Callable[[_P], Awaitable[Reply | None]]]
) -> _Method:
    async def run(sessions: "Sessions", params: Raw) -> Reply | None:
        return await choose(sessions)(read_params(params, kind))

    return run


_METHODS: Mapping[str, _Method] = {
    "session/new": _method(NewSessionParams, lambda sessions: sessions.new),
    "session/load": _method(OpenSessionParams, lambda sessions: sessions.load),
    "session/resume": _method(OpenSessionParams, lambda sessions: sessions.resume),
    "session/fork": _method(OpenSessionParams, lambda sessions: sessions.fork),
    "session/close": _method(SessionParams, lambda sessions: sessions.close),
    "session/list": _method(ListSessionsParams, lambda sessions: sessions.list),
    "session/prompt": _method(PromptParams, lambda sessions: sessions.prompt),
    "session/cancel": _method(SessionParams, lambda sessions: sessions.cancel),
    "session/set_mode": _method(SetModeParams, lambda sessions: sessions.set_mode),
    "session/set_config_option": _method(SetConfigParams, lambda sessions: sessions.set_config),
}
