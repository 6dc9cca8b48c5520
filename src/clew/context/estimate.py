"""Estimates the tokens of texts, messages, images and tool specs without a tokenizer.

The result is in *units*: tokens of a typical model (fitted to o200k and to provider counts in
recorded sessions). A view learns how many tokens of its model one unit is
(`clew.context.calibration`). An exact tokenizer can replace `text_units`: it is a `Meter`. What a
request's format adds to its texts depends on the model: it is a `Framing`
(`clew.context.model_family`).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec
from msgspec import Struct

from clew.core.messages import (
    File,
    Image,
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
"""Returns the units of a text."""


class Framing(Struct, frozen=True, kw_only=True, gc=False):
    """Units that the format of a request adds to its texts.

    The defaults are for unknown models: rather too high than too low.
    """

    message: int = 4
    call: int = 40
    result: int = 10
    tool: int = 10
    """Per declared tool, beside its declaration."""
    tools: int = 0
    """Once, if any tool is declared: hidden instructions of the provider on how to call tools."""
    request: int = 0
    """Once per request: hidden instructions of the provider, and where the answer begins."""
    system: int = 0
    """Once, if there is a system prompt: its frame, where it is a message like others."""
    sealed: int = 200
    """Characters of an encrypted block that hold no thinking."""
    typed_tools: bool = False
    """True: the model sees tools as TypeScript types, which are shorter than JSON schemas."""


SAFE_FRAMING = Framing()
_SEALED_BYTES_PER_UNIT = 5
SEALED_CHARS_PER_UNIT = 6


def _flags_by_byte() -> bytes:
    flags = bytearray([0b00100110]) * 256
    for byte in range(0x21, 0x7F):
        flags[byte] = 0b10010001
    flags[ord(" ")] = 0b00000001
    flags[ord("\n")] = 0b10000101
    flags[ord("0") : ord("9") + 1] = bytes([0b01111001]) * 10
    flags[ord("A") : ord("Z") + 1] = bytes([0b00000111]) * 26
    flags[ord("a") : ord("z") + 1] = bytes([0b00000011]) * 26
    # In UTF-8 the first byte of a character identifies its script: Greek, Cyrillic and accented
    # Latin; then East Asian scripts and symbols; then emoji. Continuation bytes cost nothing.
    flags[0x80:0xC0] = bytes(0x40)
    flags[0xC0:0xE0] = bytes([0b00000100]) * 0x20
    flags[0xE0:0xF0] = bytes([0b00001100]) * 0x10
    flags[0xF0:] = bytes([0b11111000]) * 0x10
    return bytes(flags)


_FLAGS = _flags_by_byte()
"""The kind of a character as a set of flags. Kinds that tokenizers often join (words and
capitals, punctuation and line ends) share flags."""
_STRETCH = 1 << 16
"""Bytes per step: numbers that fit the processor's cache take half the time."""


_from_bytes = int.from_bytes


def text_units(text: str) -> int:
    """Estimate `text` by the runs of its kinds of characters.

    A flag costs 0.4 units where a run begins and 0.06 on every following byte, so a word costs
    little more than its first letter. The flags of a text are the bits of one large number,
    because counting and shifting bits of such numbers runs in C.
    """
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= _STRETCH:
        flags = _from_bytes(data.translate(_FLAGS))
        return (20 * flags.bit_count() - 17 * (flags & flags >> 8).bit_count() + 25) // 50
    fiftieths = 0
    for start in range(0, len(data), _STRETCH):
        flags = _from_bytes(data[start : start + _STRETCH].translate(_FLAGS))
        fiftieths += 20 * flags.bit_count() - 17 * (flags & flags >> 8).bit_count()
    return (fiftieths + 25) // 50


def part_units(part: Part, meter: Meter = text_units, framing: Framing = SAFE_FRAMING) -> int:
    """Estimate one part of a message."""
    if isinstance(part, Text):
        return meter(part.text)
    if isinstance(part, ToolResult):
        return result_units(part, meter, framing)
    if isinstance(part, ToolCall):
        return call_units(part, meter, framing)
    if isinstance(part, Reasoning):
        # The text may be a summary; the signature contains all of the thinking, encrypted.
        signature, redacted = part.signature, part.redacted
        return max(meter(part.text), _sealed_units(signature, framing)) + _sealed_units(
            redacted, framing
        )
    if isinstance(part, Native):
        # Mostly encrypted pages, which the provider decrypts before it counts them.
        return len(part.data) // _SEALED_BYTES_PER_UNIT
    return file_units(part) if isinstance(part, File) else image_units(part)


