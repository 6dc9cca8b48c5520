"""Anthropic's Claude models, and servers that implement the Messages API."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, Unpack
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.models import ModelFacts
from clew.providers.adapter import Adapter, AdapterOptions, AuthOptions
from clew.providers.protocol import Chunk, Request
from clew.providers.tool_search import has_tool_references
from clew.providers.transport import get, post, stream_call
from clew.providers.wire.anthropic.decode import messages_decoder
from clew.providers.wire.anthropic.encode import encode, encode_count, message_cache

BASE_URL = "https://api.anthropic.com/v1"
VERSION = "2023-06-01"
PAGE_SIZE = 1_000
"""Models per page: the API's maximum."""

CacheTtl: TypeAlias = Literal["5m", "1h"]
WebTool: TypeAlias = bool | Mapping[str, Any]

# Every model supports the first versions of these tools.
_WEB_TOOLS = {"web_search": "web_search_20250305", "web_fetch": "web_fetch_20250910"}
_WEB_FETCH_BETA = "web-fetch-2025-09-10"
_OAUTH_PREFIX = "sk-ant-oat"
_OAUTH_BETA = "oauth-2025-04-20"
_BETA_HEADER = "anthropic-beta"


class _Count(Struct):
    input_tokens: int


class _Support(Struct, frozen=True):
    supported: bool = True


class _Capabilities(Struct):
    image_input: _Support = _Support()


class _Model(Struct):
    id: str
    max_input_tokens: int | None = None
    max_tokens: int | None = None
    capabilities: _Capabilities | None = None


class _Page(Struct):
    data: list[_Model]
    has_more: bool = False
    last_id: str | None = None


class Anthropic(Adapter):
    """Connects to the Messages API.

    Args:
        api_key: An API key or an OAuth access token; the prefix tells them apart.
        base_url: The address, with or without `/v1` at the end.
        cache: Set cache breakpoints, for five minutes or the given TTL.
        web_search: Enable web search; a mapping adds fields, such as `{"max_uses": 3,
            "allowed_domains": ["example.org"]}`.
        web_fetch: Enable web fetch; likewise.
        beta: Names of beta features to enable.
        tool_search: Let the API load deferred tools by name; by default where it is known to.
        **options: See `AdapterOptions`.
    """

    def __init__(  # noqa: PLR0913 - options by keyword
        self,
        api_key: str = "",
        *,
        base_url: str = BASE_URL,
        cache: bool | CacheTtl = True,
        web_search: WebTool = False,
        web_fetch: WebTool = False,
        beta: Sequence[str] = (),
        tool_search: bool | None = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        wishes = {"web_search": web_search, "web_fetch": web_fetch}
        self._own_tools = tuple(_own_tool(*wish) for wish in wishes.items() if wish[1] is not False)
        self._cache, self._tool_search = cache, tool_search
        headers = dict(options.get("headers", {}))
        token = api_key.strip().startswith(_OAUTH_PREFIX)
        asked = [_OAUTH_BETA] * token + [_WEB_FETCH_BETA] * self._needs_beta() + list(beta)
        asked += [headers.pop(name) for name in [*headers] if name.lower() == _BETA_HEADER]
        if asked:
            headers[_BETA_HEADER] = ",".join(dict.fromkeys(asked))
        options["headers"] = {"anthropic-version": VERSION, **headers}
        access = AuthOptions(api_key=api_key, key_header="Authorization" if token else "x-api-key")
        self._base_url = _with_version(base_url)
        super().__init__("anthropic", self._base_url, access, **options)
        self._fragments = message_cache(ReasoningReader(self.name, Echoes.OWN_ISSUED))

    @property
    def web_tools(self) -> frozenset[str]:
        """The enabled tools, of `web_search` and `web_fetch`."""
        return frozenset(tool["name"] for tool in self._own_tools)

    def complete_request(self, request: Request) -> Request:
        """Return `request` with the adapter's options and tools, and the required output limit."""
        request = super().complete_request(request)
        names = {tool.get("name") for tool in request.native_tools}
        added = [tool for tool in self._own_tools if tool["name"] not in names]
        limit = request.max_output_tokens
        return replace(
            request,
            native_tools=(*request.native_tools, *added),
            deferred_tools=request.deferred_tools if self._has_tool_search(request.model) else (),
            max_output_tokens=self.facts(request.model).max_output if limit is None else limit,
        )

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Post the request and yield the response."""
        facts = self.facts(request.model)
        body = encode(
            self.complete_request(request),
            self._fragments,
            streaming=self.streaming,
            cache=bool(self._cache),
            ttl=self._cache if isinstance(self._cache, str) else "",
            ceiling=facts.max_output if facts.known else None,
        )
        return stream_call(
            self.transport, "messages", body, decoder=partial(messages_decoder, self.name)
        )

    async def count_tokens(self, request: Request) -> int:
        """Return how many tokens `request` has for the model."""
        body = encode_count(self.complete_request(request), self._fragments)
        found = await post(self.transport, "messages/count_tokens", body)
        return self.decode(found, _Count).input_tokens

    async def models(self) -> list[ModelFacts]:
        """Return the models that the key may use, newest first."""
        found: list[ModelFacts] = []
        path = f"models?limit={PAGE_SIZE}"
        while path:
            page = self.decode(await get(self.transport, path), _Page)
            found += map(self._facts_of, page.data)
            last = page.last_id if page.has_more else None
            path = f"models?limit={PAGE_SIZE}&after_id={quote(last)}" if last else ""
        return found

    def _facts_of(self, model: _Model) -> ModelFacts:
        known = self.facts(model.id)
        told = model.max_input_tokens is not None
        capabilities = model.capabilities or _Capabilities()
        return replace(
            known,
            window=model.max_input_tokens or known.window,
            max_output=model.max_tokens or known.max_output,
            sees=known.sees and capabilities.image_input.supported,
            known=known.known or told,
        )

    def _has_tool_search(self, model: str) -> bool:
        if self._tool_search is None:
            return has_tool_references(model, self._base_url)
        return self._tool_search

    def _needs_beta(self) -> bool:
        return any(tool["type"] == _WEB_TOOLS["web_fetch"] for tool in self._own_tools)


def _with_version(base_url: str) -> str:
    address = base_url.rstrip("/")
    return address if address.endswith("/v1") else f"{address}/v1"


def _own_tool(name: str, wish: WebTool) -> dict[str, Any]:
    said = wish if isinstance(wish, Mapping) else {}
    return {"type": _WEB_TOOLS[name], "name": name, **said}
