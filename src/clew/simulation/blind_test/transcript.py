"""A conversation as a text to read: whole, its end, or in pieces; without secrets."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from clew.context.calibration import default_for, estimate_tokens
from clew.context.estimate import text_units
from clew.core.json_text import decode_json
from clew.core.messages import (
    File,
    Image,
    Message,
    Native,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from clew.core.redaction import redact
from clew.providers.tokenizers import meter_for

CountTokens: TypeAlias = Callable[[str], int]
"""Returns how many tokens a text has for a model."""

_GAP = "\n\n"


def make_counter(model: str) -> CountTokens:
    """Return what counts the tokens of a text for `model`: exactly where that is known."""
    meter = meter_for(model)
    if meter is not None:
        return meter
    calibration = default_for(model)
    return lambda text: estimate_tokens(calibration, text_units(text))


def readable(messages: Sequence[Message]) -> str:
    """Return a conversation as a text to read. Reasoning is private and left out."""
    texts = (_part_text(part, message.role) for message in messages for part in message.parts)
    return _GAP.join(text for text in texts if text)


def redact_message(message: Message) -> Message:
    """Return a message without secrets and without reasoning."""
    parts = (_redact_part(part) for part in message.parts if not isinstance(part, Reasoning))
    return replace(message, parts=tuple(parts))


def find_newest(text: str, *, tokens: int, count: CountTokens) -> str:
    """Return the end of a text, of at most that many tokens."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[-middle:]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[len(text) - low :]


def split_text(text: str, *, tokens: int, count: CountTokens) -> list[str]:
    """Split a text into pieces of at most that many tokens, between messages where possible."""
    pieces: list[str] = []
    held: list[str] = []
    used = 0
    for block in _split_blocks(text.split(_GAP), tokens, count):
        size = count(block) + 1
        if held and used + size > tokens:
            pieces.append(_GAP.join(held))
            held, used = [], 0
        held.append(block)
        used += size
    return [*pieces, _GAP.join(held)]


def _split_blocks(blocks: Sequence[str], tokens: int, count: CountTokens) -> Iterator[str]:
    for block in blocks:
        if len(block) > 1 and count(block) >= tokens:
            half = len(block) // 2
            yield from _split_blocks([block[:half], block[half:]], tokens, count)
        else:
            yield block


def _redact_part(part: Part) -> Part:
    match part:
        case Text(text=text) | ToolResult(text=text):
            return replace(part, text=redact(text))
        case ToolCall(arguments=arguments):
            return replace(part, arguments=redact(arguments))
        case Native(note=note):
            return replace(part, note=redact(note))
        case _:
            return part


def _part_text(part: Part, role: Role) -> str:
    match part:
        case Text(text=text):
            return f"{role}: {text}"
        case ToolCall(name=name, arguments=arguments):
            return f"call {name}: {_arguments_text(arguments)}"
        case ToolResult(name=name, text=text, failed=failed):
            return f"{'failure' if failed else 'result'} of {name}: {text}"
        case Image(media_type=media_type) | File(media_type=media_type):
            return f"{role}: [{media_type}]"
        case Native(note=note):
            return f"{role}: {note}" if note else ""
        case Reasoning():
            return ""


def _arguments_text(arguments: str) -> str:
    """Show the arguments of a call by name, without the escapes of JSON."""
    try:
        values = decode_json(arguments, type=dict[str, object])
    except msgspec.DecodeError:
        return arguments
    return "\n".join(f"{name}: {_value_text(value)}" for name, value in values.items())


def _value_text(value: object) -> str:
    match value:
        case str():
            return value
        case dict():
            return "; ".join(f"{name}: {_value_text(inner)}" for name, inner in value.items())
        case list():
            return "\n".join(f"- {_value_text(inner)}" for inner in value)
        case _:
            return msgspec.json.encode(value).decode()
