"""Calls to one MCP server: with a timeout, progress, cancellation, and questions of the server."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types
from mcp import Client, MCPError
from mcp.client.auth import OAuthFlowError
from mcp.client.session import ClientRequestContext

from clew.core.sanitize import sanitize_line
from clew.tools.mcp.config import ServerConfig
from clew.tools.mcp.questions import answer_elicitation, answer_sampling, refuse_sampling
from clew.tools.mcp.results import convert_prompt, convert_resource, convert_result
from clew.tools.mcp.values import ServerPrompt, ServerTool
from clew.tools.protocol import ToolContext, ToolOutput

START_TIMEOUT = 30.0
"""Seconds for a server to start and to list what it offers."""
_LONGEST_CALL = 3_600.0
"""Seconds of one call in all, even with progress."""
_SHOWN = 300

_Result = TypeVar("_Result")


class ServerUnavailable(Exception):
    """A server cannot be called now; the message says why."""


class _Call:
    """A call that runs: its clock stops while the server asks something on its behalf."""

    def __init__(self, context: ToolContext, timeout: float) -> None:
        self.context = context
        self.scope = anyio.CancelScope()
        self._timeout, self._end = timeout, anyio.current_time() + _LONGEST_CALL
        self._question: anyio.CancelScope | None = None
        self._has_ended = False
        self.restart_clock()

    def restart_clock(self) -> None:
        """Give the call its whole time again, unless a question has stopped the clock."""
        if self._question is None:
            self.scope.deadline = min(anyio.current_time() + self._timeout, self._end)

    async def answer(self, work: Callable[[], Awaitable[_Result]]) -> _Result | None:
        """Answer a question of the server; None if one is open, or the call ends before."""
        if self._question is not None or self._has_ended:
            return None
        asked_at, self.scope.deadline = anyio.current_time(), float("inf")
        self._question = anyio.CancelScope()
        try:
            with self._question:
                return await work()
        finally:
            self._question = None
            self._end += anyio.current_time() - asked_at
            self.restart_clock()
        return None

    def end(self) -> None:
        """Withdraw the question that is open; its answer is no longer needed."""
        self._has_ended = True
        if self._question is not None:
            self._question.cancel()


_current: ContextVar[_Call | None] = ContextVar("mcp_call", default=None)


class ServerCalls:
    """Makes calls that never hang, and never raise what the SDK raises.

    Args:
        config: The server.
        require: Returns the client, or raises `ServerUnavailable`.
        lose: Called when a call shows that the server is gone.
        was_forgotten: Whether the server no longer knows this client, so that it refuses calls.
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        require: Callable[[], Awaitable[Client]],
        lose: Callable[[], None],
        was_forgotten: Callable[[], bool] = lambda: False,
    ) -> None:
        self._config, self._require, self._lose = config, require, lose
        self._was_forgotten = was_forgotten
        self._running: list[_Call] = []
        self.answered = 0
        """The number of calls that the server has answered."""

    async def call_tool(
        self, tool: ServerTool, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolOutput:
        """Call a tool; a failure of the server is an output that says so."""

        async def send(client: Client, call: _Call) -> ToolOutput:
            async def on_progress(
                progress: float, total: float | None, message: str | None
            ) -> None:
                call.restart_clock()
                if context.progress is not None:
                    share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
                    context.progress.report(f"{message} ({share})" if message else share)

            result = await client.call_tool(
                tool.own_name, dict(arguments), progress_callback=on_progress
            )
            return convert_result(result)

        return await self._make(send, context, tool.spec.name)

    async def read_resource(self, uri: str, context: ToolContext) -> ToolOutput:
        """Read a resource; a failure is an output that says so."""

        async def send(client: Client, _: _Call) -> ToolOutput:
            return convert_resource(await client.read_resource(uri))

        return await self._make(send, context, "reading the resource")

    async def get_prompt(
        self, prompt: ServerPrompt, arguments: Mapping[str, str], context: ToolContext
    ) -> ToolOutput:
        """Return the text of a prompt; a failure is an output that says so."""

        async def send(client: Client, _: _Call) -> ToolOutput:
            result = await client.get_prompt(prompt.own_name, dict(arguments))
            return ToolOutput(text=convert_prompt(result))

        return await self._make(send, context, prompt.name)

    async def elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002
        params: mcp_types.ElicitRequestParams,
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Ask the user of the call that the server works on."""
        call = self._find_call()
        if call is None:
            return await answer_elicitation(params, None)
        answer = await call.answer(partial(answer_elicitation, params, call.context.ask))
        return answer or mcp_types.ElicitResult(action="cancel")

    async def sample(
        self,
        context: ClientRequestContext,  # noqa: ARG002
        params: mcp_types.CreateMessageRequestParams,
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        """Ask the model of the session that made the call."""
        call = self._find_call()
        if call is None:
            return await answer_sampling(params, None)
        answer = await call.answer(partial(answer_sampling, params, call.context.ask_model))
        return answer or refuse_sampling("the call has ended, or asks something else")

    def _find_call(self) -> _Call | None:
        """Return the call that a question of the server belongs to.

        Older protocols do not say which one it is: then it is the newest.
        """
        return _current.get() or (self._running[-1] if self._running else None)

    async def _make(
        self,
        send: Callable[[Client, _Call], Awaitable[ToolOutput]],
        context: ToolContext,
        what: str,
        *,
        is_repeated: bool = False,
    ) -> ToolOutput:
        try:
            client = await self._require()
        except ServerUnavailable as error:
            return ToolOutput(text=f"Error: {error}", failed=True)
        call = _Call(context, self._config.timeout)
        token = _current.set(call)
        self._running.append(call)
        try:
            with call.scope:
                output = await send(client, call)
                self.answered += 1
                return output
            seconds = f"{self._config.timeout:g} seconds"
            text = f"Error: {what} was cancelled: it made no progress for {seconds}."
            return ToolOutput(text=text, failed=True)
        except Exception as error:  # noqa: BLE001 - a failure of the server, whatever it is
            if is_repeated or not self._was_refused(error):
                return self._explain(error)
        finally:
            call.end()
            self._running.remove(call)
            _current.reset(token)
        self._lose()
        return await self._make(send, context, what, is_repeated=True)

    def _was_refused(self, error: Exception) -> bool:
        """Return whether the server refused a call because it has forgotten this client."""
        cause = find_cause(error)
        is_refusal = isinstance(cause, MCPError) and cause.code == mcp_types.INVALID_REQUEST
        return is_refusal and self._was_forgotten()

    def _explain(self, error: Exception) -> ToolOutput:
        name, cause = self._config.name, find_cause(error)
        is_closed = isinstance(cause, MCPError) and cause.code == mcp_types.CONNECTION_CLOSED
        if is_closed or isinstance(cause, httpx2.TransportError):
            self._lose()
            text = (
                f"Error: the MCP server {name} ended during this call, so its outcome is unknown."
                " It is being started again."
            )
        elif isinstance(cause, OAuthFlowError):
            text = f"Error: {say_login(name)}"
        else:
            text = f"Error: the MCP server {name} answered: {describe_error(cause)}"
        return ToolOutput(text=text, failed=True)


def say_login(name: str) -> str:
    """Return what to do about a server that needs a login."""
    return f"the MCP server {name} needs a login: clew mcp login {name}"


def find_cause(error: BaseException) -> BaseException:
    """Return the first error in groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def describe_error(error: BaseException) -> str:
    """Return an error of a server as one line."""
    cause = find_cause(error)
    if isinstance(cause, TimeoutError):
        return f"it did not answer within {START_TIMEOUT:g} seconds"
    if isinstance(cause, MCPError) and cause.code == mcp_types.CONNECTION_CLOSED:
        return "it ended"
    return sanitize_line(str(cause) or type(cause).__name__, _SHOWN)
