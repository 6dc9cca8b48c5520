"""Names of models: how to find one in a table, however a host spells it.

Gateways, clouds and local servers each change a name in their own way:
`us.anthropic.claude-sonnet-4-5-20250929-v1:0`, `claude-sonnet-4-5@20250929`,
`anthropic/claude-sonnet-4.5` and `databricks-claude-sonnet-4-5` are one model.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")

_SEPARATORS = str.maketrans(".:@_ ", "-----")
_POINT = r"(?<=\d)p(?=\d)"
"""The point of a version, on hosts that allow none: `glm-4p7`."""
_PREFIX = (
    r"[^/]*/"  # a path: `anthropic/…`, `models/…`, the head of an ARN
    r"|[a-z-]+\."  # a region or vendor on Bedrock: `us.`, `anthropic.`
    r"|ft:"  # a model fine-tuned at OpenAI
    r"|(?:anthropic|cohere|databricks|google|meta|nvidia|openai|zai)-"
)


def normalize_name(name: str) -> str:
    """Return `name` for comparison: in lower case, with one kind of separator."""
    return re.sub(_POINT, "-", name.lower().translate(_SEPARATORS))


def match_name(model: str, kept: Mapping[str, T]) -> T | None:
    """Return the value under the longest name that is a prefix of `model`, or None.

    The keys of `kept` are normalized names. A name ends at a word boundary, so `gpt-4` does not
    match `gpt-4o`. A vendor or region before the model's name may be part of a key.
    """
    longest = max((_find_longest_prefix(reading, kept) for reading in _readings(model)), key=len)
    return kept[longest] if longest else None


def _readings(model: str) -> Iterator[str]:
    """Yield `model` as it is, then without its first prefix, without the second, and so on."""
    rest = model.lower()
    yield normalize_name(rest)
    while found := re.match(_PREFIX, rest):
        rest = rest[found.end() :]
        yield normalize_name(rest)


def _find_longest_prefix(reading: str, kept: Mapping[str, T]) -> str:
    """Return the longest name in `kept` that is a prefix of `reading`; paths match whole."""
    shortest = reading.rfind("/") + 1
    for end in range(len(reading), shortest, -1):
        ends_a_word = not reading[end : end + 1].isalnum()
        if ends_a_word and reading[:end] in kept:
            return reading[:end]
    return ""