def result_units(result: ToolResult, meter: Meter, framing: Framing) -> int:
    """Estimate a tool result."""
    images = sum(map(image_units, result.images)) if result.images else 0
    return meter(result.text) + images + framing.result


def call_units(call: ToolCall, meter: Meter, framing: Framing) -> int:
    """Estimate a tool call."""
    return cached_units(meter, call.name) + meter(call.arguments) + framing.call


def _sealed_units(data: str, framing: Framing) -> int:
    """Estimate encrypted thinking by its length."""
    return max(1, (len(data) - framing.sealed) // SEALED_CHARS_PER_UNIT) if data else 0


def message_units(
    message: Message, meter: Meter = text_units, framing: Framing = SAFE_FRAMING
) -> int:
    """Estimate a message including its framing."""
    return framing.message + sum(part_units(part, meter, framing) for part in message.parts)


def system_units(system: str, meter: Meter, framing: Framing) -> int:
    """Estimate the system prompt and what every request costs beside its messages and tools."""
    return framing.request + (meter(system) + framing.system if system else 0)


@lru_cache(maxsize=256)
def cached_units(meter: Meter, text: str) -> int:
    """Measure a text of a tool; sessions share the tools and call them often."""
    return meter(text)


def tool_units(
    tools: Sequence[ToolSpec], meter: Meter = text_units, framing: Framing = SAFE_FRAMING
) -> int:
    """Estimate the declaration of `tools` in a request; nothing for those that are deferred."""
    tools = [spec for spec in tools if not spec.deferred]
    if not tools:
        return 0
    texts = _write_types if framing.typed_tools else _write_schemas
    return framing.tools + sum(
        framing.tool + sum(cached_units(meter, text) for text in texts(spec)) for spec in tools
    )


def _write_types(spec: ToolSpec) -> tuple[str, ...]:
    from clew.context.tool_declaration import declare_type  # noqa: PLC0415 - few families need it

    return (declare_type(spec),)


def _write_schemas(spec: ToolSpec) -> tuple[str, ...]:
    return spec.name, spec.description, msgspec.json.encode(spec.schema).decode()


_PIXELS_PER_UNIT = 750
_LEAST, _MOST, _UNKNOWN = 85, 1_600, 1_200
_BYTES_PER_UNIT = {"application/pdf": 20, "audio/": 500, "video/": 800}
_STARTS_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def image_units(image: Image) -> int:
    """Estimate an image by its area; an image of unknown size counts as a large one."""
    size = pixel_size(image.data)
    if size is None:
        return _UNKNOWN
    return min(max(size[0] * size[1] // _PIXELS_PER_UNIT, _LEAST), _MOST)


def file_units(file: File) -> int:
    """Estimate a document, audio or video by its length; a URL counts as a small file."""
    per_unit = next(
        (rate for kind, rate in _BYTES_PER_UNIT.items() if file.media_type.startswith(kind)), 4
    )
    return max(_LEAST, len(file.data) // per_unit)


def pixel_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height from the header of a PNG, GIF, WebP or JPEG file, or None."""
    size: tuple[int, int] | None = None
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        size = _big(data[16:20]), _big(data[20:24])
    elif data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        size = _little(data[6:8]), _little(data[8:10])
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP" and len(data) >= 30:
        size = _webp_size(data)
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg_size(data)
    return size if size and all(size) else None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 ":
            return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
        case b"VP8L":
            bits = _little(data[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return _little(data[24:27]) + 1, _little(data[27:30]) + 1
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 9 <= len(data) and data[place] == 0xFF:
        if data[place + 1] in _STARTS_OF_FRAME:
            return _big(data[place + 7 : place + 9]), _big(data[place + 5 : place + 7])
        place += 2 + _big(data[place + 2 : place + 4])
    return None


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
