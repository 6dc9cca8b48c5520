"""Learns from a provider's counts how many tokens one estimated unit is.

A count is exact, but a provider adds a preamble of unknown size. So two values are learned:
the growth of the count gives the slope, the last count gives the overhead. The result is a
pure function of the counts in their order, so a journal always gives the same calibration.
"""

from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from clew.core.models import Calibration

MIN_RATE, MAX_RATE = 0.25, 6.0
_PRIOR_UNITS = 6_000
_FORGET = 0.995
_MOST_CHANGE = 4.0
_SURPRISE = 3.0


class ModelFamily(Struct, frozen=True, kw_only=True):
    """How the models of one family count tokens."""

    rate: float = 1.0
    keeps_reasoning: bool = True
    """False: the provider drops thinking when the next user message arrives."""


_CLAUDE_OLD = ModelFamily(rate=1.17, keeps_reasoning=False)
_CLAUDE = ModelFamily(rate=1.17)
_CLAUDE_NEW = ModelFamily(rate=1.55)
_DROPS = ModelFamily(keeps_reasoning=False)
_FAMILIES = (
    ("claude-3", _CLAUDE_OLD),
    ("claude-sonnet-4-5", _CLAUDE_OLD),
    ("claude-haiku-4-5", _CLAUDE_OLD),
    ("claude-opus-4-5", _CLAUDE),
    ("claude-opus-4-6", _CLAUDE),
    ("claude-sonnet-4-6", _CLAUDE),
    ("claude-haiku-4-6", _CLAUDE),
    ("claude-opus-4-1", _CLAUDE_OLD),
    ("claude-opus-4-0", _CLAUDE_OLD),
    ("claude-opus-4-2025", _CLAUDE_OLD),
    ("claude-sonnet-4-0", _CLAUDE_OLD),
    ("claude-sonnet-4-2025", _CLAUDE_OLD),
    ("claude", _CLAUDE_NEW),
    ("qwen", ModelFamily(rate=1.04, keeps_reasoning=False)),
    ("gpt", ModelFamily(rate=0.93, keeps_reasoning=False)),
    ("deepseek", _DROPS),
    ("gemini", _DROPS),
    ("llama", _DROPS),
)
"""Families by a part of the model name; the first match wins.

Measured by `benchmarks/estimator.py` on Claude 4.5 and 4.6, GPT-4.1, 5.4 and 5.5 and Qwen 2.5.
The same counts show that Opus from 4.5 on keeps the thinking of earlier turns and Sonnet 4.5
does not. Newer Claude models count about a third more; all others default to one.
"""


@lru_cache
def family_of(model: str) -> ModelFamily:
    """Return the family of `model`; dots and dashes in names are equal."""
    name = model.lower().replace(".", "-")
    return next((found for part, found in _FAMILIES if part in name), ModelFamily())


def make_prior(rate: float, weight: float = _PRIOR_UNITS) -> Calibration:
    """Return a starting calibration: a rate, with the weight of `weight` units of growth."""
    return Calibration(slope=_clamp(rate), weight=max(1.0, weight))


def default_for(model: str) -> Calibration:
    """Return the starting calibration for a model without counts."""
    return make_prior(family_of(model).rate)


def estimate_tokens(calibration: Calibration, units: int) -> int:
    """Estimate the tokens of a request of `units`."""
    return round(calibration.overhead + calibration.rate * max(0, units))


def learn(calibration: Calibration, units: int, tokens: int) -> Calibration:
    """Learn that the provider counted `tokens` for a request of `units`.

    A count that no rate can explain is ignored. A count far from the expected one is ignored
    too, unless the next one confirms it.
    """
    if units <= 0 or tokens < MIN_RATE * units:
        return calibration
    surprising = _is_surprising(calibration, units, tokens)
    if surprising and not calibration.doubted:
        return replace(calibration, doubted=True)
    slope, weight = calibration.slope, calibration.weight
    if calibration.tokens and not surprising:
        slope, weight = _learn_growth(calibration, units, tokens)
    return Calibration(slope=slope, weight=weight, units=units, tokens=tokens)


def _is_surprising(calibration: Calibration, units: int, tokens: int) -> bool:
    if not calibration.tokens:
        return False
    expected = calibration.overhead + calibration.rate * units
    return not expected / _SURPRISE <= tokens <= expected * _SURPRISE


def _learn_growth(calibration: Calibration, units: int, tokens: int) -> tuple[float, float]:
    """Return slope and weight after the step from the last count to this one.

    Only growth counts: a context that shrank may have lost more than its messages.
    """
    slope, weight = calibration.slope, calibration.weight
    more_units, more_tokens = units - calibration.units, tokens - calibration.tokens
    if more_units <= 0:
        return slope, weight
    if not slope / _MOST_CHANGE <= more_tokens / more_units <= slope * _MOST_CHANGE:
        return slope, weight
    kept = weight * _FORGET
    total = kept + more_units
    return _clamp((slope * kept + more_tokens) / total), total


def _clamp(rate: float) -> float:
    return min(max(rate, MIN_RATE), MAX_RATE)
