"""The names and values of span attributes, by the GenAI semantic conventions. Pure.

Own attributes begin with `clew.`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from clew.core.json_text import decode_json
from clew.core.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult
from clew.core.redaction import redact
from clew.core.results import UsageSnapshot
from clew.core.text import make_encodable
from clew.core.usage import Usage
from clew.providers.protocol import Request

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_ID: Final = "gen_ai.agent.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - the name of an attribute
ERROR: Final = "error.type"
COST: Final = "clew.cost_usd"
PURPOSE: Final = "clew.purpose"

Attributes: TypeAlias = dict[str, str | int | float | bool | Sequence[str]]

_PROVIDERS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "deepseek": "deepseek",
    "gemini": "gcp.gemini",
    "groq": "groq",
    "mistral": "mistral_ai",
    "openai": "openai",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "xai": "x_ai",
}
_FINISH_REASONS: Mapping[str, str] = {
    "done": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "refused": "content_filter",
}
_MAX_NAME = 100


def name_provider(name: str) -> str:
    """Return the name that the conventions give a provider, or its own."""
    return _PROVIDERS.get(name, name)


def name_finish_reason(reason: str) -> str:
    """Return why a model stopped, in the words of the conventions."""
    return _FINISH_REASONS.get(reason, reason)


def shorten_name(name: str) -> str:
    """Return the name of a tool or an agent, which a model may have made up."""
    return redact(name)[:_MAX_NAME]


def describe_request(request: Request, provider: str) -> Attributes:
    """Return what is known of a call before it is sent."""
    found: Attributes = {
        OPERATION: "chat",
        PROVIDER: name_provider(provider),
        REQUEST_MODEL: request.model,
        "gen_ai.request.stream": True,
    }
    if request.max_output_tokens is not None:
        found["gen_ai.request.max_tokens"] = request.max_output_tokens
    if request.temperature is not None:
        found["gen_ai.request.temperature"] = request.temperature
    return found


def describe_usage(usage: Usage) -> Attributes:
    """Return the tokens of a call; `input_tokens` includes those of the cache."""
    return _drop_zero(
        {
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
        },
        {
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        },
    )


def describe_run_usage(usage: UsageSnapshot) -> Attributes:
    """Return the tokens and the cost of a run, with all its calls."""
    found = describe_usage(
        Usage(
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
    )
    if usage.cost_status != "unknown":
        found[COST] = usage.cost_usd
    return found


def describe_input(request: Request, secrets: Sequence[str]) -> Attributes:
    """Return the content of a request: its messages and its system prompt, redacted."""
    found: Attributes = {
        "gen_ai.input.messages": encode_content(map(_show_message, request.messages), secrets)
    }
    if request.system:
        parts = [{"type": "text", "content": request.system}]
        found["gen_ai.system_instructions"] = encode_content(parts, secrets)
    return found


def describe_output(message: Message, reason: str, secrets: Sequence[str]) -> Attributes:
    """Return the content of an answer, redacted."""
    shown = {**_show_message(message), "finish_reason": name_finish_reason(reason)}
    return {"gen_ai.output.messages": encode_content([shown], secrets)}


def encode_content(values: Iterable[Any], secrets: Sequence[str]) -> str:
    """Return values as JSON without secrets."""
    hidden = redact(list(values), extra_values=tuple(secrets))
    return msgspec.json.encode(make_encodable(hidden)).decode()


def _show_message(message: Message) -> dict[str, Any]:
    parts = [shown for part in message.parts if (shown := _show_part(part)) is not None]
    return {"role": str(message.role), "parts": parts}


def _show_part(part: Part) -> dict[str, Any] | None:
    match part:
        case Text(text=text):
            return {"type": "text", "content": text}
        case Reasoning(text=text):
            return {"type": "reasoning", "content": text} if text else None
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            values = _read(arguments)
            return {"type": "tool_call", "id": call_id, "name": name, "arguments": values}
        case ToolResult(call_id=call_id, text=text):
            return {"type": "tool_call_response", "id": call_id, "response": text}
        case _:
            # Images and files are large, and cannot be searched for secrets.
            return {"type": type(part).__name__.lower()}


def _read(arguments: str) -> Any:
    try:
        return decode_json(arguments)
    except msgspec.DecodeError:
        return arguments


def _drop_zero(always: Attributes, others: Attributes) -> Attributes:
    return always | {name: value for name, value in others.items() if value}
