"""Selects which thinking and other private blocks of a model a provider gets.

Only the family that issued a signature accepts it. So each block is echoed, converted to
text, or dropped: a pure function of the block, the reader and the policy.
"""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from clew.core.messages import Message, Native, Part, Reasoning, Text, merge_split_texts
from clew.core.text import truncate_middle

_PRIVATE = (Reasoning, Native)
LONGEST_TEXT = 1_200
"""Characters of one block when thinking is sent as text."""


class Echoes(StrEnum):
    """Which of its own thinking a provider wants back."""

    OWN_ISSUED = "own-issued"
    """Blocks with its signature, or encrypted by it."""
    TOOL_USE_ONLY = "tool-use-only"
    """All of its own, signed or not, after the first tool call."""
    NEVER = "never"


class Fate(StrEnum):
    """What happens to one block."""

    ECHO = "echo"
    TEXT = "text"
    DROP = "drop"


class ReasoningReader(Struct, frozen=True):
    """The receiver of the messages: a provider family, and what it wants echoed."""

    provenance: str
    echoes: Echoes = Echoes.NEVER


class ReasoningPolicy(Struct, frozen=True, kw_only=True):
    """How to send thinking that the reader does not accept unchanged."""

    as_text: bool = False
    """Send it as `<thinking>…</thinking>`; otherwise drop it."""
    longest_text: int | None = LONGEST_TEXT
    """Characters of such a text, head and tail; None for no limit."""
    tools_used: bool = False
    """True if the conversation has called a tool, even if a compaction dropped the call."""


def decide_fate(block: Reasoning, reader: ReasoningReader, policy: ReasoningPolicy) -> Fate:
    """Decide what happens to one block of thinking."""
    own = block.provenance == reader.provenance
    match reader.echoes:
        case Echoes.OWN_ISSUED if own and (block.signature or block.redacted):
            return Fate.ECHO
        case Echoes.TOOL_USE_ONLY if own:
            return Fate.ECHO if policy.tools_used else Fate.DROP
        case _:
            return Fate.TEXT if policy.as_text else Fate.DROP


def adapt_message(message: Message, reader: ReasoningReader, policy: ReasoningPolicy) -> Message:
    """Return `message` without anything that `reader` does not accept.

    A message without private content is returned as the same object.
    """
    for part in message.parts:
        if type(part) in _PRIVATE or part.extra:
            break
    else:
        return message
    own = message.provenance == reader.provenance
    parts: list[Part] = []
    for part in message.parts if own else merge_split_texts(message.parts):
        match part:
            case Reasoning():
                parts += _adapt_reasoning(part, reader, policy)
            case Native(provenance=provenance, note=note):
                if provenance == reader.provenance:
                    parts.append(part)
                elif note:
                    parts.append(Text(note))
            case _:
                parts.append(replace(part, extra="") if part.extra and not own else part)
    same = len(parts) == len(message.parts) and all(map(_is_same, parts, message.parts))
    return message if same else replace(message, parts=tuple(parts))


def is_private_to(message: Message, provenance: str) -> bool:
    """Return whether `message` contains anything that only this family gets back."""
    return message.provenance == provenance or any(
        part.provenance == provenance
        for part in message.parts
        if isinstance(part, Reasoning | Native)
    )


def strip_reasoning(message: Message) -> Message:
    """Return `message` without thinking and private fields: every provider accepts it."""
    parts: list[Part] = []
    for part in merge_split_texts(message.parts):
        match part:
            case Reasoning():
                pass
            case Native(note=note):
                parts += [Text(note)] if note else []
            case _:
                parts.append(replace(part, extra="") if part.extra else part)
    return replace(message, parts=tuple(parts), provenance="")


def format_reasoning(block: Reasoning, longest: int | None = LONGEST_TEXT) -> str:
    """Return the text for a block of thinking; empty if it has no text."""
    text = "[redacted]" if block.redacted and not block.text else block.text.strip()
    if not text:
        return ""
    return f"<thinking>{text if longest is None else truncate_middle(text, longest)}</thinking>"


def _adapt_reasoning(
    block: Reasoning, reader: ReasoningReader, policy: ReasoningPolicy
) -> list[Part]:
    match decide_fate(block, reader, policy):
        case Fate.ECHO:
            return [block]
        case Fate.TEXT:
            text = format_reasoning(block, policy.longest_text)
            return [Text(f"{text}\n")] if text else []
        case Fate.DROP:
            return []


def _is_same(one: Part, other: Part) -> bool:
    return one is other
