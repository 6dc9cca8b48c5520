"""What a call consumed and cost, whichever host counted it."""

from clew.core.usage import Usage
from clew.providers.wire.chat.answers import Choice, Counts, Payload, PromptDetails

_TICKS_PER_DOLLAR = 1e10


def counts(payload: Payload, choice: Choice) -> Counts | None:
    """Return what an answer says of usage, wherever the host puts it."""
    if payload.usage is not None:
        return payload.usage
    if payload.x_groq is not None and payload.x_groq.usage is not None:
        return payload.x_groq.usage
    # Moonshot counts in the last choice of a stream.
    return choice.usage


def usage(found: Counts) -> Usage:
    """Return the tokens of a call."""
    details = found.prompt_tokens_details or PromptDetails()
    prompt, answer = found.prompt_tokens or 0, found.completion_tokens or 0
    return Usage(
        input_tokens=prompt,
        # xAI and Gemini count the thinking in nothing but the total.
        output_tokens=max(answer, (found.total_tokens or 0) - prompt),
        cache_read_tokens=details.cached_tokens
        or found.prompt_cache_hit_tokens
        or found.cached_tokens
        or found.num_cached_tokens
        or 0,
        cache_write_tokens=details.cache_write_tokens
        or details.cache_creation_input_tokens
        or found.cache_creation_input_tokens
        or 0,
    )


def cost(found: Counts) -> float | None:
    """Return the US dollars that the host says a call cost."""
    if found.cost_in_usd_ticks is not None:
        return found.cost_in_usd_ticks / _TICKS_PER_DOLLAR
    price = found.cost.get("total_cost") if isinstance(found.cost, dict) else found.cost
    if not isinstance(price, int | float):
        return None
    # With a key of one's own, OpenRouter's cost is only its fee.
    upstream = found.cost_details.upstream_inference_cost if found.cost_details else None
    return float(price) + (upstream or 0.0 if found.is_byok else 0.0)
