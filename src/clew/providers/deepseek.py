"""DeepSeek's API: Chat Completions with reasoning that must be sent back.

Once a conversation has used tools, every request must repeat the reasoning of every response in it,
or the API rejects it (https://api-docs.deepseek.com/guides/thinking_mode). Responses of other
models have none; the API accepts an empty field for them.
"""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Unpack

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.models import ModelFacts
from clew.providers.adapter import Adapter, AdapterOptions
from clew.providers.protocol import Chunk, Request
from clew.providers.transport import get, stream_call
from clew.providers.wire.chat import model_list
from clew.providers.wire.chat.decode import chat_decoder
from clew.providers.wire.chat.dialect import NAMES, Dialect, ReasoningField
from clew.providers.wire.chat.encode import encode, message_cache

BASE_URL = "https://api.deepseek.com"
PATH = "chat/completions"
_DIALECT = Dialect(
    reasoning=ReasoningField.CONTENT, always_reasoning=True, text_lists=False, names=NAMES
)


class DeepSeek(Adapter):
    """Connects to DeepSeek with an API key of its platform."""

    def __init__(
        self, api_key: str = "", *, base_url: str = BASE_URL, **options: Unpack[AdapterOptions]
    ) -> None:
        super().__init__("deepseek", base_url, {"api_key": api_key}, **options)
        self._fragments = message_cache(ReasoningReader(self.name, Echoes.TOOL_USE_ONLY), _DIALECT)

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Post the request and yield the response."""
        body = encode(
            self.complete_request(request),
            self._fragments,
            dialect=_DIALECT,
            streaming=self.streaming,
        )
        return stream_call(self.transport, PATH, body, decoder=partial(chat_decoder, self.name))

    async def models(self) -> list[ModelFacts]:
        """Return the models that the server lists."""
        body = await get(self.transport, "models")
        return model_list.parse_response(model_list.parse_models, body, self.name)
