"""Google's Gemini models, through the Gemini API or through Vertex AI.

Both speak generateContent. They differ in where they are, in how they know their callers,
and in a few fields.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, Unpack
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.errors import ProviderError
from clew.core.models import ModelFacts
from clew.providers.adapter import Adapter, AdapterOptions, AuthOptions
from clew.providers.http import get, post, stream_call
from clew.providers.protocol import Chunk, Request
from clew.providers.wire.gemini.decode import GeminiDecoder
from clew.providers.wire.gemini.encode import (
    encode,
    encode_count,
    is_gemini_3_or_later,
    message_cache,
)

BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
PAGE_SIZE = 1_000
"""Models that are asked for at once: the most that the API gives."""

_WEB_TOOLS: dict[str, dict[str, Any]] = {
    "web_search": {"googleSearch": {}},
    "web_fetch": {"urlContext": {}},
}
_COUNTED_ON_VERTEX = frozenset({"generationConfig", "systemInstruction", "tools"})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Where the two ways differ."""

    name: str
    """Whose signatures and blocks they are: the one does not take all of the other's."""
    models: str
    """The path under which the models are."""
    wraps_counts: bool
    """True when a request to be counted is told whole, in a wrapper."""
    flags_own_tools: bool
    """True when Google's tools must be asked for once more to run beside functions."""


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
    """What both ways have in common."""

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

    def completed(self, request: Request) -> Request:
        """Return `request` with the options and the tools that hold for every one."""
        request = super().completed(request)
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
        """Post the request and yield what the server sends back."""
        how = "streamGenerateContent?alt=sse" if self.streaming else "generateContent"
        body = encode(self.completed(request), self._fragments)
        path = f"{self._path(request.model)}:{how}"
        return stream_call(self.transport, path, body, decoder=partial(GeminiDecoder, self.name))

    async def count_tokens(self, request: Request) -> int:
        """Return the tokens of `request` as the model would read them."""
        request, path = self.completed(request), self._path(request.model)
        if self._dialect.wraps_counts:
            body = encode_count(request, self._fragments, model=path)
        else:
            options = {k: v for k, v in request.options.items() if k in _COUNTED_ON_VERTEX}
            body = encode(replace(request, options=options), self._fragments)
        found = await post(self.transport, f"{path}:countTokens", body)
        return self._decoded(found, _Count).total_tokens

    def _path(self, model: str) -> str:
        """Return the path of a model; a name with a slash is one already."""
        return quote(model if "/" in model else f"{self._dialect.models}/{model}")

    def _decoded(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise ProviderError(
                f"{self.name} answered what cannot be read ({error})."
                " Check that the base URL leads to it.",
                provider=self.name,
            ) from error


class Gemini(_GenerateContent):
    """Speaks to the Gemini API with a key of Google AI Studio.

    `google_search` and `url_context` let the model use the web by itself. Beside functions
    they need Gemini 3 or later: earlier models refuse a request with both.
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
        """Return the models that can be talked to, with the limits that the API tells."""
        found: list[ModelFacts] = []
        path = f"models?pageSize={PAGE_SIZE}"
        token = ""
        while True:
            turned = f"{path}&pageToken={quote(token, safe='')}" if token else path
            page = self._decoded(await get(self.transport, turned), _Page)
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
    """Speaks to Vertex AI on behalf of a project.

    `token` returns an access token that is still good; it is asked before every request.
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
