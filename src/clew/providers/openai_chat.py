"""Any server that speaks OpenAI Chat Completions."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from clew.core.models import ModelFacts
from clew.providers.catalogue import lookup
from clew.providers.chat_stream import stream_chat
from clew.providers.chat_wire import Fragments, encode
from clew.providers.http import IDLE_TIMEOUT, Endpoint, Transport
from clew.providers.protocol import Chunk, Request

# OpenAI's own models take nothing but the new name, and other servers may know only the old.
_NEW_LIMIT_HOSTS = ("openai.com", "openai.azure.com")


class OpenAIChat:
    """Speaks to one base URL, such as `https://api.openai.com/v1`.

    A `client` that is passed in stays the caller's to close.
    """

    name = "openai_chat"

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        models: Mapping[str, ModelFacts] | None = None,
        idle_timeout: float = IDLE_TIMEOUT,
        client: aiohttp.ClientSession | None = None,
    ) -> None:
        endpoint = Endpoint(
            base_url=base_url,
            api_key=api_key.strip(),
            headers=headers or {},
            idle_timeout=idle_timeout,
        )
        self.transport = Transport(endpoint, provider=self.name, client=client)
        self._models = dict(models or {})
        self._fragments = Fragments()
        is_openai = (urlsplit(base_url).hostname or "").endswith(_NEW_LIMIT_HOSTS)
        self._limit_field = "max_completion_tokens" if is_openai else "max_tokens"

    @classmethod
    def over(cls, transport: Transport, *, models: Mapping[str, ModelFacts] | None = None) -> Self:
        """Make one that posts through `transport`, for its own retry policy; closes it."""
        made = cls(transport.endpoint.base_url, models=models)
        made.transport = transport
        return made

    def __repr__(self) -> str:
        return f"OpenAIChat({self.transport.endpoint.base_url!r})"

    def facts(self, model: str) -> ModelFacts:
        """Return what the configuration says of `model`, else what the catalogue says."""
        return self._models.get(model) or lookup(model)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Post the request and yield what the server sends back."""
        body = encode(request, limit_field=self._limit_field, fragments=self._fragments)
        async with aclosing(stream_chat(self.transport, body, provider=self.name)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def aclose(self) -> None:
        """Close the connections that are our own."""
        await self.transport.aclose()
