"""OpenAI's Chat Completions API, and compatible servers without a profile."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, Unpack
from urllib.parse import urlsplit

from msgspec.structs import replace

from clew.context.reasoning import ReasoningReader
from clew.core.models import ModelFacts
from clew.providers.adapter import Adapter, AdapterOptions
from clew.providers.protocol import Chunk, Request
from clew.providers.transport import get, stream_call
from clew.providers.wire.chat import model_list
from clew.providers.wire.chat.decode import chat_decoder
from clew.providers.wire.chat.dialect import IDS, NAMES, Dialect
from clew.providers.wire.chat.encode import PLAIN, encode, message_cache

PATH = "chat/completions"
# OpenAI's models accept only the new field; other servers may know only the old one.
_OPENAI = Dialect(
    limit_field="max_completion_tokens", key_field="prompt_cache_key", names=NAMES, ids=IDS
)
_OPENAI_HOSTS = ("openai.com", "openai.azure.com")


def dialect_for(base_url: str) -> Dialect:
    """Return the dialect of the server at `base_url`: OpenAI has fields that others lack."""
    is_openai = (urlsplit(base_url).hostname or "").endswith(_OPENAI_HOSTS)
    return _OPENAI if is_openai else PLAIN


class OpenAIChat(Adapter):
    """Connects to one base URL, such as `https://api.openai.com/v1`."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str = "",
        web_search: bool = False,
        **options: Unpack[AdapterOptions],
    ) -> None:
        """Connect to the server at `base_url`.

        Args:
            base_url: The address of the API.
            api_key: The API key, if the server needs one.
            web_search: Enable web search, for OpenAI's search models.
            options: See `AdapterOptions`.
        """
        super().__init__("openai_chat", base_url, {"api_key": api_key}, **options)
        self.web_tools = frozenset({"web_search"} if web_search else ())
        self._dialect = dialect_for(base_url)
        self._fragments = message_cache(ReasoningReader(self.name), self._dialect)

    def complete_request(self, request: Request) -> Request:
        """Return `request` with the options that apply to every request."""
        search: dict[str, Any] = {"web_search_options": {}} if self.web_tools else {}
        found = super().complete_request(request)
        return replace(found, options={**search, **found.options}) if search else found

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Post the request and yield the response."""
        body = encode(
            self.complete_request(request),
            self._fragments,
            dialect=self._dialect,
            streaming=self.streaming,
        )
        return stream_call(self.transport, PATH, body, decoder=partial(chat_decoder, self.name))

    async def models(self) -> list[ModelFacts]:
        """Return the models that the server lists."""
        body = await get(self.transport, "models")
        return model_list.parse_response(model_list.parse_models, body, self.name)
