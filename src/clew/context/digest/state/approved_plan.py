"""The plan that the user approved last: what the work since then follows, quoted."""

import re
from collections.abc import Iterable
from itertools import accumulate

from msgspec import Struct

from clew.context.digest.steps.tool_steps import ToolStep
from clew.core.ids import EntryId

_PLAN_TOOL = "exitplanmode"
_REFUSED = "The user did not approve"
_QUOTED = re.compile(r"^(?:## Approved Plan[^\n]*:|.*\bCarry out this plan:)$", re.MULTILINE)
"""Begins the plan in a result: it is there if the user changed it, or always."""
_CODE = re.compile(r"^([ \t]*)(```|~~~).{400,}?^[ \t]*\2[ \t]*$", re.DOTALL | re.MULTILINE)
_GAP = "\n…\n"


class ApprovedPlan(Struct, frozen=True, kw_only=True):
    """A plan and the entry of its approval."""

    entry_id: EntryId
    text: str


def find_plan(newest_first: Iterable[ToolStep]) -> ApprovedPlan | None:
    """Return the plan that was approved last; None if there is none."""
    for step in newest_first:
        if step.name != _PLAN_TOOL or step.failed or not step.answered:
            continue
        if step.result.startswith(_REFUSED):
            continue
        text = find_quoted_plan(step.result) or str(step.arguments.get("plan", ""))
        if text.strip():
            return ApprovedPlan(entry_id=step.result_id, text=text.strip())
    return None


def find_quoted_plan(result: str) -> str:
    """Return the plan that a result quotes after its approval; empty if it quotes none."""
    heading = _QUOTED.search(result)
    return result[heading.end() :] if heading else ""


def quote_plan(text: str, *, max_chars: int) -> str:
    """Quote a plan in at most `max_chars` characters.

    One that does not fit loses its long pieces of code, and then whole lines in the middle: the
    beginning says what is to be done, and the end how to check it.
    """
    if len(text) > max_chars:
        text = _CODE.sub(r"\1…", text)
    if len(text) <= max_chars:
        return text
    lines = [line for line in text.split("\n") if line.strip()]
    room = max_chars - len(_GAP)
    first = _count_fitting(lines, room * 2 // 3)
    last = _count_fitting(
        reversed(lines[first:]), room - sum(len(line) + 1 for line in lines[:first])
    )
    if not first:
        return ""
    end = "\n".join(lines[len(lines) - last :])
    return "\n".join(lines[:first]) + _GAP + end if end else "\n".join(lines[:first])


def _count_fitting(lines: Iterable[str], room: int) -> int:
    """Return how many of the first lines have at most `room` characters."""
    sizes = accumulate(len(line) + 1 for line in lines)
    return sum(size <= room for size in sizes)
