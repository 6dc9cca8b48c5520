"""How many tokens a message is likely to be, without a tokenizer.

The result is in *units*: tokens of a typical model (fitted to o200k and to what providers
counted in recorded sessions). A view learns how many tokens of its model one unit is worth
(`clew.context.calibration`). An exact tokenizer can take the place of `text_units`: any
`Meter` will do.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from clew.context.images import file_units, image_units
from clew.core.messages import (
    File,
    Message,
    Native,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from clew.core.models import ToolSpec

Meter: TypeAlias = Callable[[str], int]
"""Says how many units a text is."""

_MESSAGE_UNITS = 4
_CALL_UNITS = 40
_RESULT_UNITS = 10
_SEALED_BYTES_PER_UNIT = 5


def _flags_by_byte() -> bytes:
    flags = bytearray([0b00100110]) * 256
    for byte in range(0x21, 0x7F):
        flags[byte] = 0b10010001
    flags[ord(" ")] = 0b00000001
    flags[ord("\n")] = 0b10000101
    flags[ord("0") : ord("9") + 1] = bytes([0b01111001]) * 10
    flags[ord("A") : ord("Z") + 1] = bytes([0b00000111]) * 26
    flags[ord("a") : ord("z") + 1] = bytes([0b00000011]) * 26
    # In UTF-8 the first byte of a character tells its script: Greek, Cyrillic and accented
    # Latin; then East Asian scripts and symbols; then emoji. The bytes after it cost nothing.
    flags[0x80:0xC0] = bytes(0x40)
    flags[0xC0:0xE0] = bytes([0b00000100]) * 0x20
    flags[0xE0:0xF0] = bytes([0b00001100]) * 0x10
    flags[0xF0:] = bytes([0b11111000]) * 0x10
    return bytes(flags)


_FLAGS = _flags_by_byte()
"""What kind of character a byte is, as a set of flags; kinds that tokenizers like to join
(words and capitals, punctuation and line ends) share some."""
_STRETCH = 1 << 16
"""Bytes at a time: numbers that fit the processor's cache take half the time."""


def text_units(text: str) -> int:
    """Estimate `text` by where its kinds of characters begin and how long they go on.

    A flag costs 0.4 units where it begins and 0.06 on every byte on which it goes on, so a
    word costs little more than its first letter. The flags of a stretch of text are the bits
    of one large number, because counting bits, shifting and comparing such numbers run in C:
    a megabyte takes about 2.5 ms.
    """
    data = text.encode("utf-8", "surrogatepass")
    fiftieths = 0
    for start in range(0, len(data), _STRETCH):
        flags = int.from_bytes(data[start : start + _STRETCH].translate(_FLAGS), "little")
        fiftieths += 20 * flags.bit_count() - 17 * (flags & flags >> 8).bit_count()
    return (fiftieths + 25) // 50


def part_units(part: Part, meter: Meter = text_units) -> int:
    """Estimate one part of a message."""
    if isinstance(part, Text):
        return meter(part.text)
    if isinstance(part, ToolResult):
        images = sum(map(image_units, part.images)) if part.images else 0
        return meter(part.text) + images + _RESULT_UNITS
    if isinstance(part, ToolCall):
        return meter(part.name) + meter(part.arguments) + _CALL_UNITS
    if isinstance(part, Reasoning):
        signature = 0 if part.text else meter(part.signature)
        return meter(part.text) + signature + meter(part.redacted)
    if isinstance(part, Native):
        # Mostly sealed pages, which the provider unseals before it counts them.
        return len(part.data) // _SEALED_BYTES_PER_UNIT
    return file_units(part) if isinstance(part, File) else image_units(part)


def message_units(message: Message, meter: Meter = text_units) -> int:
    """Estimate a message with its framing."""
    units = _MESSAGE_UNITS
    for part in message.parts:
        units += part_units(part, meter)
    return units


def tool_units(tools: Iterable[ToolSpec], meter: Meter = text_units) -> int:
    """Estimate what declaring `tools` costs in every request."""
    return sum(
        meter(spec.name)
        + meter(spec.description)
        + meter(msgspec.json.encode(spec.schema).decode())
        + _RESULT_UNITS
        for spec in tools
    )
