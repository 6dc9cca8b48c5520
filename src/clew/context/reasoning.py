"""What becomes of a model's thinking, and of other private blocks, on the way to a provider.

A signature is worth something only to the family that issued it. So each block is sent back
as it was, turned into plain words, or left out: a pure function of the block, of who will
read it, and of what the user chose.
"""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from clew.core.messages import Message, Native, Part, Reasoning, Text
from clew.core.text import truncate_middle

LONGEST_TEXT = 1_200
"""Characters of one block that are kept when thinking is sent as words."""


class Echoes(StrEnum):
    """Which of its own thinking a provider wants to be sent again."""

    OWN_ISSUED = "own-issued"
    """Blocks that bear its signature, or that it sealed."""
    TOOL_USE_ONLY = "tool-use-only"
    """All of its own, signed or not, once the conversation has used tools."""
    NEVER = "never"


class Fate(StrEnum):
    """What is done with one block."""

    ECHO = "echo"
    TEXT = "text"
    DROP = "drop"


class ReasoningReader(Struct, frozen=True):
    """Who is going to read the messages: a provider family, and what it wants echoed."""

    provenance: str
    echoes: Echoes = Echoes.NEVER


class ReasoningPolicy(Struct, frozen=True, kw_only=True):
    """What a session says about thinking that the next reader cannot take as it is."""

    as_text: bool = False
    """Send it as `<thinking>…</thinking>`; otherwise it is left out."""
    longest_text: int | None = LONGEST_TEXT
    """Characters that such a text keeps, head and tail; None for all."""
    tools_used: bool = False
    """True when the conversation has called a tool, be it in a part that was compacted."""


def decide_fate(block: Reasoning, reader: ReasoningReader, policy: ReasoningPolicy) -> Fate:
    """Decide about one block of thinking."""
    own = block.provenance == reader.provenance
    match reader.echoes:
        case Echoes.OWN_ISSUED if own and (block.signature or block.redacted):
            return Fate.ECHO
        case Echoes.TOOL_USE_ONLY if own:
            return Fate.ECHO if policy.tools_used else Fate.DROP
        case _:
            return Fate.TEXT if policy.as_text else Fate.DROP


def adapt_message(message: Message, reader: ReasoningReader, policy: ReasoningPolicy) -> Message:
    """Return `message` with nothing in it that `reader` could not take.

    A message that holds no such thing comes back as the same object.
    """
    own = message.provenance == reader.provenance
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case Reasoning():
                parts += _thought(part, reader, policy)
            case Native(provenance=provenance, note=note):
                if provenance == reader.provenance:
                    parts.append(part)
                elif note:
                    parts.append(Text(note))
            case _:
                parts.append(replace(part, extra="") if part.extra and not own else part)
    same = len(parts) == len(message.parts) and all(map(_is, parts, message.parts))
    return message if same else replace(message, parts=tuple(parts))


def is_private_to(message: Message, provenance: str) -> bool:
    """Say whether `message` holds anything that only that family would be sent back."""
    return message.provenance == provenance or any(
        part.provenance == provenance
        for part in message.parts
        if isinstance(part, Reasoning | Native)
    )


def strip_reasoning(message: Message) -> Message:
    """Return `message` with no thinking and no private fields: any provider takes it."""
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case Reasoning():
                pass
            case Native(note=note):
                parts += [Text(note)] if note else []
            case _:
                parts.append(replace(part, extra="") if part.extra else part)
    return replace(message, parts=tuple(parts), provenance="")


def format_reasoning(block: Reasoning, longest: int | None = LONGEST_TEXT) -> str:
    """Return the words that stand in for a block, or nothing when it has none."""
    text = "[redacted]" if block.redacted and not block.text else block.text.strip()
    if not text:
        return ""
    return f"<thinking>{text if longest is None else truncate_middle(text, longest)}</thinking>"


def _thought(block: Reasoning, reader: ReasoningReader, policy: ReasoningPolicy) -> list[Part]:
    match decide_fate(block, reader, policy):
        case Fate.ECHO:
            return [block]
        case Fate.TEXT:
            text = format_reasoning(block, policy.longest_text)
            return [Text(f"{text}\n")] if text else []
        case Fate.DROP:
            return []


def _is(one: Part, other: Part) -> bool:
    return one is other
