"""What a call costs, in US dollars.

List prices come from the data inside the package `genai-prices`; nothing is fetched. It is
imported when the first list price is asked for, which takes about a sixth of a second.

Discounts of one's own and batches are not known here, and what is written to a cache is
taken to stay there for the seller's default time; `overrides` say it better.
"""

import math
from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.usage import Usage
from clew.providers.catalogue import match_name, normalize_name

_UNBILLED = frozenset({"embedded", "llamacpp", "lmstudio", "ollama", "vllm"})
"""They run on the user's own machines, where nobody bills tokens."""

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
    "qwen": None,  # Alibaba's own prices are not in the data, and other hosts' are not its.
    "scripted": None,
    "together": "together",
    "vertex": "google",
    "xai": "x-ai",
    "zai": "zai",
}
"""Who sends the bill, by provider. Whoever is not named here may be anybody."""

_MAKERS = {
    "chatgpt": "openai",
    "claude": "anthropic",
    "codex": "openai",
    "computer-use": "openai",
    "gemini": "google",
    "gpt": "openai",
    "gpt-oss": None,  # Open weights cost what each host takes.
    "grok": "x-ai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
}
"""Who makes the models that cost the same wherever they are sold, by how a name begins."""

_OPEN_ON_AZURE = {"deepseek": True, "gpt-oss": True, "kimi": True}
"""What Azure hosts at prices of its own, where the data would answer with another host's."""

_NAMED_BY_PATH = frozenset({"fireworks", "groq", "openrouter", "together"})
"""Sellers to whom `vendor/model` is the name of the model."""


class Price(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens.

    Raises:
        ConfigError: A price is below zero or not a number.
    """

    input: float
    output: float
    cache_read: float | None = None
    """None: what is read from the cache costs as much as fresh input."""
    cache_write: float | None = None
    """None: what is written to the cache costs as much as fresh input."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            dollars = getattr(self, name)
            if dollars is not None and not 0 <= dollars < math.inf:
                raise ConfigError(f"the {name} price must be a number from 0 on, not {dollars}")


def price(
    usage: Usage,
    *,
    provider: str,
    model: str,
    overrides: Mapping[str, Price] | None = None,
    at: datetime | None = None,
) -> float | None:
    """Return what a call cost in US dollars, or None when its price is unknown.

    Args:
        usage: The tokens of one call: prices may rise with the length of its prompt.
        provider: The provider's name.
        model: The model's name, as the provider was asked for it.
        overrides: Prices that count before any other, by the beginning of a model's name.
        at: When the call was made, for prices that change with time; None for now.
    """
    usage = _consistent(usage)
    given = match_name(
        model, {normalize_name(name): one for name, one in (overrides or {}).items()}
    )
    if given is not None:
        return _cost(usage, given)
    if provider in _UNBILLED:
        # Ollama passes these on to its own cloud, which has plans instead of prices.
        return None if model.endswith(("-cloud", ":cloud")) else 0.0
    seller = _seller(provider, model)
    return _list_price(usage, seller, model, at) if seller else None


def _consistent(usage: Usage) -> Usage:
    """Return `usage` with no count below zero and its cache counts within the input."""
    read, written = max(0, usage.cache_read_tokens), max(0, usage.cache_write_tokens)
    return Usage(
        input_tokens=max(usage.input_tokens, read + written),
        output_tokens=max(0, usage.output_tokens),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _cost(usage: Usage, given: Price) -> float:
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    fresh = usage.input_tokens - read - written
    per_read = given.input if given.cache_read is None else given.cache_read
    per_write = given.input if given.cache_write is None else given.cache_write
    total = (
        fresh * given.input
        + read * per_read
        + written * per_write
        + usage.output_tokens * given.output
    )
    return total / 1_000_000


def _seller(provider: str, model: str) -> str | None:
    """Return who bills for `model`; None when that could be several, or nobody we know."""
    if provider not in _SELLERS:
        return match_name(model, _MAKERS)
    seller = _SELLERS[provider]
    return None if seller == "azure" and match_name(model, _OPEN_ON_AZURE) else seller


def _list_price(usage: Usage, seller: str, model: str, at: datetime | None) -> float | None:
    import genai_prices  # noqa: PLC0415 - heavy, and many sessions never ask

    counted = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
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
    return float(found.total_price) if by_tokens or is_free else None
