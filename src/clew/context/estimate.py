"""How many tokens a message is likely to be, without a tokenizer.

The result is in *units*: tokens of a typical model. A view learns from what the provider
reports how many of its tokens one unit is worth (`View.ratio`). Only whole-string
operations that run in C are used, so a megabyte costs milliseconds.
"""

from collections.abc import Iterable

import msgspec

from clew.core.messages import Image, Message, Part, Reasoning, Text, ToolCall, ToolResult
from clew.core.models import ToolSpec

_IMAGE_UNITS = 1_200
_MESSAGE_UNITS = 4
_PART_UNITS = 6

_PUNCTUATION = bytes(b for b in range(0x21, 0x7F) if not chr(b).isalnum())
_UNITS_PER_BYTE = (
    (bytes(range(ord("a"), ord("z") + 1)), 0.20),
    (bytes(range(ord("A"), ord("Z") + 1)), 0.25),
    (b"0123456789", 0.60),
    (_PUNCTUATION, 0.65),
    (b" ", 0.12),
    (b"\n", 0.80),
)
_UNITS_PER_LEAD_BYTE = (
    (bytes(range(0xC2, 0xE0)), 0.5),
    (b"\xe2\xef", 0.9),
    (bytes(b for b in range(0xE0, 0xEF) if b != 0xE2), 0.8),
    (bytes(range(0xF0, 0xF5)), 2.0),
)
"""The first byte of a character in UTF-8 tells its script: Latin, Greek and Cyrillic letters;
symbols; East Asian scripts; emoji."""


def text_units(text: str) -> int:
    """Estimate `text` by counting its kinds of characters, each at its own rate."""
    data = text.encode("utf-8", "surrogatepass")
    rates = _UNITS_PER_BYTE if text.isascii() else _UNITS_PER_BYTE + _UNITS_PER_LEAD_BYTE
    size = len(data)
    return round(sum((size - len(data.translate(None, kind))) * rate for kind, rate in rates))


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
