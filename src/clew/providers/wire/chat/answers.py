"""What servers send back, as far as Clew reads it. Every field may be absent or null."""

from typing import Any

from msgspec import Struct


class Piece(Struct):
    """A piece of content; Mistral sends these when the model thinks."""

    type: str | None = None
    text: str | None = None
    thinking: "str | list[Piece] | None" = None


class Function(Struct):
    """What is called."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class Call(Struct):
    """A tool call, or a piece of one."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: dict[str, Any] | None = None
    """Gemini's signature of the thought that led to the call."""


class Executed(Struct):
    """A tool that Groq ran itself."""

    index: int | None = None
    type: str | None = None
    arguments: str | None = None
    output: str | None = None


class Picture(Struct):
    """A picture that the model drew."""

    image_url: dict[str, Any] | None = None


class Sound(Struct):
    """What the model said aloud."""

    id: str | None = None
    data: str | None = None
    transcript: str | None = None


class Delta(Struct):
    """A message, or what a stream adds to it."""

    content: str | list[Piece] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None
    annotations: list[dict[str, Any]] | None = None
    executed_tools: list[Executed] | None = None
    images: list[Picture] | None = None
    audio: Sound | None = None
    extra_content: dict[str, Any] | None = None


class PromptDetails(Struct):
    """What the prompt consisted of."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class CostDetails(Struct):
    """What a gateway's own provider charges."""

    upstream_inference_cost: float | None = None


class Counts(Struct):
    """What a call consumed, in the words of many hosts."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    num_cached_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cost: Any = None
    cost_details: CostDetails | None = None
    is_byok: bool | None = None
    cost_in_usd_ticks: int | None = None


class Choice(Struct):
    """One of the answers that were asked for."""

    index: int | None = 0
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    usage: Counts | None = None
    error: Any = None


class GroqExtras(Struct):
    """What Groq sends beside the common fields."""

    usage: Counts | None = None
    error: Any = None


class Payload(Struct):
    """An answer, or one event of it."""

    object: str | None = None
    choices: list[Choice] | None = None
    usage: Counts | None = None
    x_groq: GroqExtras | None = None
    citations: list[Any] | None = None
    search_results: list[dict[str, Any]] | None = None
    error: Any = None
