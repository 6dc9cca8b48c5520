"""What the models behind Converse accept, by vendor.

Converse is one API, but it forwards most of a request to the model, and the models of each vendor
reject something else.
"""

import re
from enum import StrEnum

from msgspec import Struct

_REGION = re.compile(r"^[a-z-]+\.(?=[a-z]+\.)")
_NO_CACHE = re.compile(
    r"claude-(v\d|instant|3-(opus|sonnet|haiku)|3-5-sonnet-20240620)|nova-(canvas|reel|sonic)"
)


class ResultSeparation(StrEnum):
    """What must not share a message with tool results."""

    NOTHING = "nothing"
    DOCUMENTS = "documents"
    EVERYTHING = "everything"


class ModelTraits(Struct, frozen=True, kw_only=True):
    """How requests differ for a family of models."""

    caches: bool = False
    """It supports cache points."""
    signs: bool = False
    """It signs its reasoning and accepts it back."""
    apart: ResultSeparation = ResultSeparation.NOTHING


_CLAUDE = ModelTraits(caches=True, signs=True, apart=ResultSeparation.DOCUMENTS)
_FAMILIES = {
    "anthropic": _CLAUDE,
    "amazon": ModelTraits(caches=True),
    "meta": ModelTraits(apart=ResultSeparation.EVERYTHING),
    "mistral": ModelTraits(apart=ResultSeparation.EVERYTHING),
    "writer": ModelTraits(apart=ResultSeparation.EVERYTHING),
    "": ModelTraits(signs=True),
}


def find_traits(model: str) -> ModelTraits:
    """Return the traits of `model`; a name without a known vendor gets defaults."""
    name = base_name(model)
    maker = "anthropic" if "claude" in name else name.partition(".")[0] if "." in name else ""
    found = _FAMILIES.get(maker, ModelTraits())
    if found.caches and (_NO_CACHE.search(name) or (maker == "amazon" and "nova" not in name)):
        return ModelTraits(signs=found.signs, apart=found.apart)
    return found


def base_name(model: str) -> str:
    """Return the model's name without region and ARN."""
    return _REGION.sub("", model.rpartition("/")[2].lower(), count=1)


def count_tokens_name(model: str) -> str:
    """Return the model id for token counting, which knows no regions."""
    name = base_name(model)
    return name if "." in name else model
