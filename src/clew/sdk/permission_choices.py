"""The answers that a permission request can have, as every client offers them."""

from dataclasses import dataclass

from clew.core.events import PermissionRequest
from clew.core.permissions import Approval
from clew.core.sanitize import sanitize_line
from clew.session.plan_mode import EXIT_PLAN_MODE

_MAX_SCOPE = 80


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
