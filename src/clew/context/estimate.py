"""How many tokens a message is likely to be, without a tokenizer.

The result is in *units*: tokens of a typical model. A view learns from what the provider
reports how many of its tokens one unit is worth (`View.ratio`). Only whole-string
operations that run in C are used, so a megabyte costs milliseconds.
"""

from collections.abc import Iterable

import msgspec

from clew.core.messages import Image, Message, Part, Reasoning, Text, ToolCall, ToolResult
from clew.core.models import ToolSpec

_ASCII_CHARS_PER_UNIT = 3.6
_IMAGE_UNITS = 1_200
_MESSAGE_UNITS = 4
_PART_UNITS = 6

_LATIN_GREEK_CYRILLIC = bytes(range(0xC2, 0xE0))
_SYMBOLS = b"\xe2\xef"
_EAST_ASIAN = bytes(b for b in range(0xE0, 0xEF) if b != 0xE2)
_EMOJI = bytes(range(0xF0, 0xF5))
_UNITS_PER_CHAR = (
    (_LATIN_GREEK_CYRILLIC, 0.5),
    (_SYMBOLS, 0.9),
    (_EAST_ASIAN, 0.8),
    (_EMOJI, 2.0),
)


def text_units(text: str) -> int:
    """Estimate `text`; East Asian scripts, symbols and emoji are weighed by their own rates."""
    if text.isascii():
        return round(len(text) / _ASCII_CHARS_PER_UNIT)
    data = text.encode("utf-8", "surrogatepass")
    units = 0.0
    wide = 0
    for lead_bytes, rate in _UNITS_PER_CHAR:
        count = len(data) - len(data.translate(None, lead_bytes))
        units += count * rate
        wide += count
    return round(units + (len(text) - wide) / _ASCII_CHARS_PER_UNIT)


def part_units(part: Part) -> int:
    """Estimate one part of a message."""
    match part:
        case Text(text=text):
            return text_units(text)
        case Image():
            return _IMAGE_UNITS
        case Reasoning(text=text, signature=signature, redacted=redacted):
            return (
                text_units(text) + (text_units(signature) if not text else 0) + text_units(redacted)
            )
        case ToolCall(name=name, arguments=arguments):
            return text_units(name) + text_units(arguments) + _PART_UNITS
        case ToolResult(text=text, images=images):
            return text_units(text) + len(images) * _IMAGE_UNITS + _PART_UNITS


def message_units(message: Message) -> int:
    """Estimate a message with its framing."""
    return _MESSAGE_UNITS + sum(part_units(part) for part in message.parts)


def reasoning_units(message: Message) -> int:
    """Estimate the share of a message that is thinking."""
    return sum(part_units(part) for part in message.parts if isinstance(part, Reasoning))


def tool_units(tools: Iterable[ToolSpec]) -> int:
    """Estimate what declaring `tools` costs in every request."""
    return sum(
        text_units(spec.name)
        + text_units(spec.description)
        + text_units(msgspec.json.encode(spec.schema).decode())
        + _PART_UNITS
        for spec in tools
    )
