"""Parse what servers report about their models.

Most answer `GET models` as OpenAI does and add fields of their own; Ollama has its own endpoints.
The catalogue supplies what a server does not report.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.errors import ProviderError
from clew.core.json_text import JsonDecoder
from clew.core.models import ModelFacts
from clew.providers.catalogue import lookup

T = TypeVar("T")


class ModelListApi(StrEnum):
    """Where a server lists its models."""

    MODELS = "models"
    """At `models`, in the API itself."""
    LM_STUDIO = "lm-studio"
    """At `/api/v0/models`, which reports more."""
    OLLAMA = "ollama"
    """At `/api/tags`, `/api/ps` and `/api/show`."""


class _Architecture(Struct):
    input_modalities: list[str] | None = None


class _TopProvider(Struct):
    context_length: int | None = None
    max_completion_tokens: int | None = None


class _Meta(Struct):
    n_ctx: int | None = None
    n_ctx_train: int | None = None


class _Abilities(Struct):
    completion_chat: bool | None = None
    function_calling: bool | None = None
    vision: bool | None = None


class _Model(Struct):
    """A model in a list, with the fields of many servers."""

    id: str
    type: str | None = None
    loaded_context_length: int | None = None
    max_model_len: int | None = None
    context_length: int | None = None
    context_window: int | None = None
    max_context_length: int | None = None
    max_completion_tokens: int | None = None
    meta: _Meta | None = None
    architecture: _Architecture | None = None
    top_provider: _TopProvider | None = None
    supported_parameters: list[str] | None = None
    capabilities: _Abilities | list[str] | None = None
    supports_chat: bool | None = None
    supports_tools: bool | None = None
    supports_image_input: bool | None = None


class _Models(Struct):
    data: list[_Model]


class _OllamaName(Struct):
    name: str
    context_length: int | None = None


class _OllamaNames(Struct):
    models: list[_OllamaName]


class _OllamaModel(Struct):
    remote_host: str | None = None
    model_info: dict[str, Any] | None = None
    parameters: str | None = None
    capabilities: list[str] | None = None


_models = JsonDecoder(_Models | list[_Model])
_ollama_names = JsonDecoder(_OllamaNames)
_ollama_model = JsonDecoder(_OllamaModel)
_OLLAMA_WINDOW = 4_096
_TALKERS = frozenset({"llm", "vlm", "chat", "language", "model", "base"})
"""Types of models that generate text; others embed, rank, draw or transcribe."""


def parse_response(read: Callable[[bytes], T], body: bytes, provider: str) -> T:
    """Parse the response of a server with `read`.

    Raises:
        ProviderError: The response has another format.
    """
    try:
        return read(body)
    except msgspec.DecodeError as error:
        raise ProviderError(
            f"{provider} returned an unexpected list of models ({error}). Check the base URL.",
            provider=provider,
        ) from error


def parse_models(body: bytes) -> list[ModelFacts]:
    """Parse a list of models, without those that are known not to chat."""
    found = _models.decode(body)
    every = found if isinstance(found, list) else found.data
    return [_parse_model(model) for model in every if _answers(model)]


def parse_ollama_names(body: bytes) -> list[str]:
    """Parse Ollama's list (`/api/tags`)."""
    return [model.name for model in _ollama_names.decode(body).models]


def parse_ollama_loaded(body: bytes) -> dict[str, int]:
    """Parse which models Ollama has loaded (`/api/ps`), with their windows."""
    loaded = _ollama_names.decode(body).models
    return {
        add_ollama_tag(model.name): model.context_length for model in loaded if model.context_length
    }


def add_ollama_tag(name: str) -> str:
    """Return a name as Ollama lists it: with the tag `latest` if it has none."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def parse_ollama_model(
    body: bytes, name: str, loaded: Mapping[str, int], *, hosted: bool = False
) -> ModelFacts:
    """Parse what Ollama reports about one model (`/api/show`).

    Ollama truncates a longer prompt silently, so the window that the model runs with applies: the
    loaded one, or that of its file. Before the model is loaded, both may be missing. In Ollama's
    cloud (`hosted`), a model has the window that it was trained for.
    """
    model = _ollama_model.decode(body)
    info = model.model_info or {}
    trained = (size for key, size in info.items() if key.endswith(".context_length"))
    window = loaded.get(add_ollama_tag(name)) or _set_window(model.parameters or "")
    if window is None and (hosted or model.remote_host):
        window = next(trained, None)
    can = model.capabilities
    facts = _facts(
        name,
        window=window,
        tools=None if can is None else "tools" in can,
        sees=None if can is None else "vision" in can,
    )
    return facts if window is not None else assume_ollama_window(facts)


def assume_ollama_window(facts: ModelFacts) -> ModelFacts:
    """Return `facts` with the smallest window that Ollama may use, marked as unknown."""
    return replace(facts, window=_OLLAMA_WINDOW, max_output=_OLLAMA_WINDOW // 4, known=False)


def _answers(model: _Model) -> bool:
    can = model.capabilities
    talks = can.completion_chat if isinstance(can, _Abilities) else None
    known = model.type is None or model.type in _TALKERS
    return known and talks is not False and model.supports_chat is not False


def _parse_model(model: _Model) -> ModelFacts:
    top = model.top_provider or _TopProvider()
    return _facts(
        model.id,
        window=_window(model),
        max_output=top.max_completion_tokens or model.max_completion_tokens,
        tools=_calls_tools(model),
        sees=_sees(model),
    )


def _window(model: _Model) -> int | None:
    """Return the window that a model runs with, or else the largest possible one."""
    meta, top = model.meta or _Meta(), model.top_provider or _TopProvider()
    sizes = (
        model.loaded_context_length,
        model.max_model_len,
        meta.n_ctx,
        top.context_length,
        model.context_length,
        model.context_window,
        model.max_context_length,
        meta.n_ctx_train,
    )
    return next((size for size in sizes if size), None)


def _calls_tools(model: _Model) -> bool | None:
    can = model.capabilities
    if isinstance(can, list):
        return "tool_use" in can
    if isinstance(can, _Abilities):
        return can.function_calling
    if model.supported_parameters is not None:
        return "tools" in model.supported_parameters
    return model.supports_tools


def _sees(model: _Model) -> bool | None:
    if model.type in {"llm", "vlm"}:
        return model.type == "vlm"
    if isinstance(model.capabilities, _Abilities):
        return model.capabilities.vision
    modalities = (model.architecture or _Architecture()).input_modalities
    return model.supports_image_input if modalities is None else "image" in modalities


def _set_window(parameters: str) -> int | None:
    """Return the window that an Ollama model's file sets."""
    lines = (line.split() for line in parameters.splitlines())
    return next((int(words[1]) for words in lines if words[:1] == ["num_ctx"]), None)


def _facts(
    name: str,
    *,
    window: int | None,
    max_output: int | None = None,
    tools: bool | None,
    sees: bool | None,
) -> ModelFacts:
    """Return the facts of the catalogue, overridden by those that the server reports."""
    facts = lookup(name)
    whole = window or facts.window
    return replace(
        facts,
        window=whole,
        max_output=min(max_output or facts.max_output, whole),
        calls_tools=facts.calls_tools if tools is None else tools,
        sees=facts.sees if sees is None else sees,
        known=facts.known or window is not None,
    )
