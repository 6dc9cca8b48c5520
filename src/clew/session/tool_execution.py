"""One tool call, from its name to its outcome: prepare → decide → hooks → execute → finish."""

import time
from functools import lru_cache
from typing import Any, cast

import anyio.to_thread
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.errors import LoopDetected, RunStopped, StoreError
from clew.core.events import ToolEnded, ToolStarted
from clew.core.messages import ToolCall
from clew.core.permissions import (
    Access,
    DecidedBy,
    Decision,
    PermissionAnswer,
    Risk,
    TargetKind,
    Verdict,
)
from clew.core.redaction.marks import find_mark
from clew.core.text import end_sentence
from clew.core.tool_states import unwrap_call
from clew.hooks.protocol import HookEvent, HookVerdict
from clew.session.call_records import only_reads
from clew.session.hook_events import fire, format_reminder, has_hooks
from clew.session.limits import WARN_AFTER, LoopAdvice
from clew.session.state import SessionState
from clew.session.tool_progress import (
    make_model_question,
    make_user_question,
    start_progress,
    take_partial_output,
)
from clew.tools.protocol import (
    ChecksArguments,
    ForwardsCalls,
    RehearsesCalls,
    Tool,
    ToolContext,
    ToolOutput,
)

_INTERRUPTED = "Error: the run was aborted before this tool call was finished."
_REPEATED = (
    f"This call has had the same result {WARN_AFTER} times or more."
    " Do something else, or say what is missing."
)

_MARKED = (
    "Error: {tool} was not run. {mark} stands for a secret that you cannot see, and the call would"
    " use the mark itself. To change a file that has the secret, use Edit: it puts the secret"
    " back. A command can read the secret from its file or variable."
)


class CallOutcome(Struct, frozen=True, kw_only=True):
    """How one tool call ended."""

    output: ToolOutput
    denied: bool = False
    error_code: str = ""


