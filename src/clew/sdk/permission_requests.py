"""Permission requests to clients: published as events, answered by id; and their answers."""

import os
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass

import anyio
from msgspec.structs import replace

from clew.core.errors import SessionError
from clew.core.events import Event, PermissionRequest, PermissionResolved
from clew.core.permissions import Access, Approval, Decision, PermissionAnswer
from clew.core.sanitize import sanitize_line
from clew.session.event_bus import EventBus
from clew.session.plan_mode import EXIT_PLAN_MODE

_MAX_SCOPE = 80


class _Settled:
    """An awaitable that is done already: the work was done by the call."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class _Open:
    def __init__(self, request: PermissionRequest) -> None:
        self.request = request
        self.answered = anyio.Event()
        self.answer = PermissionAnswer(approval=Approval.NO)


def make_request(
    access: Access, decision: Decision, *, can_remember: bool = False
) -> PermissionRequest:
    """Return the question about a call, under a new id.

    Args:
        access: What the call wants.
        decision: Why it is asked about.
        can_remember: True when rules can be added to the project's settings.
    """
    return PermissionRequest(
        request_id=os.urandom(6).hex(),
        tool_name=access.tool,
        target=access.target,
        risk=access.risk,
        reason=decision.reason,
        call_id=access.call_id,
        arguments=access.arguments,
        session_scope=decision.session_scope,
        project_rules=decision.project_rules if can_remember else (),
        is_question=bool(access.question) and access.tool != EXIT_PLAN_MODE,
    )


class PermissionRequests:
    """Asks the attached clients and waits for the first answer.

    Args:
        bus: Where requests are published.
        wait: Keep a request open while no client is attached, for a server whose clients come
            and go. Otherwise an unattended request is denied.
    """

    def __init__(self, bus: EventBus, *, wait: bool = False) -> None:
        self._bus = bus
        self._wait = wait
        self._open: dict[str, _Open] = {}
        self.can_remember = False
        """True when rules can be added to the project's settings."""
        bus.on_detach = self._deny_unattended

    @property
    def pending(self) -> tuple[PermissionRequest, ...]:
        """The requests that wait for an answer."""
        return tuple(one.request for one in self._open.values())

    @property
    def attended(self) -> bool:
        """True when a request would reach a client that can answer it."""
        return self._wait or self._bus.answerable

    async def ask(
        self,
        access: Access,
        decision: Decision,
        *,
        publish: Callable[[Event], None] | None = None,
        asker: str = "",
    ) -> PermissionAnswer | None:
        """Publish a request and wait for the answer; None when no client can answer.

        Args:
            access: What the call wants.
            decision: Why the user is asked.
            publish: Publishes the request and its end as events of a subagent.
            asker: The subagent that asks.
        """
        if not self.attended:
            return None
        publish = publish or self._bus.publish
        request = make_request(access, decision, can_remember=self.can_remember)
        opened = _Open(replace(request, asker=asker))
        request_id = opened.request.request_id
        self._open[request_id] = opened
        publish(opened.request)
        try:
            await opened.answered.wait()
        finally:
            del self._open[request_id]
            approved = opened.answered.is_set() and opened.answer.approval is not Approval.NO
            publish(PermissionResolved(request_id=request_id, approved=approved))
        return opened.answer

    def answer(self, request_id: str, answer: PermissionAnswer) -> Awaitable[None]:
        """Answer a request; the first answer counts.

        Raises:
            SessionError: The request is not open: it was answered, or never existed.
        """
        opened = self._open.get(request_id)
        if opened is None or opened.answered.is_set():
            raise SessionError("this permission request is not open; it has been answered already")
        opened.answer = answer
        opened.answered.set()
        return _Settled()

    def _deny_unattended(self) -> None:
        if not self.attended:
            for opened in self._open.values():
                opened.answered.set()


@dataclass(frozen=True, slots=True)
class Choice:
    """One possible answer."""

    key: str
    label: str
    approval: Approval
    takes_text: bool = False
    """True for an answer that lets the user write to the model."""
    text: str = ""
    """The text that the user starts from."""


def list_choices(request: PermissionRequest) -> tuple[Choice, ...]:
    """Return the answers that a request can have."""
    if request.tool_name == EXIT_PLAN_MODE:
        return _list_plan_choices(str(request.arguments.get("plan", "")))
    if request.is_question:
        return (
            Choice("y", "yes", Approval.ONCE),
            Choice("a", "answer with a text", Approval.ONCE, takes_text=True),
            Choice("n", "no", Approval.NO),
        )
    scope = sanitize_line(request.session_scope, _MAX_SCOPE)
    choices = [
        Choice("y", "yes, once", Approval.ONCE),
        Choice(
            "s",
            f"yes, for this session: {scope}" if scope else "yes, for this session",
            Approval.SESSION,
        ),
    ]
    if request.project_rules:
        rules = sanitize_line(", ".join(request.project_rules), _MAX_SCOPE)
        choices.append(Choice("p", f"yes, always in this project: {rules}", Approval.PROJECT))
    return (
        *choices,
        Choice("n", "no", Approval.NO),
        Choice("t", "no, and tell the model what to do instead", Approval.NO, takes_text=True),
    )


def _list_plan_choices(plan: str) -> tuple[Choice, ...]:
    return (
        Choice("y", "yes, carry it out and ask before changes", Approval.ONCE),
        Choice("s", "yes, and change files without asking", Approval.SESSION),
        Choice("e", "edit the plan, then carry it out", Approval.ONCE, takes_text=True, text=plan),
        Choice("n", "no, keep planning", Approval.NO),
        Choice("t", "no, and tell the model what to change", Approval.NO, takes_text=True),
    )
