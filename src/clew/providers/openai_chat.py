"""Any server that speaks OpenAI Chat Completions."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Unpack
from urllib.parse import urlsplit

from clew.context.reasoning import Reader
from clew.providers.adapter import Adapter, AdapterOptions
from clew.providers.calls import stream_call
from clew.providers.protocol import Chunk, Request
from clew.providers.wire.chat.decode import Decoder
from clew.providers.wire.chat.encode import encode, fragments

PATH = "chat/completions"
# OpenAI's own models take nothing but the new name, and other servers may know only the old.
_NEW_LIMIT_HOSTS = ("openai.com", "openai.azure.com")


class OpenAIChat(Adapter):
    """Speaks to one base URL, such as `https://api.openai.com/v1`."""

    def __init__(
        self, base_url: str, *, api_key: str = "", **options: Unpack[AdapterOptions]
    ) -> None:
        super().__init__("openai_chat", base_url, {"api_key": api_key}, **options)
        self._fragments = fragments(Reader(self.name))
        is_openai = (urlsplit(base_url).hostname or "").endswith(_NEW_LIMIT_HOSTS)
        self._limit_field = "max_completion_tokens" if is_openai else "max_tokens"

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Post the request and yield what the server sends back."""
        body = encode(
            self.completed(request),
            self._fragments,
            limit_field=self._limit_field,
            streaming=self.streaming,
        )
        return stream_call(self.transport, PATH, body, decoder=partial(Decoder, self.name))