class Prepared(Struct, frozen=True, kw_only=True):
    """A call with a known tool and valid arguments."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    allowed_paths: tuple[str, ...] = ()
    """The real paths that the decision is about."""
    answer: PermissionAnswer | None = None
    """What the user answered to the question of the tool."""


async def run_call(
    state: SessionState, call: ToolCall, *, decided: bool = False, attached: bool = False
) -> CallOutcome:
    """Take one call from its name to its outcome; raises nothing but cancellation.

    With `decided`, the user started the call, so permissions and hooks are not consulted. With
    `attached`, the user named what it reads, so that only rules and hooks that deny it count.
    """
    publish_start(state, call, by_user=decided)
    prepared = _prepare(state, call)
    if isinstance(prepared, CallOutcome):
        return prepared
    try:
        if decided:
            return await _run(state, prepared)
        return await _judge(state, prepared, attached=attached)
    except Exception as error:
        import logging  # noqa: PLC0415 - slow to import, and seldom needed

        logging.getLogger(__name__).warning("tool %s crashed", call.name, exc_info=True)
        return make_failed_outcome(f"Error: {call.name} crashed: {error!r}", "crashed")


def _prepare(state: SessionState, call: ToolCall) -> Prepared | CallOutcome:
    tool = state.tools.get(call.name)
    if tool is None:
        known = ", ".join(sorted(state.tools)) or "none"
        return make_failed_outcome(
            f"Error: there is no tool {call.name}. Known tools: {known}.", "unknown_tool"
        )
    try:
        arguments = call.decode_arguments()
    except ValueError as error:
        return make_failed_outcome(f"Error: {error}", "bad_arguments")
    if _forwards_calls(type(tool)):
        found = cast("ForwardsCalls", tool).resolve(arguments)
        if isinstance(found, ToolOutput):
            return CallOutcome(output=found, error_code="bad_arguments")
        tool, arguments = found
    return Prepared(call=call, tool=tool, arguments=arguments)


@lru_cache(maxsize=256)
def _forwards_calls(kind: type[Tool]) -> bool:
    """Return whether tools of a class pass calls on; asking a protocol is slow."""
    return issubclass(kind, ForwardsCalls)


async def _judge(state: SessionState, prepared: Prepared, *, attached: bool = False) -> CallOutcome:
    """Run a call if the rules, the hooks and, where these leave it open, the user allow it."""
    access = _access(state, prepared)
    if mark := _find_mark(state, access):
        return make_failed_outcome(mark, "redaction_mark")
    targets, decision = state.gate.find_targets(access), state.gate.decide(access)
    wish: Decision | None = None
    if decision.verdict is not Verdict.DENY and has_hooks(state):
        verdict = await _before(state, prepared)
        if verdict.stop is not None:
            stopped = Decision(
                Verdict.DENY, f"a hook stopped the run: {verdict.stop}", DecidedBy.HOOK
            )
            state.ending = RunStopped(stopped.reason)
            return _deny(state, prepared, stopped, "hook_stopped")
        wish = replace(verdict.decision, by=DecidedBy.HOOK) if verdict.decision else None
        if wish is not None and wish.verdict is Verdict.DENY:
            blocked = replace(wish, reason=f"a hook blocked this call: {wish.reason}")
            return _deny(state, prepared, blocked, "hook_blocked")
        if verdict.updated_input is not None:
            prepared = replace(prepared, arguments=verdict.updated_input)
            access = _access(state, prepared)
            if mark := _find_mark(state, access):
                return make_failed_outcome(mark, "redaction_mark")
        # The mode, the grants and links in paths may have changed while the hooks ran.
        targets, decision = state.gate.find_targets(access), state.gate.decide(access)
    if attached and decision.verdict is Verdict.ASK:
        decision = Decision(Verdict.ALLOW, "the user attached this", DecidedBy.ANSWER)
    asks = Verdict.ASK in (decision.verdict, wish.verdict if wish else None)
    if asks and (problem := await _find_failure(state, prepared, access, targets)) is not None:
        return await _run(state, prepared, problem=problem)
    final = await state.gate.judge(access, decision=decision, wish=wish)
    if final.verdict is not Verdict.ALLOW:
        return _deny(state, prepared, final, "denied")
    state.decisions[prepared.call.call_id] = final
    prepared = replace(prepared, allowed_paths=targets, answer=final.answer)
    return await _run(state, prepared)


async def _find_failure(
    state: SessionState, prepared: Prepared, access: Access, targets: tuple[str, ...]
) -> ToolOutput | None:
    """Return the failure of a call that cannot succeed: the user need not be asked about it."""
    tool, arguments = prepared.tool, prepared.arguments
    if isinstance(tool, ChecksArguments):
        problem = await anyio.to_thread.run_sync(tool.check, arguments)
        if problem is not None:
            return problem
    if not isinstance(tool, RehearsesCalls) or access.kind is not TargetKind.PATH:
        return None
    reading = replace(access, tool="Read", risk=Risk.INSPECT)
    if state.gate.decide(reading).verdict is not Verdict.ALLOW:
        # What the call would find is not for the model to know.
        return None
    context = replace(state.tool_context, allowed_paths=targets)
    return await tool.rehearse(arguments, context)


def _deny(
    state: SessionState, prepared: Prepared, decision: Decision, error_code: str
) -> CallOutcome:
    state.decisions[prepared.call.call_id] = decision
    output = ToolOutput(text=end_sentence(f"Permission denied: {decision.reason}"), failed=True)
    return CallOutcome(output=output, denied=True, error_code=error_code)


def _access(state: SessionState, prepared: Prepared) -> Access:
    access = prepared.tool.access(prepared.arguments, state.tool_context)
    return replace(access, call_id=prepared.call.call_id, arguments=prepared.arguments)


def _find_mark(state: SessionState, access: Access) -> str:
    """Say why a call may not have these arguments: it would write a mark instead of a secret."""
    if access.risk is Risk.INSPECT or access.restores_secrets:
        return ""
    if state.tool_context.redact_values is None:
        return ""
    mark = find_mark(access.arguments)
    return _MARKED.format(tool=access.tool, mark=mark) if mark else ""


async def _run(
    state: SessionState, prepared: Prepared, *, problem: ToolOutput | None = None
) -> CallOutcome:
    """Run the tool, or report the problem with its arguments in its place."""
    name = prepared.call.name
    advice = state.loop_guard.check(prepared.call)
    if advice is LoopAdvice.STOP:
        state.ending = LoopDetected(
            f"the model kept calling {name} with the same arguments, although the result was the"
            " same each time. Tell it what to do differently."
        )
    if advice in {LoopAdvice.REFUSE, LoopAdvice.STOP}:
        return make_failed_outcome(f"Error: {name} was not run. {_REPEATED}", "repeated")
    started = time.monotonic()
    timeout = state.options["tool_timeout"]
    context = replace(
        state.tool_context,
        call_id=prepared.call.call_id,
        allowed_paths=prepared.allowed_paths,
        progress=start_progress(state, prepared.call),
        answer=prepared.answer,
        ask=make_user_question(state, prepared.tool.spec.name, prepared.call.call_id),
        ask_model=make_model_question(state, prepared.tool.spec.name),
    )
    if problem is None and state.options["record_calls"]:
        problem = await _record_start(state, prepared)
    output = problem or await _run_in_time(prepared, context, timeout)
    if output is None:
        ended = f"Error: {name} was ended after {timeout:g} seconds."
        return _make_partial_outcome(state, prepared.call, ended, "timed_out")
    state.loop_guard.record(prepared.call, output.text)
    if advice is LoopAdvice.WARN:
        output = replace(output, text=f"{output.text}\n\n{format_reminder(_REPEATED)}", loads=())
    if has_hooks(state):
        took = round((time.monotonic() - started) * 1000)
        output = await _after(state, prepared, output, took)
    return CallOutcome(output=output)


async def _record_start(state: SessionState, prepared: Prepared) -> ToolOutput | None:
    """Record that a call is about to run, unless it only reads; returns why it must not run."""
    if only_reads(state.gate, _access(state, prepared)):
        return None
    try:
        await state.call_records.add(state.journal, prepared.call.call_id)
    except StoreError as error:
        text = f"Error: {prepared.call.name} was not run, because the session cannot be written"
        return ToolOutput(text=f"{text}: {error}", failed=True)
    return None


async def _run_in_time(
    prepared: Prepared, context: ToolContext, seconds: float | None
) -> ToolOutput | None:
    """Run the tool; returns None if it takes longer than that."""
    if seconds is None:
        return await prepared.tool.run(prepared.arguments, context)
    with anyio.move_on_after(seconds):
        return await prepared.tool.run(prepared.arguments, context)
    return None


async def _before(state: SessionState, prepared: Prepared) -> HookVerdict:
    return await fire(
        state,
        HookEvent.PRE_TOOL_USE,
        tool_name=prepared.tool.spec.name,
        tool_input=prepared.arguments,
        tool_use_id=prepared.call.call_id,
    )


async def _after(
    state: SessionState, prepared: Prepared, output: ToolOutput, took: int
) -> ToolOutput:
    """Fire PostToolUse and add the context that hooks return to the output."""
    verdict = await fire(
        state,
        HookEvent.POST_TOOL_USE,
        tool_name=prepared.tool.spec.name,
        tool_input=prepared.arguments,
        tool_use_id=prepared.call.call_id,
        tool_response={"text": output.text, "failed": output.failed, **output.data},
        duration_ms=took,
    )
    if verdict.stop is not None:
        state.ending = RunStopped(f"a hook stopped the run: {verdict.stop}")
    text = output.text
    if verdict.updated_output is not None:
        new = verdict.updated_output
        text = new if isinstance(new, str) else msgspec.json.encode(new).decode()
    said = [*([verdict.block] if verdict.block else []), *verdict.context]
    if said:
        text = f"{text}\n\n{format_reminder(*said)}"
    return output if text is output.text else replace(output, text=text, loads=())


def make_interrupted_outcome(state: SessionState, call: ToolCall) -> CallOutcome:
    """Return the outcome of a call that was cut off, with the output that it had until then."""
    return _make_partial_outcome(state, call, _INTERRUPTED, "interrupted")


def _make_partial_outcome(
    state: SessionState, call: ToolCall, text: str, error_code: str
) -> CallOutcome:
    partial = take_partial_output(state, call)
    full = f"{text} Its output until then:\n{partial}" if partial else text
    return make_failed_outcome(full, error_code)


def make_failed_outcome(text: str, error_code: str) -> CallOutcome:
    """Return the outcome of a call that failed, with the reason as its text."""
    return CallOutcome(output=ToolOutput(text=text, failed=True), error_code=error_code)


def publish_start(state: SessionState, call: ToolCall, *, by_user: bool = False) -> None:
    """Publish that a call has begun."""
    name, arguments = unwrap_call(call.name, call.arguments)
    state.emit(ToolStarted(call_id=call.call_id, name=name, arguments=arguments, by_user=by_user))


def publish_end(
    state: SessionState, call: ToolCall, outcome: CallOutcome, output: ToolOutput
) -> None:
    """Publish that a call has ended.

    Args:
        state: The session.
        call: The call.
        outcome: How it ended.
        output: Its output, redacted.
    """
    state.emit(
        ToolEnded(
            call_id=call.call_id,
            name=unwrap_call(call.name, call.arguments)[0],
            failed=output.failed,
            denied=outcome.denied,
            error_code=outcome.error_code,
            display=output.display or output.text,
            data=output.data,
        )
    )
