"""Calls to the Responses API, shared by its adapters."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.errors import ProviderRejected
from clew.providers.protocol import Chunk, Request
from clew.providers.transport import Transport, stream_call
from clew.providers.wire.responses.decode import responses_decoder
from clew.providers.wire.responses.encode import STATELESS, encode, message_cache

_UNSEALED: Mapping[str, Any] = {"store": False}
_COUNTED = frozenset(
    {
        "conversation",
        "parallel_tool_calls",
        "previous_response_id",
        "reasoning",
        "text",
        "tool_choice",
        "truncation",
    }
)
"""The options that the token counting endpoint accepts."""


class ResponsesApi:
    """Encodes the requests of one adapter, sends them and decodes the responses.

    Requests ask for encrypted reasoning, so that the next request can send it back. A model without
    reasoning rejects that; it is then called again without, and the model is remembered.
    """

    def __init__(
        self, provider: str, has_tool_search: Callable[[str], bool] = lambda _: False
    ) -> None:
        """Call as `provider`; `has_tool_search` tells whether a model loads deferred tools."""
        self._provider, self._has_tool_search = provider, has_tool_search
        self._fragments = message_cache(ReasoningReader(provider, Echoes.OWN_ISSUED))
        self._unsealed: set[str] = set()

    async def stream(
        self, transport: Transport, path: str, request: Request, *, streaming: bool
    ) -> AsyncGenerator[Chunk, None]:
        """Post `request` and yield the response; ends, raises and closes as `Provider.stream`."""
        if request.model not in self._unsealed:
            try:
                body = self._body(request, STATELESS, streaming=streaming)
                sealed = self._call(transport, path, body)
                async with aclosing(sealed) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except ProviderRejected as error:
                if "ncrypted content is not supported" not in str(error):
                    raise
                self._unsealed.add(request.model)
            else:
                return
        body = self._body(request, _UNSEALED, streaming=streaming)
        unsealed = self._call(transport, path, body)
        async with aclosing(unsealed) as chunks:
            async for chunk in chunks:
                yield chunk

    def encode_count(self, request: Request) -> bytes:
        """Return the body that counts the tokens of `request`."""
        bare = replace(
            request,
            max_output_tokens=None,
            temperature=None,
            cache_key="",
            options={name: request.options[name] for name in _COUNTED & request.options.keys()},
        )
        return self._body(bare, {}, streaming=False)

    def _body(self, request: Request, defaults: Mapping[str, Any], *, streaming: bool) -> bytes:
        return encode(
            request,
            self._fragments,
            streaming=streaming,
            defaults=defaults,
            tool_search=self._has_tool_search(request.model),
        )

    def _call(self, transport: Transport, path: str, body: bytes) -> AsyncGenerator[Chunk, None]:
        return stream_call(
            transport, path, body, decoder=partial(responses_decoder, self._provider)
        )
