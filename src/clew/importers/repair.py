"""Repair recordings: choose the branch of the last message, and pair calls with results.

Tools write their files while they work, so results may be out of order, late, repeated or
missing. After the repair, a provider would accept the conversation.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from clew.core.ids import CallId
from clew.core.messages import Role, ToolCall, ToolResult, tool_result, user
from clew.importers.import_notes import ImportNotes
from clew.importers.recorded_session import Draft, RecordedStep

NO_RESULT = "Error: no result was recorded for this call."
NO_BEGINNING = "(The beginning of this conversation was not recorded.)"


def repair_conversation(drafts: Iterable[Draft], notes: ImportNotes) -> tuple[RecordedStep, ...]:
    """Order calls and results and add missing ones; every repair adds a note."""
    steps = [draft.step() for draft in drafts]
    results = _results(steps, notes)
    asked: set[CallId] = set()
    made: list[RecordedStep] = []
    empty = unanswered = 0
    for step in steps:
        if step.message.role is Role.TOOL:
            continue
        kept = _remove_repeats(step, asked, notes)
        if not kept.message.parts:
            empty += 1
            continue
        made.append(kept)
        for call in kept.message.calls:
            found = results.pop(call.call_id, None)
            unanswered += found is None
            made.append(_answer(call, found, at=kept.at))
    notes.add_count(
        unanswered,
        "1 call had no result and was given a failed one",
        "{} calls had no result and were given failed ones",
    )
    notes.add_count(
        len(results),
        "1 result without a call was dropped",
        "{} results without a call were dropped",
    )
    notes.add_count(empty, "1 empty message was dropped", "{} empty messages were dropped")
    return _start_with_user(made, notes)


def _results(steps: Sequence[RecordedStep], notes: ImportNotes) -> dict[CallId, RecordedStep]:
    found: dict[CallId, RecordedStep] = {}
    repeated = 0
    for step in steps:
        for result in step.message.results:
            repeated += result.call_id in found
            found.setdefault(result.call_id, step)
    notes.add_count(repeated, "1 repeated result was dropped", "{} repeated results were dropped")
    return found


def _remove_repeats(step: RecordedStep, asked: set[CallId], notes: ImportNotes) -> RecordedStep:
    """Remove repeated calls, and remember the others."""
    if not step.message.calls:
        return step
    parts = []
    for part in step.message.parts:
        if isinstance(part, ToolCall):
            if part.call_id in asked:
                notes.add(f"call {part.call_id} was recorded again and dropped")
                continue
            asked.add(part.call_id)
        parts.append(part)
    if len(parts) == len(step.message.parts):
        return step
    return replace(step, message=replace(step.message, parts=tuple(parts)))


def _answer(call: ToolCall, found: RecordedStep | None, *, at: float) -> RecordedStep:
    if found is None:
        return RecordedStep(message=tool_result(call, NO_RESULT, failed=True), at=at)
    parts = tuple(
        replace(part, name=call.name) if isinstance(part, ToolResult) else part
        for part in found.message.parts
    )
    return replace(found, message=replace(found.message, parts=parts))


def _start_with_user(steps: list[RecordedStep], notes: ImportNotes) -> tuple[RecordedStep, ...]:
    if steps and steps[0].message.role is not Role.USER:
        notes.add("the recording starts with a response; a user message was added before it")
        steps.insert(0, RecordedStep(message=user(NO_BEGINNING), at=steps[0].at))
    return tuple(steps)


def last_model(steps: Sequence[RecordedStep]) -> str:
    """Return the model of the last response; empty when unknown."""
    return next((step.model for step in reversed(steps) if step.model), "")


class TreeNode(Struct, frozen=True):
    """The position of a line in the tree; `id` is empty for a line outside it."""

    id: str
    parent: str = ""
    """Empty for a root."""


class Branch(Struct, frozen=True):
    """The lines that led to the last message."""

    members: frozenset[int]
    breaks: int
    """How often a parent was missing, so that the previous line in the file was used."""
    cut_off: bool = False
    """True when the parent of the first line is missing."""

    def describe(self, notes: ImportNotes, off: int) -> None:
        """Add notes; `off` is the number of message lines on other branches."""
        if self.cut_off:
            notes.add("the recording starts in the middle: the beginning is in another file")
        notes.add_count(
            self.breaks,
            "1 parent is missing; file order was used instead",
            "{} parents are missing; file order was used instead",
        )
        notes.add_count(
            off,
            "skipped 1 message on another branch",
            "skipped {} messages on other branches",
        )


def find_branch(nodes: Sequence[TreeNode], last: int) -> Branch:
    """Follow the parents from `last` to its root.

    Where a parent is missing, the previous line in the file takes its place.
    """
    places = {node.id: place for place, node in enumerate(nodes) if node.id}
    members: set[int] = set()
    breaks = 0
    place: int | None = last
    while place is not None and place not in members:
        members.add(place)
        parent = nodes[place].parent
        if not parent:
            break
        if parent in places:
            place = places[parent]
        else:
            place = _before(nodes, place)
            breaks += place is not None
    return Branch(frozenset(members), breaks, cut_off=place is None)


def _before(nodes: Sequence[TreeNode], place: int) -> int | None:
    return next((earlier for earlier in range(place - 1, -1, -1) if nodes[earlier].id), None)
