"""Ollama's own API, which runs beside the compatible one: its models and their windows."""

from functools import partial

import msgspec

from clew.core.models import ModelFacts
from clew.providers.transport import Transport, get, post
from clew.providers.wire.chat import model_list
from clew.providers.wire.chat.model_list import parse_response

_CLOUD = "//ollama.com"


async def list_models(native: Transport) -> list[ModelFacts]:
    """Return the models that are installed; raises as `Provider.stream` does."""
    body = await get(native, "api/tags")
    names = parse_response(model_list.parse_ollama_names, body, native.provider)
    loaded = await _list_loaded(native)
    return [_read(native, await _show(native, name), name, loaded) for name in names]


async def load_facts(native: Transport, model: str) -> ModelFacts:
    """Return the facts of `model` with the window that it runs with; raises as `stream` does.

    A model that is not loaded gets a window that depends on the memory and the settings of the
    server, unless its file sets one. So the model is loaded, as the first request would do.
    """
    shown = await _show(native, model)
    facts = _read(native, shown, model, await _list_loaded(native))
    if facts.known or _is_cloud(native):
        return facts
    # Without a prompt, this only loads the model.
    await post(native, "api/generate", msgspec.json.encode({"model": model}))
    return _read(native, shown, model, await _list_loaded(native))


async def _show(native: Transport, model: str) -> bytes:
    return await post(native, "api/show", msgspec.json.encode({"model": model}))


async def _list_loaded(native: Transport) -> dict[str, int]:
    if _is_cloud(native):
        return {}
    body = await get(native, "api/ps")
    return parse_response(model_list.parse_ollama_loaded, body, native.provider)


def _read(native: Transport, shown: bytes, model: str, loaded: dict[str, int]) -> ModelFacts:
    read = partial(
        model_list.parse_ollama_model, name=model, loaded=loaded, hosted=_is_cloud(native)
    )
    return parse_response(read, shown, native.provider)


def _is_cloud(native: Transport) -> bool:
    return native.endpoint.host.endswith(_CLOUD)
