"""One tool call, from its name to its outcome: prepare → decide → hooks → execute → finish."""

import logging
from typing import Any

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.access import Access, Decision, Verdict
from clew.core.errors import LoopDetected, RunStopped
from clew.core.events import ToolStarted
from clew.core.messages import Message, Role, ToolCall, ToolResult
from clew.core.text import truncate_middle
from clew.hooks.protocol import HookEvent, HookVerdict
from clew.session.hooking import fire, reminder
from clew.session.loops import WARN_AFTER, Advice
from clew.session.state import SessionState
from clew.tools.protocol import Tool, ToolOutput

logger = logging.getLogger(__name__)

_INTERRUPTED = "Error: the run was aborted before this tool call was finished."
_REPEATED = (
    f"This same call has brought this same answer {WARN_AFTER} times or more."
    " Do something else, or say what is missing."
)


class Outcome(Struct, frozen=True, kw_only=True):
    """How one call ended."""

    output: ToolOutput
    denied: bool = False
    error_code: str = ""


class Prepared(Struct, frozen=True, kw_only=True):
    """A call whose tool is known and whose arguments can be read."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]


async def run_call(kit: SessionState, call: ToolCall, *, decided: bool = False) -> Outcome:
    """Take one call from its name to its outcome; raises nothing but cancellation.

    With `decided`, a person asked for the call directly, and nobody else is asked.
    """
    kit.emit(ToolStarted(call_id=call.call_id, name=call.name, arguments=call.arguments))
    prepared = _prepare(kit, call)
    if isinstance(prepared, Outcome):
        return prepared
    try:
        return await (_run(kit, prepared) if decided else _judged(kit, prepared))
    except Exception as error:
        logger.warning("tool %s crashed", call.name, exc_info=True)
        return failure(f"Error: {call.name} crashed: {error!r}", "crashed")


def _prepare(kit: SessionState, call: ToolCall) -> Prepared | Outcome:
    tool = kit.tools.get(call.name)
    if tool is None:
        known = ", ".join(sorted(kit.tools)) or "none"
        return failure(
            f"Error: there is no tool {call.name}. Known tools: {known}.", "unknown_tool"
        )
    try:
        return Prepared(call=call, tool=tool, arguments=call.decode_arguments())
    except ValueError as error:
        return failure(f"Error: {error}", "bad_arguments")


async def _judged(kit: SessionState, prepared: Prepared) -> Outcome:
    """Run a call if rules, hooks and, where these leave it open, a person let it."""
    access, policy = _access(kit, prepared), kit.gate.policy()
    decision = kit.gate.decide(access, policy)
    wish: Decision | None = None
    if decision.verdict is not Verdict.DENY:
        verdict = await _before(kit, prepared)
        if verdict.stop is not None:
            kit.ending = RunStopped(f"a hook stopped the run: {verdict.stop}")
            return _denied(f"a hook stopped the run: {verdict.stop}", "hook_stopped")
        wish = verdict.decision
        if wish is not None and wish.verdict is Verdict.DENY:
            return _denied(f"a hook blocked this call: {wish.reason}", "hook_blocked")
        if verdict.updated_input is not None:
            prepared = replace(prepared, arguments=verdict.updated_input)
            access = _access(kit, prepared)
        # The mode and the grants may have changed while the hooks ran.
        if verdict.updated_input is not None or kit.gate.policy() != policy:
            decision = kit.gate.decide(access)
    final = await kit.gate.judge(access, decision=decision, wish=wish)
    if final.verdict is not Verdict.ALLOW:
        return _denied(final.reason, "denied")
    return await _run(kit, prepared)


def _access(kit: SessionState, prepared: Prepared) -> Access:
    access = prepared.tool.access(prepared.arguments, kit.place)
    return replace(access, call_id=prepared.call.call_id, arguments=prepared.arguments)


async def _run(kit: SessionState, prepared: Prepared) -> Outcome:
    name = prepared.call.name
    advice = kit.loops.advice(prepared.call)
    if advice is Advice.STOP:
        kit.ending = LoopDetected(
            f"the model went on calling {name} with the same arguments, though the answer was the"
            " same each time. Tell it what to do differently."
        )
    if advice in {Advice.REFUSE, Advice.STOP}:
        return failure(f"Error: {name} was not run. {_REPEATED}", "repeated")
    started = anyio.current_time()
    with anyio.move_on_after(kit.tool_timeout) as limit:
        output = await prepared.tool.run(prepared.arguments, kit.place)
    if limit.cancelled_caught:
        seconds = f"{kit.tool_timeout:g}"
        return failure(f"Error: {name} was ended after {seconds} seconds.", "timed_out")
    kit.loops.answered(prepared.call, output.text)
    if advice is Advice.WARN:
        output = replace(output, text=f"{output.text}\n\n{reminder(_REPEATED)}")
    took = round((anyio.current_time() - started) * 1000)
    return Outcome(output=await _after(kit, prepared, output, took))


async def _before(kit: SessionState, prepared: Prepared) -> HookVerdict:
    return await fire(
        kit,
        HookEvent.PRE_TOOL_USE,
        tool_name=prepared.call.name,
        tool_input=prepared.arguments,
        tool_use_id=prepared.call.call_id,
    )


async def _after(
    kit: SessionState, prepared: Prepared, output: ToolOutput, took: int
) -> ToolOutput:
    """Tell hooks what a tool answered, and add what they say to it."""
    verdict = await fire(
        kit,
        HookEvent.POST_TOOL_USE,
        tool_name=prepared.call.name,
        tool_input=prepared.arguments,
        tool_use_id=prepared.call.call_id,
        tool_response={"text": output.text, "failed": output.failed, **output.data},
        duration_ms=took,
    )
    if verdict.stop is not None:
        kit.ending = RunStopped(f"a hook stopped the run: {verdict.stop}")
    text = output.text
    if verdict.updated_output is not None:
        new = verdict.updated_output
        text = new if isinstance(new, str) else msgspec.json.encode(new).decode()
    said = [*([verdict.block] if verdict.block else []), *verdict.context]
    if said:
        text = f"{text}\n\n{reminder(*said)}"
    return output if text is output.text else replace(output, text=text)


def clean(kit: SessionState, output: ToolOutput) -> ToolOutput:
    """Take the secrets out of an output, for all who will read it."""
    if kit.redact is None:
        return output
    return replace(
        output,
        text=kit.redact(output.text),
        display=kit.redact(output.display),
        data=kit.redact(output.data),
    )


def finish(kit: SessionState, call: ToolCall, output: ToolOutput) -> tuple[Message, str | None]:
    """Make the message that answers `call`; this is where a long output is cut.

    Returns:
        The message, and the uncut text if the message does not hold all of it.
    """
    tool = kit.tools.get(call.name)
    limit = kit.policy.output_limit(kit.journal.view.setup.model.window)
    if tool is not None and tool.max_output_chars is not None:
        limit = tool.max_output_chars
    next_id = kit.journal.entries[-1].id + 1
    text = truncate_middle(output.text, limit, where=f"; entry #{next_id} has it")
    result = ToolResult(
        call_id=call.call_id,
        name=call.name,
        text=text,
        failed=output.failed,
        images=output.images,
    )
    full_text = output.text if text != output.text else None
    return Message(role=Role.TOOL, parts=(result,)), full_text


def interrupted() -> Outcome:
    """Return the outcome of a call that was cut short."""
    return failure(_INTERRUPTED, "interrupted")


def failure(text: str, error_code: str) -> Outcome:
    """Return the outcome of a call that brought nothing but words about why."""
    return Outcome(output=ToolOutput(text=text, failed=True), error_code=error_code)


def _denied(reason: str, error_code: str) -> Outcome:
    output = ToolOutput(text=f"Permission denied: {reason}.", failed=True)
    return Outcome(output=output, denied=True, error_code=error_code)
