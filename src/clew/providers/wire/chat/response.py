"""The response format, as far as Clew reads it, and its usage.

Every field may be absent or null.
"""

from typing import Any

from msgspec import Struct

from clew.core.usage import Usage


class ContentPart(Struct, gc=False):
    """A content part; Mistral sends these when the model reasons."""

    type: str | None = None
    text: str | None = None
    thinking: "str | list[ContentPart] | None" = None


class FunctionCall(Struct, gc=False):
    """The function of a tool call."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ToolCallDelta(Struct, gc=False):
    """A tool call, or a delta of one."""

    index: int | None = None
    id: str | None = None
    function: FunctionCall | None = None
    extra_content: dict[str, Any] | None = None
    """Gemini's thought signature."""


class ExecutedTool(Struct, gc=False):
    """A tool that Groq ran itself."""

    index: int | None = None
    type: str | None = None
    arguments: str | None = None
    output: str | None = None


class GeneratedImage(Struct, gc=False):
    """An image that the model generated."""

    image_url: dict[str, Any] | None = None


class AudioOutput(Struct, gc=False):
    """Audio that the model generated."""

    id: str | None = None
    data: str | None = None
    transcript: str | None = None


class ChatDelta(Struct, gc=False):
    """A message, or a delta of it."""

    content: str | list[ContentPart] | dict[str, Any] | None = None
    """A few hosts send a single part as an object."""
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallDelta] | None = None
    function_call: FunctionCall | None = None
    annotations: list[dict[str, Any]] | None = None
    executed_tools: list[ExecutedTool] | None = None
    images: list[GeneratedImage] | None = None
    audio: AudioOutput | None = None
    extra_content: dict[str, Any] | None = None


class PromptDetails(Struct, gc=False):
    """The cache counts of the prompt."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class CompletionDetails(Struct, gc=False):
    """The counts within the answer."""

    reasoning_tokens: int | None = None


class CostDetails(Struct, gc=False):
    """The cost at a gateway's upstream provider."""

    upstream_inference_cost: float | None = None


class ChatUsage(Struct, gc=False):
    """The usage of a call, in the fields of many hosts."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    num_cached_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cost: Any = None
    cost_details: CostDetails | None = None
    is_byok: bool | None = None
    cost_in_usd_ticks: int | None = None


class ChatChoice(Struct, gc=False):
    """One of the requested choices."""

    index: int | None = 0
    delta: ChatDelta | None = None
    message: ChatDelta | None = None
    finish_reason: str | None = None
    usage: ChatUsage | None = None
    error: Any = None


class GroqExtras(Struct, gc=False):
    """Groq's additional fields."""

    usage: ChatUsage | None = None
    error: Any = None


class ChatPayload(Struct, gc=False):
    """A response, or one event of it."""

    object: str | None = None
    choices: list[ChatChoice] | None = None
    usage: ChatUsage | None = None
    x_groq: GroqExtras | None = None
    citations: list[Any] | None = None
    search_results: list[dict[str, Any]] | None = None
    error: Any = None


_TICKS_PER_DOLLAR = 1e10


def find_usage(payload: ChatPayload, choice: ChatChoice) -> ChatUsage | None:
    """Return the usage of a response, wherever the host puts it."""
    if payload.usage is not None:
        return payload.usage
    if payload.x_groq is not None and payload.x_groq.usage is not None:
        return payload.x_groq.usage
    # Moonshot reports usage in the last choice of a stream.
    return choice.usage


def read_usage(found: ChatUsage) -> Usage:
    """Return the token counts of a call."""
    details = found.prompt_tokens_details or PromptDetails()
    read = (
        details.cached_tokens
        or found.prompt_cache_hit_tokens
        or found.cached_tokens
        or found.num_cached_tokens
        or found.cache_read_input_tokens
        or 0
    )
    written = (
        details.cache_write_tokens
        or details.cache_creation_input_tokens
        or found.cache_creation_input_tokens
        or 0
    )
    prompt = (found.prompt_tokens or 0) + _count_cache_apart(found, read, written)
    return Usage(
        input_tokens=prompt,
        # xAI and Gemini count reasoning only in the total.
        output_tokens=max(found.completion_tokens or 0, (found.total_tokens or 0) - prompt),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _count_cache_apart(found: ChatUsage, read: int, written: int) -> int:
    """Return how many cached tokens the host counts beside `prompt_tokens`, not within them.

    Gateways to Anthropic do so. The total shows it, or a prompt that is smaller than its cache.
    """
    details = found.completion_tokens_details or CompletionDetails()
    thought = details.reasoning_tokens or 0
    prompt, answer = found.prompt_tokens or 0, found.completion_tokens or 0
    beside = (found.total_tokens or 0) - prompt - answer
    counts = [count for count in (read + written, read, written) if count]
    if beside != thought:
        for count in counts:
            if beside in {count, count + thought}:
                return count
    return next((count for count in counts if count > prompt), 0)


def read_cost(found: ChatUsage) -> float | None:
    """Return the cost in US dollars that the host reports."""
    if found.cost_in_usd_ticks is not None:
        return found.cost_in_usd_ticks / _TICKS_PER_DOLLAR
    price = found.cost.get("total_cost") if isinstance(found.cost, dict) else found.cost
    if not isinstance(price, int | float):
        return None
    # With your own provider key, OpenRouter's cost is only its fee.
    upstream = found.cost_details.upstream_inference_cost if found.cost_details else None
    return float(price) + (upstream or 0.0 if found.is_byok else 0.0)
