"""What one turn consumed."""

from clew.core.context_state import ContextState
from clew.core.usage import Spending
from clew.sdk.values import UsageSnapshot


def snapshot(before: Spending, after: Spending, state: ContextState) -> UsageSnapshot | None:
    """Return what was spent between two readings; None when no model was called."""
    calls = after.calls - before.calls
    if not calls:
        return None
    used, earlier = after.usage, before.usage
    prompt = used.input_tokens - earlier.input_tokens
    completion = used.output_tokens - earlier.output_tokens
    total = prompt + completion
    is_exact = total > 0 and after.uncounted == before.uncounted
    return UsageSnapshot(
        kind="exact" if is_exact else "estimated",
        total_tokens=total if is_exact else max(total, state.used_tokens),
        prompt_tokens=prompt,
        completion_tokens=completion,
        cache_read_tokens=used.cache_read_tokens - earlier.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens - earlier.cache_write_tokens,
        context_used_tokens=state.used_tokens,
        context_max_tokens=state.max_tokens,
        context_used_percentage=state.used_percentage,
        cost_status="unknown" if after.unpriced > before.unpriced else "estimated",
        cost_usd=after.usd - before.usd,
    )
