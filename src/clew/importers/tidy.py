"""Making a recorded conversation one that a provider would accept.

Tools write their files while they work, so results arrive out of order, late, twice or
never. Here every call gets its result, directly behind it.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from clew.core.ids import CallId
from clew.core.messages import Role, ToolCall, ToolResult, tool_result, user
from clew.importers.findings import Findings
from clew.importers.parts import Draft
from clew.importers.recorded import Step

NO_RESULT = "Error: no result was recorded for this call."
NO_BEGINNING = "(The beginning of this conversation was not recorded.)"


def tidy(drafts: Iterable[Draft], findings: Findings) -> tuple[Step, ...]:
    """Put calls and results in order and fill what is missing, noting every repair."""
    steps = [draft.step() for draft in drafts]
    results = _results(steps, findings)
    asked: set[CallId] = set()
    made: list[Step] = []
    empty = unanswered = 0
    for step in steps:
        if step.message.role is Role.TOOL:
            continue
        fresh = _without_repeats(step, asked, findings)
        if not fresh.message.parts:
            empty += 1
            continue
        made.append(fresh)
        for call in fresh.message.calls:
            found = results.pop(call.call_id, None)
            unanswered += found is None
            made.append(_answer(call, found, at=fresh.at))
    findings.count(
        unanswered,
        "1 call had no result and was given a failed one",
        "{} calls had no result and were given failed ones",
    )
    findings.count(
        len(results),
        "1 result without a call was dropped",
        "{} results without a call were dropped",
    )
    findings.count(empty, "1 empty message was left out", "{} empty messages were left out")
    return _begun_by_user(made, findings)


def _results(steps: Sequence[Step], findings: Findings) -> dict[CallId, Step]:
    found: dict[CallId, Step] = {}
    repeated = 0
    for step in steps:
        for result in step.message.results:
            repeated += result.call_id in found
            found.setdefault(result.call_id, step)
    findings.count(repeated, "1 repeated result was dropped", "{} repeated results were dropped")
    return found


def _without_repeats(step: Step, asked: set[CallId], findings: Findings) -> Step:
    """Take out the calls that were made before, and remember the others."""
    if not step.message.calls:
        return step
    parts = []
    for part in step.message.parts:
        if isinstance(part, ToolCall):
            if part.call_id in asked:
                findings.note(f"call {part.call_id} was recorded again and dropped")
                continue
            asked.add(part.call_id)
        parts.append(part)
    if len(parts) == len(step.message.parts):
        return step
    return replace(step, message=replace(step.message, parts=tuple(parts)))


def _answer(call: ToolCall, found: Step | None, *, at: float) -> Step:
    if found is None:
        return Step(message=tool_result(call, NO_RESULT, failed=True), at=at)
    parts = tuple(
        replace(part, name=call.name) if isinstance(part, ToolResult) else part
        for part in found.message.parts
    )
    return replace(found, message=replace(found.message, parts=parts))


def _begun_by_user(steps: list[Step], findings: Findings) -> tuple[Step, ...]:
    if steps and steps[0].message.role is not Role.USER:
        findings.note("the recording begins with an answer; a line in the user's place says so")
        steps.insert(0, Step(message=user(NO_BEGINNING), at=steps[0].at))
    return tuple(steps)


def last_model(steps: Sequence[Step]) -> str:
    """Return the model that gave the last answer; empty when none is known."""
    return next((step.model for step in reversed(steps) if step.model), "")
