"""A harness for every adapter that ships: the voice of its API, and what that API can do."""

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
from clew.testing.fake_apis.anthropic import FakeMessagesApi
from clew.testing.fake_apis.chat import FakeChatApi
from clew.testing.fake_apis.converse import FakeConverseApi, exception
from clew.testing.fake_apis.gemini import FakeGeminiApi
from clew.testing.fake_apis.responses import FakeResponsesApi
from clew.testing.provider_harness import MODEL
from clew.testing.providers import AdapterParams, ApiCapabilities, HttpHarness
from clew.testing.request_parsers import anthropic as messages
from clew.testing.request_parsers import chat, converse, responses
from clew.testing.request_parsers import gemini as generate

PLAIN = ApiCapabilities(thinking=True, cache_writes=True)
ECHOED = ApiCapabilities(thinking=True, echoes=True, cache_writes=True)
SEALED = ApiCapabilities(thinking=True, signatures=True, cache_writes=True)


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


def chat_harness(
    make: Callable[[AdapterParams], Provider],
    *,
    thinking: str = "reasoning_content",
    capabilities: ApiCapabilities = PLAIN,
) -> HttpHarness:
    return HttpHarness(
        api=FakeChatApi(thinking),
        make=make,
        capabilities=capabilities,
        stream_error=chat_error,
        parse_request=partial(chat.parse_request, provenance="any"),
    )


def responses_harness(make: Callable[[AdapterParams], Provider]) -> HttpHarness:
    return HttpHarness(
        api=FakeResponsesApi(),
        make=make,
        capabilities=SEALED,
        stream_error=responses_error,
        parse_request=partial(responses.parse_request, provenance="any"),
    )


def gemini_harness(make: Callable[[AdapterParams], Provider]) -> HttpHarness:
    return HttpHarness(
        api=FakeGeminiApi(),
        make=make,
        capabilities=ApiCapabilities(thinking=True, signatures=True),
        stream_error=gemini_error,
        parse_request=partial(generate.parse_request, provenance="any"),
    )


def compatible(profile: str) -> Callable[[AdapterParams], Provider]:
    return lambda at: Compatible(profile, base_url=f"{at.url}/v1", api_key=at.api_key, **at.options)


def ollama(at: AdapterParams) -> Provider:
    # Without facts of one's own, very little is assumed of its window.
    options: AdapterOptions = {**at.options, "models": {MODEL: ModelFacts(name=MODEL)}}
    return Compatible("ollama", base_url=f"{at.url}/v1", api_key=at.api_key, **options)


HARNESSES = {
    "anthropic": HttpHarness(
        api=FakeMessagesApi(),
        make=lambda at: Anthropic(at.api_key, base_url=f"{at.url}/v1", **at.options),
        capabilities=SEALED,
        stream_error=messages_error,
        parse_request=partial(messages.parse_request, provenance="any"),
    ),
    "azure": responses_harness(lambda at: AzureOpenAI(at.url, api_key=at.api_key, **at.options)),
    "azure-chat": chat_harness(
        lambda at: AzureOpenAI(
            at.url, api_key=at.api_key, api="chat", api_version="2024-10-21", **at.options
        )
    ),
    "bedrock": HttpHarness(
        api=FakeConverseApi(),
        make=lambda at: Bedrock(
            region="us-east-1", endpoint=at.url, api_key=at.api_key, **at.options
        ),
        capabilities=SEALED,
        model="anthropic.claude-sonnet-4-5-20250929-v1:0",
        stream_error=partial(exception, "throttlingException"),
        parse_request=partial(converse.parse_request, provenance="any"),
    ),
    "deepseek": chat_harness(
        lambda at: DeepSeek(at.api_key, base_url=at.url, **at.options), capabilities=ECHOED
    ),
    "gemini": gemini_harness(
        lambda at: Gemini(at.api_key, base_url=f"{at.url}/v1beta", **at.options)
    ),
    "lm-studio": chat_harness(compatible("lm_studio"), thinking="reasoning"),
    "mistral": chat_harness(compatible("mistral"), thinking="thinking", capabilities=ECHOED),
    "ollama": chat_harness(
        ollama,
        thinking="reasoning",
        capabilities=ECHOED,
    ),
    "openai": responses_harness(
        lambda at: OpenAIResponses(at.api_key, base_url=f"{at.url}/v1", **at.options)
    ),
    "openai-chat": chat_harness(
        lambda at: OpenAIChat(f"{at.url}/v1", api_key=at.api_key, **at.options)
    ),
    "openrouter": chat_harness(
        compatible("openrouter"), thinking="reasoning_details", capabilities=SEALED
    ),
    "vertex": gemini_harness(
        lambda at: Vertex("mine", token=lambda: at.api_key, base_url=at.url, **at.options)
    ),
}
