"""How a model's name finds what is kept under the name of its family.

Gateways, clouds and local servers each dress a name in their own way:
`us.anthropic.claude-sonnet-4-5-20250929-v1:0`, `claude-sonnet-4-5@20250929`,
`anthropic/claude-sonnet-4.5` and `databricks-claude-sonnet-4-5` are one model.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")

_SEPARATORS = str.maketrans(".:@_ ", "-----")
_POINT = r"(?<=\d)p(?=\d)"
"""The point of a version where a host allows none: `glm-4p7`."""
_PREFIX = (
    r"[^/]*/"  # a path: `anthropic/…`, `models/…`, the head of an ARN
    r"|[a-z-]+\."  # a region or vendor on Bedrock: `us.`, `anthropic.`
    r"|ft:"  # a model fine-tuned at OpenAI
    r"|(?:anthropic|cohere|databricks|google|meta|nvidia|openai|zai)-"
)


def spell(name: str) -> str:
    """Return `name` as names are compared: in small letters, with one kind of separator."""
    return re.sub(_POINT, "-", name.lower().translate(_SEPARATORS))


def match(model: str, kept: Mapping[str, T]) -> T | None:
    """Return what is kept under the longest name that `model` begins with, or None.

    The keys of `kept` are spelled names. A name ends where a word ends, so `gpt-4` is not
    the beginning of `gpt-4o`. What stands before the model's own name, such as a vendor or
    a region, may be part of a key but need not.
    """
    longest = max((_beginning(reading, kept) for reading in _readings(model)), key=len)
    return kept[longest] if longest else None


def _readings(model: str) -> Iterator[str]:
    """Yield `model` without its first prefix, without the second, and so on; whole at first."""
    rest = model.lower()
    yield spell(rest)
    while found := re.match(_PREFIX, rest):
        rest = rest[found.end() :]
        yield spell(rest)


def _beginning(reading: str, kept: Mapping[str, T]) -> str:
    """Return the longest name in `kept` that `reading` begins with; a path counts only whole."""
    shortest = reading.rfind("/") + 1
    for end in range(len(reading), shortest, -1):
        ends_a_word = not reading[end : end + 1].isalnum()
        if ends_a_word and reading[:end] in kept:
            return reading[:end]
    return ""
