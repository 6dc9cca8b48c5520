"""What is known of well-known models, and how a name finds it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TypeVar

from msgspec.structs import replace

from clew.core.models import ModelFacts
from clew.providers.catalogue_table import ROWS, ModelRow

SMOLLM2 = ModelFacts(
    name="smollm2-135m", window=8_192, max_output=160, calls_tools=False, summarises=False
)
"""The embedded model: it talks, and no more should be asked of it."""


def _facts(row: ModelRow) -> ModelFacts:
    names, window, max_output, weaknesses = row
    return ModelFacts(
        name=names.partition(" ")[0],
        window=window,
        max_output=max_output,
        calls_tools="toolless" not in weaknesses,
        summarises="weak" not in weaknesses,
        sees="blind" not in weaknesses,
    )


CATALOGUE: dict[str, ModelFacts] = {
    name: facts for row in ROWS for facts in [_facts(row)] for name in row[0].split()
} | {SMOLLM2.name: SMOLLM2}
"""Facts under every name of the table; several names may share theirs."""


@cache
def _spelled() -> Mapping[str, ModelFacts]:
    return {normalize_name(name): facts for name, facts in CATALOGUE.items()}


@lru_cache(maxsize=1_024)
def lookup(model: str) -> ModelFacts:
    """Return what is known of `model`, under the name it was asked by.

    The longest known beginning counts, so dated, sized and suffixed names find their
    family, however a gateway or a cloud dresses them. An unknown name gets careful defaults.
    """
    facts = match_name(model, _spelled())
    return replace(facts, name=model) if facts else ModelFacts(name=model, known=False)


def families() -> Sequence[ModelFacts]:
    """Return the facts of every family once, maker by maker, the newest first."""
    return tuple(facts for name, facts in CATALOGUE.items() if name == facts.name)


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


def normalize_name(name: str) -> str:
    """Return `name` as names are compared: in small letters, with one kind of separator."""
    return re.sub(_POINT, "-", name.lower().translate(_SEPARATORS))


def match_name(model: str, kept: Mapping[str, T]) -> T | None:
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
    yield normalize_name(rest)
    while found := re.match(_PREFIX, rest):
        rest = rest[found.end() :]
        yield normalize_name(rest)


def _beginning(reading: str, kept: Mapping[str, T]) -> str:
    """Return the longest name in `kept` that `reading` begins with; a path counts only whole."""
    shortest = reading.rfind("/") + 1
    for end in range(len(reading), shortest, -1):
        ends_a_word = not reading[end : end + 1].isalnum()
        if ends_a_word and reading[:end] in kept:
            return reading[:end]
    return ""
