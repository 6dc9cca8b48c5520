"""Finds a model server on this machine, such as Ollama."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from clew.core.errors import ClewError
from clew.core.models import ModelFacts
from clew.providers.profiles import PROFILES
from clew.providers.protocol import Provider
from clew.providers.registry import FAMILIES

USUAL = ("ollama", "lm_studio", "llama_cpp")
"""The servers to look for, in this order."""
_CONNECT = 0.2
_ANSWER = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServer:
    """A server that answers, and a model it serves."""

    provider: Provider
    """Knows the models of the server already; the caller closes it."""
    model: str
    base_url: str


async def find_local_server(
    addresses: Mapping[str, str] | None = None, *, environ: Mapping[str, str] | None = None
) -> LocalServer | None:
    """Return the first usual server that answers and has a model; None if there is none.

    Args:
        addresses: Where to look; where such servers usually are, unless it is given.
        environ: Variables that may say where else they are; those of the process, unless given.

    Raises:
        ConfigError: A variable holds no address.
    """
    if addresses is None:
        addresses = _usual(os.environ if environ is None else environ)
    for family, base_url in addresses.items():
        if await is_listening(base_url):
            found = await _list_models(family, base_url)
            if found is not None:
                return found
    return None


async def is_listening(base_url: str) -> bool:
    """Return whether a server accepts connections at that address."""
    return await to_thread.run_sync(_listens, base_url)


def _usual(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        family: FAMILIES[family].settings(environ).base_url or PROFILES[family].base_url
        for family in USUAL
    }


def _listens(base_url: str) -> bool:
    # Only a program without a configured model looks for servers.
    from socket import create_connection  # noqa: PLC0415

    parts = urlsplit(base_url)
    try:
        with create_connection((parts.hostname or "", parts.port or 80), _CONNECT):
            return True
    except OSError:
        return False


async def _list_models(family: str, base_url: str) -> LocalServer | None:
    from clew.providers.compatible import Compatible  # noqa: PLC0415 - loads an HTTP client

    provider = Compatible(family, base_url=base_url)
    models: list[ModelFacts] = []
    with anyio.move_on_after(_ANSWER), suppress(ClewError):
        models = await provider.models()
    if models:
        return LocalServer(provider=provider, model=models[0].name, base_url=base_url)
    await provider.aclose()
    return None
