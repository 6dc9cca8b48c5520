"""OpenAI's models on Azure, through the Responses API or Chat Completions."""

from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Literal, Unpack
from urllib.parse import quote

from msgspec.structs import replace

from clew.context.reasoning import ReasoningReader
from clew.core.errors import ConfigError
from clew.providers.adapter import Adapter, AdapterOptions, AuthOptions
from clew.providers.protocol import Chunk, Request
from clew.providers.responses_api import ResponsesApi
from clew.providers.transport import stream_call
from clew.providers.wire.chat import decode as chat_decode
from clew.providers.wire.chat import encode as chat_encode
from clew.providers.wire.chat.dialect import IDS, NAMES, Dialect

_UNDATED = frozenset({"preview", "latest", "v1"})
"""Versions of the v1 API; all others are dates and select the classic API."""
_DIALECT = Dialect(limit_field="max_completion_tokens", names=NAMES, ids=IDS)


class AzureOpenAI(Adapter):
    """Connects to one resource, such as `https://mine.openai.azure.com`.

    A model is named by its deployment. Without an `api_version`, or with one that is not a date,
    the v1 API is used (`/openai/v1`); a date selects the classic API, where each deployment has its
    own address.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        api_key: str = "",
        token: Callable[[], str] | None = None,
        api: Literal["responses", "chat"] = "responses",
        api_version: str | None = None,
        deployment: str | None = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        """Connect to the resource at `endpoint`.

        Args:
            endpoint: The address of the resource, with or without `/openai/v1`.
            api_key: A key of the resource.
            token: Returns a valid Entra ID token; called before every request, instead of a
                key.
            api: Which of the two APIs to use.
            api_version: See the class.
            deployment: Replaces the model of every request.
            options: See `AdapterOptions`.

        Raises:
            ConfigError: The address is invalid, or both a key and a token are given.
        """
        if api not in {"responses", "chat"}:
            raise ConfigError(f"Azure has no API {api!r}. Choose 'responses' or 'chat'.")
        if api_key and token is not None:
            raise ConfigError("Pass either an API key or a token for Azure, not both.")
        self._is_classic = api_version is not None and api_version not in _UNDATED
        self._version = f"?api-version={quote(api_version)}" if api_version else ""
        self._deployment = deployment
        root = endpoint.rstrip("/").removesuffix("/v1").removesuffix("/openai")
        super().__init__(
            "azure" if api == "responses" else "azure_chat",
            f"{root}/openai" if self._is_classic else f"{root}/openai/v1",
            _access(api_key, token),
            **options,
        )
        self._responses = ResponsesApi(self.name) if api == "responses" else None
        self._chat = chat_encode.message_cache(ReasoningReader(self.name), _DIALECT)

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Post the request and yield the response."""
        request = self.complete_request(request)
        if self._deployment:
            request = replace(request, model=self._deployment)
        if self._responses is not None:
            path = f"responses{self._version}"
            return self._responses.stream(self.transport, path, request, streaming=self.streaming)
        path = f"chat/completions{self._version}"
        if self._is_classic:
            path = f"deployments/{quote(request.model, safe='')}/{path}"
        body = chat_encode.encode(request, self._chat, dialect=_DIALECT, streaming=self.streaming)
        decoder = partial(chat_decode.chat_decoder, self.name)
        return stream_call(self.transport, path, body, decoder=decoder)


def _access(api_key: str, token: Callable[[], str] | None) -> AuthOptions:
    if token is None:
        return {"api_key": api_key, "key_header": "api-key"}
    return {"sign": lambda _url, _headers, _body: {"Authorization": f"Bearer {token()}"}}
