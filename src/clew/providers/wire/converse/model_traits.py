"""What the models behind Converse take and refuse, by the name of their maker.

Converse is one API, but it hands most of a request on to the model, and each maker's models
refuse something else.
"""

import re
from enum import StrEnum

from msgspec import Struct

_REGION = re.compile(r"^[a-z-]+\.(?=[a-z]+\.)")
_NO_CACHE = re.compile(
    r"claude-(v\d|instant|3-(opus|sonnet|haiku)|3-5-sonnet-20240620)|nova-(canvas|reel|sonic)"
)


class ResultSeparation(StrEnum):
    """What may not stand in one message with the results of tools."""

    NOTHING = "nothing"
    DOCUMENTS = "documents"
    EVERYTHING = "everything"


class ModelTraits(Struct, frozen=True, kw_only=True):
    """What changes a request to one family of models."""

    caches: bool = False
    """It takes marks that say up to where a prompt is worth caching."""
    signs: bool = False
    """It seals its thinking, and takes sealed thinking back."""
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
    """Return what is known of `model`; a name that tells nothing of its maker gets defaults."""
    name = base_name(model)
    maker = "anthropic" if "claude" in name else name.partition(".")[0] if "." in name else ""
    found = _FAMILIES.get(maker, ModelTraits())
    if found.caches and (_NO_CACHE.search(name) or (maker == "amazon" and "nova" not in name)):
        return ModelTraits(signs=found.signs, apart=found.apart)
    return found


def base_name(model: str) -> str:
    """Return the name of the model alone, without the region or the ARN that leads to it."""
    return _REGION.sub("", model.rpartition("/")[2].lower(), count=1)


def count_tokens_name(model: str) -> str:
    """Return the name by which tokens are counted: that knows models, not where they run."""
    name = base_name(model)
    return name if "." in name else model
