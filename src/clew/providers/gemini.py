"""Google's Gemini models, through the Gemini API or Vertex AI.

Both implement generateContent. They differ in address, authentication and a few fields.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.models import ModelFacts
from clew.providers.adapter import Adapter, AdapterOptions, AuthOptions
from clew.providers.protocol import Chunk, Request
from clew.providers.transport import get, post, stream_call
from clew.providers.wire.gemini.decode import gemini_decoder
from clew.providers.wire.gemini.encode import (
    encode,
    encode_count,
    is_gemini_3_or_later,
    message_cache,
)

BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
PAGE_SIZE = 1_000
"""Models per page: the API's maximum."""

_WEB_TOOLS: dict[str, dict[str, Any]] = {
    "web_search": {"googleSearch": {}},
    "web_fetch": {"urlContext": {}},
}
_COUNTED_ON_VERTEX = frozenset({"generationConfig", "systemInstruction", "tools"})


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Where the two APIs differ."""

    name: str
    """The provenance of signatures and blocks: one API does not accept all of the other's."""
    models: str
    """The path of the models."""
    wraps_counts: bool
    """True when token counting takes the whole request in a wrapper."""
    flags_own_tools: bool
    """True when Google's tools need a flag to run beside functions."""


_GEMINI = _Dialect("gemini", "models", wraps_counts=True, flags_own_tools=True)
_VERTEX = _Dialect("vertex", "publishers/google/models", wraps_counts=False, flags_own_tools=False)


class _Count(Struct, rename="camel"):
    total_tokens: int


class _Model(Struct, rename="camel"):
    name: str
    input_token_limit: int | None = None
    output_token_limit: int | None = None
    supported_generation_methods: list[str] = []


class _Page(Struct, rename="camel"):
    models: list[_Model] = []
    next_page_token: str = ""


class _GenerateContent(Adapter):
    """The common part of both APIs."""

    def __init__(
        self,
        dialect: _Dialect,
        base_url: str,
        access: AuthOptions,
        *,
        web_tools: Mapping[str, bool],
        **options: Unpack[AdapterOptions],
    ) -> None:
        super().__init__(dialect.name, base_url, access, **options)
        self.web_tools = frozenset(name for name, on in web_tools.items() if on)
        self._dialect = dialect
        self._fragments = message_cache(ReasoningReader(dialect.name, Echoes.OWN_ISSUED))

    def complete_request(self, request: Request) -> Request:
        """Return `request` with the options and tools that apply to every request."""
        request = super().complete_request(request)
        own = (tool for name, tool in _WEB_TOOLS.items() if name in self.web_tools)
        added = [tool for tool in own if tool not in request.native_tools]
        if added:
            request = replace(request, native_tools=(*request.native_tools, *added))
        both = bool(request.tools and request.native_tools)
        if both and self._dialect.flags_own_tools and is_gemini_3_or_later(request.model):
            wish = {"includeServerSideToolInvocations": True}
            settings = {**wish, **request.options.get("toolConfig", {})}
            request = replace(request, options={**request.options, "toolConfig": settings})
        return request

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Post the request and yield the response."""
        how = "streamGenerateContent?alt=sse" if self.streaming else "generateContent"
        body = encode(self.complete_request(request), self._fragments)
        path = f"{self._path(request.model)}:{how}"
        return stream_call(self.transport, path, body, decoder=partial(gemini_decoder, self.name))

    async def count_tokens(self, request: Request) -> int:
        """Return how many tokens `request` has for the model."""
        request, path = self.complete_request(request), self._path(request.model)
        if self._dialect.wraps_counts:
            body = encode_count(request, self._fragments, model=path)
        else:
            options = {k: v for k, v in request.options.items() if k in _COUNTED_ON_VERTEX}
            body = encode(replace(request, options=options), self._fragments)
        found = await post(self.transport, f"{path}:countTokens", body)
        return self.decode(found, _Count).total_tokens

    def _path(self, model: str) -> str:
        """Return the path of a model; a name with a slash already is one."""
        return quote(model if "/" in model else f"{self._dialect.models}/{model}")


class Gemini(_GenerateContent):
    """Connects to the Gemini API with a key of Google AI Studio.

    `google_search` and `url_context` enable Google's web tools. Together with functions they need
    Gemini 3 or later: earlier models reject a request with both.
    """

    def __init__(
        self,
        api_key: str = "",
        *,
        base_url: str = BASE_URL,
        google_search: bool = False,
        url_context: bool = False,
        **options: Unpack[AdapterOptions],
    ) -> None:
        access: AuthOptions = {"api_key": api_key, "key_header": "x-goog-api-key"}
        web_tools = {"web_search": google_search, "web_fetch": url_context}
        super().__init__(_GEMINI, base_url, access, web_tools=web_tools, **options)

    async def models(self) -> list[ModelFacts]:
        """Return the models that generate content, with the limits that the API reports."""
        found: list[ModelFacts] = []
        path = f"models?pageSize={PAGE_SIZE}"
        token = ""
        while True:
            turned = f"{path}&pageToken={quote(token, safe='')}" if token else path
            page = self.decode(await get(self.transport, turned), _Page)
            found += [
                self._facts_of(model)
                for model in page.models
                if "generateContent" in model.supported_generation_methods
            ]
            token = page.next_page_token
            if not token:
                return found

    def _facts_of(self, model: _Model) -> ModelFacts:
        facts = self.facts(model.name.removeprefix("models/"))
        return replace(
            facts,
            window=model.input_token_limit or facts.window,
            max_output=model.output_token_limit or facts.max_output,
            known=True,
        )


class Vertex(_GenerateContent):
    """Connects to Vertex AI for one project.

    `token` returns a valid access token; it is called before every request.
    """

    def __init__(
        self,
        project: str,
        location: str = "global",
        *,
        token: Callable[[], str],
        base_url: str = "",
        google_search: bool = False,
        url_context: bool = False,
        **options: Unpack[AdapterOptions],
    ) -> None:
        host = "aiplatform" if location == "global" else f"{location}-aiplatform"
        root = base_url or f"https://{host}.googleapis.com/v1"
        super().__init__(
            _VERTEX,
            f"{root.rstrip('/')}/projects/{quote(project)}/locations/{quote(location)}",
            {"sign": lambda *_: {"Authorization": f"Bearer {token()}"}},
            web_tools={"web_search": google_search, "web_fetch": url_context},
            **options,
        )
