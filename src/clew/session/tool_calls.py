"""Running the tool calls of one answer.

Each call goes through prepare → decide → execute → finish and ends in exactly one result,
whatever happens to it. Calls run side by side; results are committed in call order.
"""

import logging
from collections.abc import Sequence
from typing import Any

import anyio
from msgspec import Struct

from clew.context.excerpt import excerpt
from clew.core.access import Verdict
from clew.core.entries import MessageAdded
from clew.core.errors import ClewError
from clew.core.events import ToolEnded, ToolStarted
from clew.core.messages import Message, Role, ToolCall, ToolResult
from clew.session.kit import Kit
from clew.tools.protocol import Tool, ToolOutput

logger = logging.getLogger(__name__)

_INTERRUPTED = "Error: the run was aborted before this tool call was finished."


class Outcome(Struct, frozen=True, kw_only=True):
    """How one call ended."""

    output: ToolOutput
    denied: bool = False
    error_code: str = ""


async def run_calls(kit: Kit, calls: Sequence[ToolCall]) -> None:
    """Run `calls` and commit one result for each, in the order of the calls.

    A result is committed as soon as those before it are, so that a crash loses no more
    than what was still running. An abort gives the rest a failed result.
    """
    outcomes: dict[int, Outcome] = {}
    committed = 0
    limit = anyio.Semaphore(kit.parallel_tools, fast_acquire=True)
    order = anyio.Lock(fast_acquire=True)

    async def commit_ready() -> None:
        nonlocal committed
        async with order:
            while committed in outcomes:
                await _commit(kit, calls[committed], outcomes[committed])
                committed += 1

    async def one(index: int) -> None:
        try:
            async with limit:
                outcomes[index] = await run_call(kit, calls[index])
            with anyio.CancelScope(shield=True):
                await commit_ready()
        except ClewError as error:
            # Raised below as it is, not wrapped in a group.
            failures.append(error)
            tasks.cancel_scope.cancel()

    failures: list[ClewError] = []
    try:
        async with anyio.create_task_group() as tasks:
            for index in range(len(calls)):
                tasks.start_soon(one, index)
        if failures:
            raise failures[0]
    finally:
        with anyio.CancelScope(shield=True):
            for index in range(len(calls)):
                if index not in outcomes:
                    outcomes[index] = _failure(_INTERRUPTED, "interrupted")
            await commit_ready()


async def run_call(kit: Kit, call: ToolCall, *, decided: bool = False) -> Outcome:
    """Take one call from its name to its outcome; raises nothing but cancellation.

    With `decided`, a person asked for the call directly and permissions are not consulted.
    """
    kit.emit(ToolStarted(call_id=call.call_id, name=call.name, arguments=call.arguments))
    tool = kit.tools.get(call.name)
    if tool is None:
        known = ", ".join(sorted(kit.tools)) or "none"
        return _failure(
            f"Error: there is no tool {call.name}. Known tools: {known}.", "unknown_tool"
        )
    try:
        arguments = call.decoded()
    except ValueError as error:
        return _failure(f"Error: {error}", "bad_arguments")
    return await _execute(kit, tool, arguments, decided=decided)


async def _execute(kit: Kit, tool: Tool, arguments: dict[str, Any], *, decided: bool) -> Outcome:
    try:
        if not decided:
            decision = await kit.gate.judge(tool.access(arguments, kit.place))
            if decision.verdict is not Verdict.ALLOW:
                text = f"Permission denied: {decision.reason}."
                return Outcome(output=ToolOutput(text=text, failed=True), denied=True)
        return Outcome(output=await tool.run(arguments, kit.place))
    except Exception as error:
        logger.warning("tool %s crashed", tool.spec.name, exc_info=True)
        return _failure(f"Error: {tool.spec.name} crashed: {error!r}", "crashed")


async def commit_outcome(kit: Kit, call: ToolCall, outcome: Outcome | None) -> None:
    """Commit the one result of `call`; None stands for a call that was cut short."""
    with anyio.CancelScope(shield=True):
        await _commit(kit, call, outcome or _failure(_INTERRUPTED, "interrupted"))


async def _commit(kit: Kit, call: ToolCall, outcome: Outcome) -> None:
    message, full_text = finish(kit, call, outcome.output)
    await kit.journal.append(MessageAdded(message=message, full_text=full_text))
    kit.emit(
        ToolEnded(
            call_id=call.call_id,
            name=call.name,
            failed=outcome.output.failed,
            denied=outcome.denied,
            error_code=outcome.error_code,
            display=outcome.output.display or outcome.output.text,
        )
    )


def finish(kit: Kit, call: ToolCall, output: ToolOutput) -> tuple[Message, str | None]:
    """Make the message that answers `call`; this is where a long output is cut.

    Returns:
        The message, and the uncut text if the message does not hold all of it.
    """
    tool = kit.tools.get(call.name)
    limit = kit.policy.output_limit(kit.journal.view.setup.model.window)
    if tool is not None and tool.max_output_chars is not None:
        limit = tool.max_output_chars
    next_id = kit.journal.entries[-1].id + 1
    text = excerpt(output.text, limit, where=f"; entry #{next_id} has it")
    result = ToolResult(
        call_id=call.call_id,
        name=call.name,
        text=text,
        failed=output.failed,
        images=output.images,
    )
    full_text = output.text if text != output.text else None
    return Message(role=Role.TOOL, parts=(result,)), full_text


def _failure(text: str, error_code: str) -> Outcome:
    return Outcome(output=ToolOutput(text=text, failed=True), error_code=error_code)
