"""Permission requests of a session as questions of the editor, and their answers."""

import logging
from collections.abc import Mapping
from contextlib import suppress

import anyio
import msgspec
from anyio.abc import TaskGroup

from clew.acp.connection import Connection, RpcError
from clew.acp.content import TextBlock, ToolCallFields, ToolContent
from clew.acp.messages import (
    PermissionKind,
    PermissionOption,
    PermissionOutcome,
    PermissionParams,
    PermissionResult,
)
from clew.acp.tool_calls import find_kind, find_locations, make_title, preview_diff, show_change
from clew.core.errors import SessionError
from clew.core.events import PermissionRequest
from clew.core.permissions import Approval
from clew.sdk.client import SessionClient
from clew.sdk.permission_preview import preview_change
from clew.sdk.permission_requests import list_choices

logger = logging.getLogger(__name__)

_KINDS: Mapping[Approval, PermissionKind] = {
    Approval.ONCE: "allow_once",
    Approval.SESSION: "allow_always",
    Approval.PROJECT: "allow_always",
    Approval.NO: "reject_once",
}


class Questions:
    """Asks the editor what a session asks, and passes the answers on.

    Args:
        client: The session.
        connection: The editor.
        tasks: Where questions wait for their answers.
    """

    def __init__(self, client: SessionClient, connection: Connection, tasks: TaskGroup) -> None:
        self._client = client
        self._connection = connection
        self._tasks = tasks
        self._open: dict[str, anyio.CancelScope] = {}

    def ask(self, request_id: str, question: PermissionParams) -> None:
        """Ask in the background, unless the question is open."""
        if request_id not in self._open:
            self._open[request_id] = scope = anyio.CancelScope()
            self._tasks.start_soon(self._ask, request_id, question, scope)

    def withdraw(self, request_id: str) -> None:
        """Stop asking: the request was answered elsewhere, or is no longer needed."""
        if request_id in self._open:
            self._open.pop(request_id).cancel()

    async def _ask(
        self, request_id: str, question: PermissionParams, scope: anyio.CancelScope
    ) -> None:
        approval = Approval.NO
        with scope:
            try:
                answer = await self._connection.request(
                    "session/request_permission", question, PermissionResult
                )
                approval = read_answer(answer.outcome)
            except RpcError as error:
                logger.warning("the editor did not answer, so the call is denied: %s", error)
        self._open.pop(request_id, None)
        if not scope.cancelled_caught:
            # Another answer may have come first.
            with suppress(SessionError):
                await self._client.answer(request_id, approval)


def make_question(
    request: PermissionRequest, *, session_id: str, tool_call_id: str, cwd: str
) -> PermissionParams:
    """Return the question, with the answers of the terminal and what the call would change."""
    change = preview_change(request, cwd=cwd)
    content = (
        show_change(change, cwd)
        if change is not None
        else preview_diff(request.tool_name, request.arguments, cwd)
    )
    if request.is_question:
        content = (ToolContent(TextBlock(request.reason)),)
    arguments = msgspec.json.encode(request.arguments).decode()
    call = ToolCallFields(
        tool_call_id=tool_call_id,
        title=make_title(request.tool_name, arguments),
        kind=find_kind(request.tool_name),
        status="pending",
        content=content,
        locations=find_locations(request.tool_name, request.arguments, cwd) or None,
        raw_input=request.arguments or None,
    )
    options = tuple(
        PermissionOption(option_id=choice.approval, name=choice.label, kind=_KINDS[choice.approval])
        for choice in list_choices(request)
        # The protocol has no answer with a text.
        if not choice.takes_text
    )
    return PermissionParams(session_id=session_id, tool_call=call, options=options)


def read_answer(outcome: PermissionOutcome) -> Approval:
    """Return the answer that an outcome means; anything unknown denies."""
    if outcome.outcome != "selected":
        return Approval.NO
    try:
        return Approval(outcome.option_id)
    except ValueError:
        return Approval.NO
