"""Learns from a provider's counts how many tokens one estimated unit is.

A count is exact, but a request may contain text that is not in the journal, and lack some that
is. So three values are learned: the slope by which counts grow, the last count, and the smallest
one, which tells what every request costs. The prior of the slope is the rate of the model's
family. The result is a pure function of the counts in their order, so a journal always gives the
same calibration.
"""

from msgspec.structs import replace

from clew.context.model_family import family_of
from clew.core.models import Calibration

MIN_RATE, MAX_RATE = 0.25, 6.0
_PRIOR_UNITS = 3_000
_EXACT_UNITS = 60_000
"""The weight of the prior for an exact tokenizer: its counts need hardly any calibration."""
_FORGET = 0.995
_MOST_CHANGE = 4.0
_SURPRISE = 3.0
_MOST_STEEPNESS = 2.0


def make_prior(rate: float, weight: float = _PRIOR_UNITS) -> Calibration:
    """Return a starting calibration: a rate, with the weight of `weight` units of growth."""
    return Calibration(slope=_clamp(rate), weight=max(1.0, weight))


def default_for(model: str, *, exact: bool = False) -> Calibration:
    """Return the starting calibration for a model without counts.

    Units of an exact tokenizer are tokens, so no rate of a family applies to them.
    """
    return make_prior(1.0, _EXACT_UNITS) if exact else make_prior(family_of(model).rate)


def estimate_tokens(calibration: Calibration, units: int) -> int:
    """Estimate the tokens of a request of `units`.

    Between the smallest count and the last one, the estimate follows the straight line between
    them. So a large request that becomes small again, as by a compaction, is estimated from what
    small requests cost, not from the slope alone.
    """
    units = max(0, units)
    if units >= calibration.units:
        return round(calibration.tokens + (units - calibration.units) * calibration.slope)
    low_units, low_tokens = _find_low_end(calibration)
    if units <= low_units:
        per_unit = min(calibration.slope, low_tokens / low_units)
        return round(low_tokens - (low_units - units) * per_unit)
    share = (units - low_units) / (calibration.units - low_units)
    return round(low_tokens + (calibration.tokens - low_tokens) * share)


def convert_tokens(calibration: Calibration, tokens: int) -> int:
    """Return the units of the largest request that is estimated at `tokens`, or 0."""
    if tokens >= calibration.tokens:
        return int(calibration.units + (tokens - calibration.tokens) / calibration.slope)
    low_units, low_tokens = _find_low_end(calibration)
    if tokens <= low_tokens:
        per_unit = min(calibration.slope, low_tokens / low_units)
        return max(0, int(low_units - (low_tokens - tokens) / per_unit))
    share = (tokens - low_tokens) / (calibration.tokens - low_tokens)
    return int(low_units + (calibration.units - low_units) * share)


def _find_low_end(calibration: Calibration) -> tuple[int, int]:
    """Return units and tokens of the smallest count, or of the last one.

    If counts grew much faster than the text, something hidden was added since the smallest
    count, and it may stay when text leaves.
    """
    units, tokens = calibration.smallest
    explained = _MOST_STEEPNESS * calibration.slope * (calibration.units - units)
    if calibration.tokens - tokens > explained:
        return calibration.units, calibration.tokens
    return units, tokens


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
    low_units, low_tokens = calibration.smallest
    is_smallest = not calibration.tokens or units <= low_units or tokens <= low_tokens
    return Calibration(
        slope=slope,
        weight=weight,
        units=units,
        tokens=tokens,
        base_units=0 if is_smallest else low_units,
        base_tokens=0 if is_smallest else low_tokens,
    )


def _is_surprising(calibration: Calibration, units: int, tokens: int) -> bool:
    if not calibration.tokens:
        return False
    expected = estimate_tokens(calibration, units)
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
