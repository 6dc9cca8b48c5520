"""A check of the notes that a model wrote: the prompt, and what becomes of the answer.

A second call sees the notes, what code extracted from the conversation, and the conversation
itself. It lists what the notes left out; these points are appended as far as there is room.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from clew.context.estimate import text_units
from clew.core.messages import Message, user

CHECK_SYSTEM = (
    "You check the handover notes of a work session. Report only what the transcript says."
)
HEADING = "Added after a check of these notes:"
_NOTHING = "NOTHING"
_TASK = f"""\
A colleague will continue this work with the notes below, but without the transcript. List what
the notes lack: a wish or rule of the user, a decision with its reason, something that
failed or was rejected, an exact name, path, command or value, an unfinished step. Leave out what
the notes say already, in whatever words, and what does not matter for the rest of the work. Write
one point per line, the most important first, each complete in itself and beginning with "- ".
If nothing is missing, answer {_NOTHING}."""
_POINT = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+(\S.*?)\s*$")
_MOST_POINTS = 40


class CheckedNotes(Struct, frozen=True, kw_only=True):
    """The notes after a check."""

    text: str
    added: tuple[str, ...]
    left_out: int
    """Points that were found, but did not fit into the budget."""


def build_check_prompt(notes: str, *, facts: str, transcript: Sequence[str]) -> Message:
    """Build the prompt that asks what `notes` left out of `transcript`."""
    blocks = [_TASK, f"Notes:\n{notes}"]
    if facts:
        blocks.append(f"Facts that a program extracted from the session:\n{facts}")
    blocks.append("Transcript:\n" + "\n".join(transcript))
    return user("\n\n".join(blocks))


def parse_points(answer: str) -> list[str]:
    """Return the points of an answer; text around the list is ignored."""
    found = (_POINT.match(line) for line in answer.splitlines())
    return [match.group(1) for match in found if match is not None][:_MOST_POINTS]


def add_points(notes: str, points: Sequence[str], *, max_units: int) -> CheckedNotes:
    """Append those of `points` to `notes` that are new and fit, in their order."""
    text, left_out = notes, 0
    added: list[str] = []
    known = _normalize(notes)
    for point in points:
        if _normalize(point) in known:
            continue
        known += _normalize(point)
        longer = f"{text}\n- {point}" if added else f"{text}\n\n{HEADING}\n- {point}"
        if text_units(longer) > max_units:
            left_out += 1
            continue
        text = longer
        added.append(point)
    return CheckedNotes(text=text, added=tuple(added), left_out=left_out)


def _normalize(text: str) -> str:
    return " ".join(text.lower().split())
