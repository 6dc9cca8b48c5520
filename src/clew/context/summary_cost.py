"""Chooses how a summary is asked for: after the conversation's own prefix, or as text.

The conversation's own request, followed by an instruction, repeats bytes that the provider has
in its cache: they cost the price of a cache read. The serialised transcript shortens tool output
and leaves out what stays, so it has fewer tokens, but all of them cost the full price. The
cheaper form depends on how much is cached, and on the prices of the model.
"""

from enum import StrEnum

from msgspec import Struct

MOST_OUTPUT = 4_000
"""Tokens of a long summary: more room than that is not needed to choose the shared form."""


class SummaryForm(StrEnum):
    """How a model is asked for a summary."""

    SHARED = "shared"
    """The conversation as it was last sent, followed by the instruction."""
    SERIALISED = "serialised"
    """A request of its own that contains the conversation as text."""


class SummaryPrices(Struct, frozen=True, kw_only=True):
    """What a token costs; only the relations count."""

    input: float = 1.0
    read: float = 0.1
    """A token that the provider reads from its cache."""
    write: float = 1.25
    """A token that the provider writes to its cache."""
    output: float = 5.0


class SummarySizes(Struct, frozen=True, kw_only=True):
    """The sizes of both forms of one summary, in tokens."""

    view: int
    """The conversation as it would be sent, with system prompt and tools."""
    cached: int
    """How much of its beginning is in the provider's cache; 0 when the cache is cold."""
    instruction: int
    transcript: int
    """Everything that the serialised form sends, in all its requests."""
    output: int
    """The room that the summary needs."""
    thinking: int = 0
    """What the model thinks before it answers in the conversation, but not in other requests."""


def shared_cost(sizes: SummarySizes, prices: SummaryPrices) -> float:
    """Return the cost of the shared form, without the text of the summary."""
    cached = min(sizes.cached, sizes.view)
    fresh = sizes.view - cached + sizes.instruction
    return cached * prices.read + fresh * prices.write + sizes.thinking * prices.output


def serialised_cost(sizes: SummarySizes, prices: SummaryPrices) -> float:
    """Return the cost of the serialised form, without the text of the summary."""
    return sizes.transcript * prices.input


def fits_window(sizes: SummarySizes, window: int) -> bool:
    """Return whether the shared form and its answer fit into `window`."""
    return sizes.view + sizes.instruction + sizes.thinking + sizes.output <= window


def choose_form(sizes: SummarySizes, prices: SummaryPrices, *, window: int) -> SummaryForm:
    """Return the cheaper form; serialised where nothing is cached or it would not fit.

    With equal costs, the serialised form is chosen: its request is shorter.
    """
    if not sizes.cached or not fits_window(sizes, window):
        return SummaryForm.SERIALISED
    if shared_cost(sizes, prices) < serialised_cost(sizes, prices):
        return SummaryForm.SHARED
    return SummaryForm.SERIALISED


def count_cached(input_tokens: int, *, reported: int, age: float, cold_after: float) -> int:
    """Return how many tokens of the last request are still in the provider's cache.

    Args:
        input_tokens: The size of the last request.
        reported: The tokens of it that the provider read from or wrote to its cache. A provider
            that reports none has no cache, or keeps quiet about it.
        age: Seconds since that request.
        cold_after: Seconds after which the provider forgets it.
    """
    return input_tokens if reported > 0 and age <= cold_after else 0
