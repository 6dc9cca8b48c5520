"""Permission requests of a session as questions of the editor. Pure."""

from collections.abc import Mapping

import msgspec

from clew.acp.content import ToolCallFields
from clew.acp.messages import PermissionKind, PermissionOption, PermissionOutcome, PermissionParams
from clew.acp.tool_calls import find_kind, find_locations, make_title, preview_diff, show_change
from clew.core.events import PermissionRequest
from clew.core.permissions import Approval
from clew.sdk.permission_choices import list_choices
from clew.sdk.permission_preview import preview_change

_KINDS: Mapping[Approval, PermissionKind] = {
    Approval.ONCE: "allow_once",
    Approval.SESSION: "allow_always",
    Approval.PROJECT: "allow_always",
    Approval.NO: "reject_once",
}


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
