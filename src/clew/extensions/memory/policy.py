"""`MemoryPolicyEvaluator`: whether a fact is saved, waits for approval, or is left out."""

from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.text import one_line
from clew.extensions.memory.facts import MAX_FACT

Mode: TypeAlias = Literal["disabled", "approval_required", "auto_save"]
Action: TypeAlias = Literal["save", "queue", "skip"]


class Decision(Struct, frozen=True):
    """What to do with a fact."""

    action: Action
    why: str = ""
    """For `skip`: the reason; it does not repeat the fact."""


class MemoryPolicyEvaluator:
    """Decides about facts; it holds no state and touches nothing.

    Args:
        mode: `disabled` skips all, `approval_required` queues all, and `auto_save` saves
            those that are certain enough. None of them lets a sensitive fact through.
        certain: The confidence from which on `auto_save` saves.
    """

    def __init__(self, mode: Mode = "approval_required", *, certain: float = 0.85) -> None:
        self.mode = mode
        self.certain = certain

    def evaluate(self, text: str, *, confidence: float = 1.0) -> Decision:
        """Decide about a fact that somebody came across."""
        if self.mode == "disabled":
            return Decision("skip", "Remembering is switched off.")
        if why := why_unfit(text):
            return Decision("skip", why)
        if self.mode == "auto_save" and confidence >= self.certain:
            return Decision("save")
        return Decision("queue")


def why_unfit(text: str) -> str:
    """Return why a fact may not be kept at all; empty when it may."""
    if not one_line(text):
        return "There is nothing to remember."
    if len(text) > MAX_FACT:
        return f"It is longer than {MAX_FACT:,} characters. Say it shorter, or in parts."
    from clew.extensions.memory.sensitive import why_sensitive  # noqa: PLC0415 - many patterns

    if kind := why_sensitive(text):
        return f"It seems to hold something secret or personal ({kind}), so it is not kept."
    return ""
