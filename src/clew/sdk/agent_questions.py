"""Permission questions of a subagent, asked through the clients or the handler of its parent."""

from clew.core.events import PermissionResolved
from clew.core.permissions import Access, Approval, Decision, PermissionAnswer
from clew.core.text import one_line
from clew.runtime.protocol import RunningTask
from clew.sdk.agent_setup import AgentSetup
from clew.sdk.permission_requests import make_request

_LABEL = 40


async def ask_for_agent(
    setup: AgentSetup, task: RunningTask, access: Access, decision: Decision
) -> PermissionAnswer | None:
    """Ask the clients of the parent, or the handler that its program brings.

    Either way the task reports the question, so that lists show it and no clock runs meanwhile.

    Args:
        setup: The parent's services.
        task: The agent that asks.
        access: What the call wants.
        decision: Why the user is asked.
    """
    ask, requests = setup.gate.ask, setup.requests
    if ask == requests.ask:
        label = one_line(task.request.label or task.request.prompt, _LABEL)
        asker = f"{label} ({task.task_id})"
        return await requests.ask(access, decision, publish=task.report, asker=asker)
    if ask is None:
        return None
    request = make_request(access, decision)
    answer: PermissionAnswer | None = None
    task.report(request)
    try:
        said = await ask(access, decision)
        answer = PermissionAnswer(approval=said) if isinstance(said, Approval) else said
    finally:
        approved = answer is not None and answer.approval is not Approval.NO
        task.report(PermissionResolved(request_id=request.request_id, approved=approved))
    return answer
