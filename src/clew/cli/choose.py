"""Which model answers, and why: flags first, then the environment, then the embedded one."""

import os
from argparse import Namespace
from dataclasses import dataclass

from clew.core.errors import UnknownModel
from clew.providers.catalogue import SMOLLM2
from clew.providers.embedded.provider import Embedded
from clew.providers.openai_chat import OpenAIChat
from clew.providers.protocol import Provider

_OPENAI_URL = "https://api.openai.com/v1"
_OPENAI_MODEL = "gpt-4.1-mini"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A provider, a model it serves, and the sentence that says how they were chosen."""

    provider: Provider
    model: str
    why: str


def choose(arguments: Namespace) -> Choice:
    """Pick the provider for this run.

    Raises:
        UnknownModel: Nothing here can reach the model that was asked for.
    """
    model: str | None = arguments.model
    base_url = arguments.base_url or os.environ.get("OPENAI_BASE_URL")
    key = os.environ.get("OPENAI_API_KEY", "")
    if model == SMOLLM2.name or (model is None and not base_url and not key):
        return Choice(
            provider=Embedded(port=arguments.port),
            model=SMOLLM2.name,
            why="the embedded model, on this machine",
        )
    if not base_url and not key:
        raise UnknownModel(
            f"no provider for the model {model!r}. Set OPENAI_API_KEY, name a server with "
            f"--base-url, or use the embedded model: --model {SMOLLM2.name}"
        )
    url = base_url or _OPENAI_URL
    return Choice(
        provider=OpenAIChat(base_url=url, api_key=key),
        model=model or _OPENAI_MODEL,
        why=f"the server at {url}" if base_url else "OPENAI_API_KEY is set",
    )
