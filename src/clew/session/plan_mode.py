"""Plan mode: which tools and instructions the model gets, and how the user judges its plan."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from clew.core.entries import ModeChanged
from clew.core.models import ToolSpec
from clew.core.permissions import Access, Approval, PermissionMode, Risk
from clew.session.config import check_mode
from clew.session.gate import Gate
from clew.session.option_types import read_mode
from clew.session.state import SessionState
from clew.tools.protocol import Tool, ToolContext, ToolOutput

EXIT_PLAN_MODE = "ExitPlanMode"
_BEGUN = (
    "Plan mode is active: nothing may be changed and no command runs. Read what you need, then"
    " {present}. These tools work: {tools}. All other tools are denied."
)
_ENDED = "Plan mode has ended: the tools that change files and run commands work again."
_QUESTION = "the model presents its plan"
_NOT_ASKED = "The user was not asked about the plan; plan mode stays active. Present it again."
_SPEC = ToolSpec(
    name=EXIT_PLAN_MODE,
    description=(
        "Present your plan to the user when it is complete. The user approves it, which ends plan"
        " mode, changes it, or says what to plan differently. Only for work that changes files or"
        " runs commands; answer questions without it. If it is denied, answer with the plan."
    ),
    schema={
        "type": "object",
        "properties": {
            "plan": {"type": "string", "description": "The whole plan, as Markdown; be concise."}
        },
        "required": ["plan"],
        "additionalProperties": False,
    },
)


class ExitPlanMode:
    """The tool with which a model presents its plan; offered in plan mode only.

    The question to the user is a permission request for this tool, with the plan among its
    arguments. `Approval.ONCE` continues in default mode, `Approval.SESSION` in the mode that asks
    less. A reply beside an approval is the plan as the user edited it; beside `Approval.NO`, it
    says what to change.

    Args:
        gate: The permissions of the session.
        set_mode: Changes the permission mode of the session.
    """

    spec = _SPEC
    max_output_chars: int | None = None

    def __init__(self, gate: Gate, set_mode: Callable[[PermissionMode], Awaitable[None]]) -> None:
        self._gate, self._set_mode = gate, set_mode

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """Ask the user in every case; reading the plan touches nothing."""
        is_question = self._gate.mode is PermissionMode.PLAN and not _find_problem(arguments)
        return Access(
            tool=EXIT_PLAN_MODE,
            risk=Risk.INSPECT,
            question=_QUESTION if is_question else "",
            session_choice=f"continue in {self._gate.mode_after_plan} mode",
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Tell the model what the user answered, and leave plan mode if the plan is approved."""
        if problem := _find_problem(arguments):
            return ToolOutput(text=problem, failed=True)
        if self._gate.mode is not PermissionMode.PLAN:
            return ToolOutput(text="Plan mode is not active: carry on.", failed=True)
        if (answer := context.answer) is None:
            return ToolOutput(text=_NOT_ASKED, failed=True)
        plan, said = str(arguments["plan"]), answer.reply.strip()
        if answer.approval is Approval.NO:
            words = f" The user said: {said}" if said else " Ask what to change."
            text = f"The user did not approve the plan; plan mode stays active.{words}"
            return ToolOutput(text=text, display=text, data={"plan": plan, "approved": False})
        mode = PermissionMode.DEFAULT
        if answer.approval is not Approval.ONCE:
            mode = self._gate.mode_after_plan
        await self._set_mode(mode)
        text = "The user approved the plan. Carry it out."
        if said and said != plan.strip():
            text = f"The user changed the plan and approved it. Carry out this plan:\n\n{said}"
        display = f"approved; the mode is {mode} now"
        return ToolOutput(
            text=text, display=display, data={"plan": said or plan, "approved": True, "mode": mode}
        )


def _find_problem(arguments: dict[str, Any]) -> str:
    plan = arguments.get("plan")
    if isinstance(plan, str) and plan.strip():
        return ""
    return f"Invalid arguments for {EXIT_PLAN_MODE}: `plan` must be a text that is not empty."


def select_tools(state: SessionState) -> tuple[ToolSpec, ...]:
    """Return the tools that the model gets in the current mode: in plan mode those that only read.

    The list depends on the mode alone, so that the provider's cached prefix stays valid until the
    mode changes from or to plan.
    """
    if state.gate.mode is not PermissionMode.PLAN:
        return tuple(spec for spec in state.all_specs if spec.name != EXIT_PLAN_MODE)
    permitted = {
        tool.spec.name for tool in state.tools.values() if _only_reads(tool, state.tool_context)
    }
    return tuple(spec for spec in state.all_specs if spec.name in permitted)


def _only_reads(tool: Tool, context: ToolContext) -> bool:
    try:
        return tool.access({}, context).risk is Risk.INSPECT
    except Exception:  # noqa: BLE001 - a custom tool may need its arguments
        return False


async def change_mode(state: SessionState, mode: PermissionMode) -> None:
    """Change the permission mode, and offer its tools from the next request on.

    Raises:
        ConfigError: There is no such mode, or the settings do not allow it.
        SessionClosed: The session was shut down.
    """
    state.check_open()
    mode = read_mode(mode)
    check_mode(state.gate, mode)
    await state.journal.append(ModeChanged(mode=mode))
    state.gate.set_mode(mode)
    await offer_tools(state)


async def offer_tools(state: SessionState) -> None:
    """Declare the tools of the current mode from the next request on."""
    setup, wanted = state.journal.view.setup, select_tools(state)
    if wanted != setup.tools:
        await state.journal.append(replace(setup, tools=wanted))


async def follow_mode(state: SessionState) -> list[str]:
    """Return what to tell the model about the mode: that plan mode is active, or has ended.

    A mode that was set on the gate, which sessions may share, changes the tools here.
    """
    told, state.plan_mode_told = state.plan_mode_told, state.gate.mode is PermissionMode.PLAN
    if told != state.plan_mode_told:
        await offer_tools(state)
    if not state.plan_mode_told:
        return [_ENDED] if told else []
    names = [spec.name for spec in state.journal.view.setup.tools if not spec.deferred]
    present = f"present your plan with {EXIT_PLAN_MODE}"
    return [
        _BEGUN.format(
            present=present if EXIT_PLAN_MODE in names else "answer with a plan",
            tools=", ".join(names) or "none",
        )
    ]
