"""The cost of a call in US dollars.

List prices come from the data in the package `genai-prices`; nothing is downloaded. The first
lookup imports it, which takes about a sixth of a second.

Discounts and batches are unknown here; use `overrides` for exact prices.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

import msgspec
from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.usage import Usage
from clew.providers.model_names import match_name, normalize_name

_UNBILLED = frozenset({"embedded", "llamacpp", "lmstudio", "ollama", "vllm"})
"""Local servers, which bill no tokens."""

_SELLERS = {
    "anthropic": "anthropic",
    "azure": "azure",
    "azure_chat": "azure",
    "bedrock": "aws",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "gemini": "google",
    "groq": "groq",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshot": "moonshotai",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "qwen": None,  # The data lacks Alibaba's prices, and those of other hosts differ.
    "scripted": None,
    "together": "together",
    "vertex": "google",
    "xai": "x-ai",
    "zai": "zai",
}
"""The billing company by provider; any other provider may have any seller."""

_MAKERS = {
    "chatgpt": "openai",
    "claude": "anthropic",
    "codex": "openai",
    "computer-use": "openai",
    "gemini": "google",
    "gpt": "openai",
    "gpt-oss": None,  # Open weights have a different price on each host.
    "grok": "x-ai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
}
"""Vendors whose models cost the same everywhere, by name prefix."""

_OPEN_ON_AZURE = {"deepseek": True, "gpt-oss": True, "kimi": True}
"""Models that Azure hosts at its own prices, for which the data has those of another host."""

_HOUR_FACTOR = 1.6
"""What Anthropic charges for a cache write that lasts an hour, relative to five minutes."""

_NAMED_BY_PATH = frozenset({"fireworks", "groq", "openrouter", "together"})
"""Sellers whose model names have the form `vendor/model`."""


class Price(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens.

    Raises:
        ConfigError: A price is negative or not a number.
    """

    input: float
    output: float
    cache_read: float | None = None
    """None: cache reads cost as much as other input."""
    cache_write: float | None = None
    """None: cache writes cost as much as other input."""
    cache_write_1h: float | None = None
    """For writes that are kept for an hour. None: 1.6 times `cache_write`, as Anthropic charges."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            dollars = getattr(self, name)
            if dollars is not None and not 0 <= dollars < math.inf:
                raise ConfigError(f"the {name} price must be at least 0, not {dollars}")


def price(
    usage: Usage,
    *,
    provider: str,
    model: str,
    overrides: Mapping[str, Price] | None = None,
    at: datetime | None = None,
) -> float | None:
    """Return the cost of a call in US dollars, or None if its price is unknown.

    Args:
        usage: The tokens of one call: prices may depend on the prompt length.
        provider: The provider's name.
        model: The model's name, as sent to the provider.
        overrides: Prices that take precedence, by the prefix of a model's name.
        at: The time of the call, for prices that change; None for now.
    """
    if overrides:
        given = match_name(model, {normalize_name(name): one for name, one in overrides.items()})
        if given is not None:
            return _cost(_consistent(usage), given)
    if provider in _UNBILLED:
        # Ollama forwards these to its cloud, which has plans instead of prices.
        return None if model.endswith(("-cloud", ":cloud")) else 0.0
    seller = _seller(provider, model)
    return _list_price(_consistent(usage), seller, model, at) if seller else None


def is_local(provider: str) -> bool:
    """Return whether a provider is a server on the user's own machine, which bills no tokens."""
    return provider in _UNBILLED


def _consistent(usage: Usage) -> Usage:
    """Return `usage` with no negative count and its cache counts within the input."""
    read, written = max(0, usage.cache_read_tokens), max(0, usage.cache_write_tokens)
    return Usage(
        input_tokens=max(usage.input_tokens, read + written),
        output_tokens=max(0, usage.output_tokens),
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=min(max(0, usage.hourly_write_tokens), written),
    )


def _cost(usage: Usage, given: Price) -> float:
    read, hourly = usage.cache_read_tokens, usage.hourly_write_tokens
    written = usage.cache_write_tokens - hourly
    fresh = usage.input_tokens - read - written - hourly
    per_read = given.input if given.cache_read is None else given.cache_read
    per_write = given.input if given.cache_write is None else given.cache_write
    total = (
        fresh * given.input
        + read * per_read
        + written * per_write
        + hourly * _find_hourly_price(given)
        + usage.output_tokens * given.output
    )
    return total / 1_000_000


def _find_hourly_price(given: Price) -> float:
    if given.cache_write_1h is not None:
        return given.cache_write_1h
    return given.input if given.cache_write is None else given.cache_write * _HOUR_FACTOR


@lru_cache(maxsize=1024)
def _seller(provider: str, model: str) -> str | None:
    """Return who bills for `model`; None if that is ambiguous or unknown."""
    if provider not in _SELLERS:
        return match_name(model, _MAKERS)
    seller = _SELLERS[provider]
    return None if seller == "azure" and match_name(model, _OPEN_ON_AZURE) else seller


def _list_price(usage: Usage, seller: str, model: str, at: datetime | None) -> float | None:
    import genai_prices  # noqa: PLC0415 - slow to import

    counted = genai_prices.Usage(**msgspec.structs.asdict(usage))
    name = model if seller in _NAMED_BY_PATH else model.rpartition("/")[2]
    try:
        found = genai_prices.calc_price(
            counted, name, provider_id=seller, genai_request_timestamp=at
        )
    except LookupError:
        return None
    prices = found.model_price
    by_tokens = prices.input_mtok is not None or prices.output_mtok is not None
    is_free = not vars(prices)
    if not by_tokens and not is_free:
        return None
    total = float(found.total_price)
    hourly = usage.hourly_write_tokens
    if hourly and prices.cache_write_1h_mtok is None and prices.cache_write_mtok is not None:
        # Hosts that resell a model are listed without this price.
        written = genai_prices.Usage(input_tokens=hourly, cache_write_tokens=hourly)
        total += float(prices.calc_price(written)["total_price"]) * (_HOUR_FACTOR - 1)
    return total
