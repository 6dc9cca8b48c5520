"""Servers that speak Chat Completions, each with what it wants to be told differently.

Data only: `clew.providers.compatible` speaks by it. A profile of one's own is
`msgspec.structs.replace(PROFILES["vllm"], …)`, or a new `Profile`.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from clew.context.reasoning import Echoes
from clew.core.errors import ConfigError
from clew.providers.wire.chat.dialect import IDS, NAMES, Dialect, DocumentField, ReasoningField
from clew.providers.wire.chat.model_list import ModelListApi
from clew.providers.wire.chat.text_markup import GEMMA, THINK, TextTags
from clew.providers.wire.sanitize import NameRule

ALL = ("",)
"""The beginning of every name."""


class WebToolFields(Struct, frozen=True, kw_only=True):
    """How a tool that the server runs itself is switched on."""

    tools: tuple[dict[str, Any], ...] = ()
    options: dict[str, Any] = {}


class Profile(Struct, frozen=True, kw_only=True):
    """How to speak with one server, or with one family of models on any server."""

    name: str
    """What errors call it, and what the thinking that it sends is marked with."""
    base_url: str
    key_env: str = ""
    """The variable that people keep its key in; read where no key is given."""
    needs_key: bool = True
    echoes: Echoes = Echoes.NEVER
    """Which of its own thinking it wants back; where, says the dialect."""
    dialect: Dialect = Dialect()
    marks: tuple[TextTags, ...] = ()
    """Markup that the models may leave among their words."""
    listing: ModelListApi = ModelListApi.MODELS
    web: Mapping[str, WebToolFields] = {}
    """How `web_search` and `web_fetch` are switched on, where it has them."""
    options: dict[str, Any] = {}
    """Fields for the body of every request."""


# The templates of Gemma and of older Mistral models refuse any other order than user and
# assistant in turn; they run on all of these servers.
_LOCAL = Dialect(bridged=ALL, merges=True)
_HOSTED = Dialect(names=NAMES)

_LM_STUDIO = Profile(
    name="lm_studio",
    base_url="http://127.0.0.1:1234/v1",
    needs_key=False,
    dialect=_LOCAL,
    marks=(THINK,),
    listing=ModelListApi.LM_STUDIO,
)

_ALL = (
    _LM_STUDIO,
    # The family's own markup is what matters; LM Studio is merely where it most often runs.
    Profile(
        name="gemma",
        base_url=_LM_STUDIO.base_url,
        needs_key=False,
        dialect=_LOCAL,
        marks=GEMMA,
        listing=ModelListApi.LM_STUDIO,
    ),
    Profile(
        name="ollama",
        base_url="http://127.0.0.1:11434/v1",
        key_env="OLLAMA_API_KEY",
        needs_key=False,
        echoes=Echoes.TOOL_USE_ONLY,
        dialect=Dialect(thinking=ReasoningField.REASONING),
        marks=(THINK,),
        listing=ModelListApi.OLLAMA,
    ),
    Profile(
        name="llama_cpp",
        base_url="http://127.0.0.1:8080/v1",
        needs_key=False,
        dialect=_LOCAL,
        marks=(THINK,),
    ),
    Profile(
        name="vllm",
        base_url="http://127.0.0.1:8000/v1",
        key_env="VLLM_API_KEY",
        needs_key=False,
        # https://docs.vllm.ai/en/latest/features/interleaved_thinking/
        echoes=Echoes.TOOL_USE_ONLY,
        dialect=Dialect(thinking=ReasoningField.REASONING, bridged=ALL, merges=True),
        marks=(THINK,),
    ),
    Profile(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        key_env="OPENROUTER_API_KEY",
        echoes=Echoes.OWN_ISSUED,
        dialect=Dialect(
            result_images=True,
            cache_marks=("anthropic/", "~anthropic/", "qwen/"),
            names=NAMES,
            ids=IDS,
            bridged=("mistralai/",),
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
        marks=(THINK,),
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
        marks=(THINK,),
        web={"web_search": WebToolFields(tools=({"type": "browser_search"},))},
    ),
    Profile(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        key_env="MISTRAL_API_KEY",
        echoes=Echoes.TOOL_USE_ONLY,
        dialect=Dialect(
            thinking=ReasoningField.PIECES,
            documents=DocumentField.ADDRESS,
            stream_usage=False,
            names=NAMES,
            ids=NameRule(characters="a-zA-Z0-9", shortest=9, longest=9),
            bridged=ALL,
        ),
    ),
    Profile(name="xai", base_url="https://api.x.ai/v1", key_env="XAI_API_KEY", dialect=_HOSTED),
    Profile(
        name="together",
        base_url="https://api.together.xyz/v1",
        key_env="TOGETHER_API_KEY",
        dialect=_HOSTED,
        marks=(THINK,),
    ),
    Profile(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        key_env="FIREWORKS_API_KEY",
        dialect=_HOSTED,
        marks=(THINK,),
    ),
)

PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in _ALL}


def find_profile(name: str) -> Profile:
    """Return the profile of that name, however people spell it: `LM Studio`, `llama.cpp`.

    Raises:
        ConfigError: There is none.
    """
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    for known, profile in PROFILES.items():
        if known.replace("_", "") == plain:
            return profile
    raise ConfigError(
        f"There is no profile {name!r}. Known are: {', '.join(sorted(PROFILES))}."
        " For any other server, use OpenAIChat with its address."
    )
