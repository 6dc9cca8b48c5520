"""OpenAI's Responses API, and compatible servers."""

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any, Unpack

from msgspec import Struct
from msgspec.structs import replace

from clew.core.models import ModelFacts
from clew.providers.adapter import Adapter, AdapterOptions
from clew.providers.protocol import Chunk, Request
from clew.providers.responses_api import ResponsesApi
from clew.providers.tool_search import has_search_items
from clew.providers.transport import get, post

BASE_URL = "https://api.openai.com/v1"


class _Count(Struct):
    input_tokens: int


class _Model(Struct):
    id: str


class _Models(Struct):
    data: list[_Model]


class OpenAIResponses(Adapter):
    """Connects to one base URL; the server stores nothing of the conversation."""

    def __init__(
        self,
        api_key: str = "",
        *,
        base_url: str = BASE_URL,
        web_search: bool | Mapping[str, Any] = False,
        tool_search: bool | None = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        """Connect to `base_url`.

        Args:
            api_key: Sent as a bearer token.
            base_url: The address, including the version.
            web_search: Enable web search; a mapping adds fields to the tool.
            tool_search: Let the API load deferred tools; by default where it is known to.
            options: See `AdapterOptions`.
        """
        super().__init__("openai", base_url, {"api_key": api_key}, **options)
        known = partial(has_search_items, base_url=base_url)
        self._calls = ResponsesApi(
            self.name, known if tool_search is None else lambda _: bool(tool_search)
        )
        self._search: dict[str, Any] | None = None
        if web_search is not False:
            how = web_search if isinstance(web_search, Mapping) else {}
            self._search = {"type": "web_search", **how}

    @property
    def web_tools(self) -> frozenset[str]:
        """The enabled web tools."""
        return frozenset({"web_search"} if self._search else ())

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Post the request and yield the response."""
        request = self._with_web_search(request)
        return self._calls.stream(self.transport, "responses", request, streaming=self.streaming)

    async def count_tokens(self, request: Request) -> int:
        """Return how many tokens `request` has, as the server counts them."""
        body = self._calls.encode_count(self._with_web_search(request))
        answer = await post(self.transport, "responses/input_tokens", body)
        return self.decode(answer, _Count).input_tokens

    async def models(self) -> list[ModelFacts]:
        """Return the models that the server lists."""
        answer = await get(self.transport, "models")
        return [self.facts(model.id) for model in self.decode(answer, _Models).data]

    def _with_web_search(self, request: Request) -> Request:
        """Return `request` with the options and tools that apply to every request."""
        request = self.complete_request(request)
        if self._search is None or self._search in request.native_tools:
            return request
        return replace(request, native_tools=(*request.native_tools, self._search))
