"""Profiles of servers with an OpenAI-compatible Chat Completions API.

Data for `clew.providers.compatible`. For a profile of your own use
`msgspec.structs.replace(PROFILES["vllm"], …)` or a new `Profile`.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from clew.context.reasoning import Echoes
from clew.core.errors import ConfigError
from clew.providers.wire.chat.dialect import IDS, NAMES, Dialect, DocumentField, ReasoningField
from clew.providers.wire.chat.model_list import ModelListApi
from clew.providers.wire.chat.text_markup import GEMMA, THINK, TextTags
from clew.providers.wire.sanitize import NameRule

ALL = ("",)
"""The prefix of every name."""


class WebToolFields(Struct, frozen=True, kw_only=True):
    """What a request contains to enable a tool that the server runs itself."""

    tools: tuple[dict[str, Any], ...] = ()
    options: dict[str, Any] = {}


class Profile(Struct, frozen=True, kw_only=True):
    """How to talk to one server, or to one family of models on any server."""

    name: str
    """The name in errors and in the provenance of reasoning."""
    base_url: str
    key_env: str = ""
    """The environment variable of the API key."""
    needs_key: bool = True
    echoes: Echoes = Echoes.NEVER
    """Which of its own reasoning it needs back; the dialect says in which field."""
    dialect: Dialect = Dialect()
    tags: tuple[TextTags, ...] = ()
    """Tags that the models may leave in their text."""
    listing: ModelListApi = ModelListApi.MODELS
    web: Mapping[str, WebToolFields] = {}
    """How to enable `web_search` and `web_fetch`, where the server has them."""
    options: dict[str, Any] = {}
    """Fields for the body of every request."""


# The chat templates of Gemma and of older Mistral models require that user and assistant
# alternate; these models run on all local servers.
_LOCAL = Dialect(bridge_models=ALL, merge_roles=True)
_HOSTED = Dialect(names=NAMES)

_LM_STUDIO = Profile(
    name="lm_studio",
    base_url="http://127.0.0.1:1234/v1",
    needs_key=False,
    dialect=_LOCAL,
    tags=(THINK,),
    listing=ModelListApi.LM_STUDIO,
)

_ALL = (
    _LM_STUDIO,
    # For the tags of the model family; LM Studio is just its usual server.
    Profile(
        name="gemma",
        base_url=_LM_STUDIO.base_url,
        needs_key=False,
        dialect=_LOCAL,
        tags=GEMMA,
        listing=ModelListApi.LM_STUDIO,
    ),
    Profile(
        name="ollama",
        base_url="http://127.0.0.1:11434/v1",
        key_env="OLLAMA_API_KEY",
        needs_key=False,
        echoes=Echoes.TOOL_USE_ONLY,
        dialect=Dialect(reasoning=ReasoningField.REASONING),
        tags=(THINK,),
        listing=ModelListApi.OLLAMA,
    ),
    Profile(
        name="llama_cpp",
        base_url="http://127.0.0.1:8080/v1",
        needs_key=False,
        dialect=_LOCAL,
        tags=(THINK,),
    ),
    Profile(
        name="vllm",
        base_url="http://127.0.0.1:8000/v1",
        key_env="VLLM_API_KEY",
        needs_key=False,
        # https://docs.vllm.ai/en/latest/features/interleaved_thinking/
        echoes=Echoes.TOOL_USE_ONLY,
        dialect=Dialect(reasoning=ReasoningField.REASONING, bridge_models=ALL, merge_roles=True),
        tags=(THINK,),
    ),
    Profile(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        key_env="OPENROUTER_API_KEY",
        echoes=Echoes.OWN_ISSUED,
        dialect=Dialect(
            result_images=True,
            cache_control_models=("anthropic/", "~anthropic/", "qwen/"),
            names=NAMES,
            ids=IDS,
            bridge_models=("mistralai/",),
        ),
        web={
            "web_search": WebToolFields(tools=({"type": "openrouter:web_search"},)),
            "web_fetch": WebToolFields(tools=({"type": "openrouter:web_fetch"},)),
        },
    ),
    Profile(
        name="qwen",
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key_env="DASHSCOPE_API_KEY",
        dialect=_HOSTED,
        tags=(THINK,),
        web={
            "web_search": WebToolFields(options={"enable_search": True}),
            # https://www.alibabacloud.com/help/en/model-studio/web-extractor: it needs search
            # and thinking too, and works only in streams.
            "web_fetch": WebToolFields(
                options={
                    "enable_search": True,
                    "enable_thinking": True,
                    "search_options": {"search_strategy": "agent_max"},
                }
            ),
        },
    ),
    Profile(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        key_env="GROQ_API_KEY",
        dialect=Dialect(limit_field="max_completion_tokens", names=NAMES),
        tags=(THINK,),
        web={"web_search": WebToolFields(tools=({"type": "browser_search"},))},
    ),
    Profile(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        key_env="MISTRAL_API_KEY",
        echoes=Echoes.TOOL_USE_ONLY,
        dialect=Dialect(
            reasoning=ReasoningField.PARTS,
            documents=DocumentField.ADDRESS,
            stream_usage=False,
            names=NAMES,
            ids=NameRule(characters="a-zA-Z0-9", shortest=9, longest=9),
            bridge_models=ALL,
        ),
    ),
    Profile(name="xai", base_url="https://api.x.ai/v1", key_env="XAI_API_KEY", dialect=_HOSTED),
    Profile(
        name="together",
        base_url="https://api.together.xyz/v1",
        key_env="TOGETHER_API_KEY",
        dialect=_HOSTED,
        tags=(THINK,),
    ),
    Profile(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        key_env="FIREWORKS_API_KEY",
        dialect=_HOSTED,
        tags=(THINK,),
    ),
)

PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in _ALL}


def find_profile(name: str) -> Profile:
    """Return the profile with that name; case and punctuation do not matter (`LM Studio`).

    Raises:
        ConfigError: There is no such profile.
    """
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    for known, profile in PROFILES.items():
        if known.replace("_", "") == plain:
            return profile
    raise ConfigError(
        f"There is no profile {name!r}. Available: {', '.join(sorted(PROFILES))}."
        " For any other server, use OpenAIChat with its base URL."
    )


def ollama_address(host: str) -> str:
    """Return the base URL for `OLLAMA_HOST`: `host`, `host:port` or `http://host:port`.

    A server that listens on all addresses is reached through loopback.

    Raises:
        ConfigError: The value has another format.
    """
    scheme, found, rest = host.strip().partition("://")
    # Like Ollama: with a scheme, the default port is that of the scheme.
    usual = {"http": 80, "https": 443}.get(scheme, 0) if found else 11_434
    parts = urlsplit(f"//{(rest if found else scheme).partition('/')[0]}")
    try:
        port = parts.port or usual
    except ValueError:
        port = 0
    if not port:
        raise ConfigError(f"OLLAMA_HOST is {host!r}: use host, host:port or http://host:port")
    name = parts.hostname or "127.0.0.1"
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)  # noqa: S104
    return f"{scheme if found else 'http'}://{f'[{name}]' if ':' in name else name}:{port}/v1"
