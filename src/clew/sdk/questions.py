"""Questions about tool calls for clients that listen: told as an event, answered by id."""

import os

import anyio

from clew.core.access import Access, Approval, Decision
from clew.core.errors import SessionError
from clew.sdk.hub import Hub
from clew.sdk.values import PermissionRequest
from clew.session.gate import Ask


class _Open:
    def __init__(self, request: PermissionRequest) -> None:
        self.request = request
        self.answered = anyio.Event()
        self.answer = Approval.NO


class Questions:
    """Asks whoever listens, and waits for the first answer."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._open: dict[str, _Open] = {}

    @property
    def open(self) -> list[PermissionRequest]:
        """The questions that wait for an answer."""
        return [question.request for question in self._open.values()]

    def whom(self) -> Ask | None:
        """Return who is to be asked now: the clients, if one of them listens."""
        return self.ask if self._hub.hears("permission_request") else None

    async def ask(self, access: Access, decision: Decision) -> Approval:
        """Put a question to the clients; the first answer counts."""
        question = _Open(
            PermissionRequest(
                request_id=os.urandom(6).hex(),
                tool_name=access.tool,
                target=access.target,
                risk=access.risk,
                reason=decision.reason,
                call_id=access.call_id,
                arguments=access.arguments,
                session_scope=decision.session_scope,
                project_rules=decision.project_rules,
            )
        )
        self._open[question.request.request_id] = question
        self._hub.emit("permission_request", question.request)
        try:
            await question.answered.wait()
        finally:
            del self._open[question.request.request_id]
            self._hub.emit("permission_resolved", question.request)
        return question.answer

    def dismiss(self) -> None:
        """Take nobody's answer for a no: there is nobody left to give one."""
        for question in self._open.values():
            question.answered.set()

    def answer(self, request_id: str, approval: Approval) -> None:
        """Answer a question.

        Raises:
            SessionError: There is no such question, or somebody else has answered it.
        """
        question = self._open.get(request_id)
        if question is None or question.answered.is_set():
            raise SessionError("this question is not open any more; somebody has answered it")
        question.answer = approval
        question.answered.set()
