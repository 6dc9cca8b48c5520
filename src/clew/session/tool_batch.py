"""Runs the tool calls of one answer.

Each call ends in exactly one result, whatever happens to it. Calls run concurrently; results are
committed in call order.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import anyio

from clew.core.entries import MessageAdded
from clew.core.errors import ClewError
from clew.core.messages import ToolCall
from clew.core.permissions import PermissionRecord
from clew.core.redaction import redact
from clew.core.tool_states import ToolReport, report_call
from clew.session.call_records import OUTCOME_UNKNOWN, split_open_calls
from clew.session.journal import find_next_id
from clew.session.state import SessionState
from clew.session.tool_execution import (
    CallOutcome,
    make_failed_outcome,
    make_interrupted_outcome,
    publish_end,
    publish_start,
    run_call,
)
from clew.session.tool_output import make_result, redact_output
from clew.session.write_lock import shield_writes


async def run_calls(
    state: SessionState, calls: Sequence[ToolCall], *, attached: bool = False
) -> None:
    """Run `calls` and commit one result for each, in the order of the calls.

    A result is committed as soon as those before it are, so that a crash loses only the calls
    that were still running. An abort gives these a failed result. With `attached`, they read what
    the user attached to a prompt.

    Raises:
        SessionError: A hook or the loop guard ended the run; all results are committed.
    """
    if len(calls) == 1:
        await _run_alone(state, calls[0], attached=attached)
    else:
        await _run_together(state, calls, attached=attached)
    raise_ending(state)


async def resume_calls(state: SessionState) -> None:
    """Finish the calls of an answer that a crash interrupted.

    Calls that were not recorded as begun run now; the others get a failed result, because it
    is unknown what they have done. Raises as `run_calls` does.
    """
    again, begun = split_open_calls(state.journal)
    for call in begun:
        publish_start(state, call)
        await commit_outcome(state, call, make_failed_outcome(OUTCOME_UNKNOWN, "outcome_unknown"))
    if again:
        await run_calls(state, again)


def raise_ending(state: SessionState) -> None:
    """End the run if a hook or the loop guard wants that.

    Raises:
        SessionError: Why the run ends.
    """
    ending, state.ending = state.ending, None
    if ending is not None:
        raise ending


async def _run_alone(state: SessionState, call: ToolCall, *, attached: bool) -> None:
    """Run the only call of an answer; it needs no task of its own."""
    outcome: CallOutcome | None = None
    try:
        outcome = await run_call(state, call, attached=attached)
    finally:
        await commit_outcome(state, call, outcome)


async def _run_together(state: SessionState, calls: Sequence[ToolCall], *, attached: bool) -> None:
    outcomes: dict[int, CallOutcome] = {}
    committed = 0
    limit = anyio.Semaphore(state.options["max_parallel_tools"], fast_acquire=True)
    order = anyio.Lock(fast_acquire=True)

    async def commit_ready() -> None:
        nonlocal committed
        async with order:
            while committed in outcomes:
                await _commit(state, calls[committed], outcomes[committed])
                committed += 1

    async def one(index: int) -> None:
        try:
            async with limit:
                outcomes[index] = await run_call(state, calls[index], attached=attached)
            with anyio.CancelScope(shield=True):
                await commit_ready()
        except ClewError as error:
            # Raised below, so that it is not wrapped in an exception group.
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
                    outcomes[index] = make_interrupted_outcome(state, calls[index])
            await commit_ready()


async def commit_outcome(state: SessionState, call: ToolCall, outcome: CallOutcome | None) -> None:
    """Commit the result of `call`; None means that the call was cut off."""
    with shield_writes(state.options["store"]):
        await _commit(state, call, outcome or make_interrupted_outcome(state, call))


def _take_decision(
    state: SessionState, call: ToolCall, data: Mapping[str, Any]
) -> PermissionRecord | None:
    decision = state.decisions.pop(call.call_id, None)
    if decision is None:
        return None
    values = state.tool_context.redact_values
    return PermissionRecord(
        verdict=decision.verdict,
        by=decision.by,
        reason=_redact_reason(decision.reason, values),
        question=_redact_reason(decision.question, values),
        sandboxed=sandboxed if isinstance(sandboxed := data.get("sandbox"), bool) else None,
    )


@lru_cache(maxsize=64)
def _redact_reason(reason: str, values: tuple[str, ...] | None) -> str:
    """Redact the reason of a decision; most calls share a few of them."""
    return reason if values is None else redact(reason, extra_values=values)


async def _commit(state: SessionState, call: ToolCall, outcome: CallOutcome) -> None:
    state.progress.pop(call.call_id, None)
    output = redact_output(state, outcome.output)
    next_id = await find_next_id(state.journal)
    message, full_text = make_result(state, call, output, next_id=next_id)
    report = report_call(
        output.data,
        denied=outcome.denied,
        error_code=outcome.error_code,
        failed=output.failed,
        display=output.display,
        permission=_take_decision(state, call, output.data),
    )
    await state.journal.append(
        MessageAdded(
            message=message,
            full_text=full_text,
            report=report if report != ToolReport() else None,
        )
    )
    publish_end(state, call, outcome, output)
    state.publish_todos()
