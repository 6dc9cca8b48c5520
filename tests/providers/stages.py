"""A stage for every adapter that ships: the voice of its API, and what that API can do."""

from collections.abc import Callable
from functools import partial

import msgspec

from clew.core.models import ModelFacts
from clew.providers.adapter import AdapterOptions
from clew.providers.anthropic import Anthropic
from clew.providers.azure import AzureOpenAI
from clew.providers.bedrock import Bedrock
from clew.providers.compatible import Compatible
from clew.providers.deepseek import DeepSeek
from clew.providers.gemini import Gemini, Vertex
from clew.providers.openai_chat import OpenAIChat
from clew.providers.openai_responses import OpenAIResponses
from clew.providers.protocol import Provider
from clew.testing.fake_apis.anthropic import AnthropicVoice
from clew.testing.fake_apis.chat import ChatVoice
from clew.testing.fake_apis.converse import ConverseVoice, exception
from clew.testing.fake_apis.gemini import GeminiVoice
from clew.testing.fake_apis.responses import ResponsesVoice
from clew.testing.provider_harness import MODEL
from clew.testing.providers import HttpStage, Powers, Setting
from clew.testing.request_parsers import anthropic as messages
from clew.testing.request_parsers import chat, converse, responses
from clew.testing.request_parsers import gemini as generate

PLAIN = Powers(thinking=True, cache_writes=True)
ECHOED = Powers(thinking=True, echoes=True, cache_writes=True)
SEALED = Powers(thinking=True, signatures=True, cache_writes=True)


def chat_error(text: str) -> bytes:
    return _event({"error": {"message": text, "code": 503}})


def gemini_error(text: str) -> bytes:
    return _event({"error": {"code": 503, "message": text, "status": "UNAVAILABLE"}})


def messages_error(text: str) -> bytes:
    return _event({"type": "error", "error": {"type": "overloaded_error", "message": text}})


def responses_error(text: str) -> bytes:
    return _event({"type": "error", "code": "server_error", "message": text, "param": None})


def _event(payload: object) -> bytes:
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


def chat_stage(
    make: Callable[[Setting], Provider],
    *,
    thinking: str = "reasoning_content",
    can: Powers = PLAIN,
) -> HttpStage:
    return HttpStage(
        voice=ChatVoice(thinking),
        make=make,
        can=can,
        stream_error=chat_error,
        reads=partial(chat.decode_request, provenance="any"),
    )


def responses_stage(make: Callable[[Setting], Provider]) -> HttpStage:
    return HttpStage(
        voice=ResponsesVoice(),
        make=make,
        can=SEALED,
        stream_error=responses_error,
        reads=partial(responses.decode_request, provenance="any"),
    )


def gemini_stage(make: Callable[[Setting], Provider]) -> HttpStage:
    return HttpStage(
        voice=GeminiVoice(),
        make=make,
        can=Powers(thinking=True, signatures=True),
        stream_error=gemini_error,
        reads=partial(generate.decode_request, provenance="any"),
    )


def compatible(profile: str) -> Callable[[Setting], Provider]:
    return lambda at: Compatible(profile, base_url=f"{at.url}/v1", api_key=at.api_key, **at.options)


def ollama(at: Setting) -> Provider:
    # Without facts of one's own, very little is assumed of its window.
    options: AdapterOptions = {**at.options, "models": {MODEL: ModelFacts(name=MODEL)}}
    return Compatible("ollama", base_url=f"{at.url}/v1", api_key=at.api_key, **options)


STAGES = {
    "anthropic": HttpStage(
        voice=AnthropicVoice(),
        make=lambda at: Anthropic(at.api_key, base_url=f"{at.url}/v1", **at.options),
        can=SEALED,
        stream_error=messages_error,
        reads=partial(messages.decode_request, provenance="any"),
    ),
    "azure": responses_stage(lambda at: AzureOpenAI(at.url, api_key=at.api_key, **at.options)),
    "azure-chat": chat_stage(
        lambda at: AzureOpenAI(
            at.url, api_key=at.api_key, api="chat", api_version="2024-10-21", **at.options
        )
    ),
    "bedrock": HttpStage(
        voice=ConverseVoice(),
        make=lambda at: Bedrock(
            region="us-east-1", endpoint=at.url, api_key=at.api_key, **at.options
        ),
        can=SEALED,
        model="anthropic.claude-sonnet-4-5-20250929-v1:0",
        stream_error=partial(exception, "throttlingException"),
        reads=partial(converse.decode_request, provenance="any"),
    ),
    "deepseek": chat_stage(
        lambda at: DeepSeek(at.api_key, base_url=at.url, **at.options), can=ECHOED
    ),
    "gemini": gemini_stage(
        lambda at: Gemini(at.api_key, base_url=f"{at.url}/v1beta", **at.options)
    ),
    "lm-studio": chat_stage(compatible("lm_studio"), thinking="reasoning"),
    "mistral": chat_stage(compatible("mistral"), thinking="thinking", can=ECHOED),
    "ollama": chat_stage(
        ollama,
        thinking="reasoning",
        can=ECHOED,
    ),
    "openai": responses_stage(
        lambda at: OpenAIResponses(at.api_key, base_url=f"{at.url}/v1", **at.options)
    ),
    "openai-chat": chat_stage(
        lambda at: OpenAIChat(f"{at.url}/v1", api_key=at.api_key, **at.options)
    ),
    "openrouter": chat_stage(compatible("openrouter"), thinking="reasoning_details", can=SEALED),
    "vertex": gemini_stage(
        lambda at: Vertex("mine", token=lambda: at.api_key, base_url=at.url, **at.options)
    ),
}
