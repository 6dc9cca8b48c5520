"""The embedded model as a provider."""

import os
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path

import anyio
import msgspec
from msgspec.structs import replace

from clew.context.reasoning import ReasoningReader
from clew.core.errors import ProviderError
from clew.core.json_text import decode_json
from clew.core.models import ModelFacts
from clew.providers.catalogue import SMOLLM2
from clew.providers.embedded import model_file, process
from clew.providers.endpoint import Endpoint
from clew.providers.protocol import Chunk, Request
from clew.providers.transport import Transport, post, stream_call
from clew.providers.wire.chat.decode import chat_decoder
from clew.providers.wire.chat.encode import encode, message_cache

IDLE_TIMEOUT = 300.0
"""Seconds: a slow machine may need a minute to process a full window."""
_DEATH_LIMIT = 1.0
_PATH = "chat/completions"
_COUNT_PATH = f"{_PATH}/input_tokens"


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Count(msgspec.Struct):
    input_tokens: int


class Embedded:
    """Starts the model's process on first use and owns it until `aclose`.

    Without a `model` it uses the file that `clew models get` downloaded, and verifies it first.
    Calls are answered one at a time; others wait.
    """

    name = "embedded"

    def __init__(
        self,
        model: Path | None = None,
        *,
        port: int = 0,
        window: int = SMOLLM2.window,
        threads: int | None = None,
        command: Sequence[str] = process.SERVER,
    ) -> None:
        self._checked = model is not None
        self._launch = process.LaunchOptions(
            model=model or model_file.model_path(),
            port=port,
            window=window,
            threads=threads or process.choose_threads(os.cpu_count() or 1),
            command=command,
        )
        self._fragments = message_cache(ReasoningReader(self.name))
        self._lock = anyio.Lock()
        self._running: tuple[process.ServerProcess, Transport, Transport] | None = None

    def __repr__(self) -> str:
        return f"Embedded({str(self._launch.model)!r})"

    @property
    def process_id(self) -> int | None:
        """The id of the model's process; None if it is not running."""
        return self._running[0].process.pid if self._running else None

    def facts(self, model: str) -> ModelFacts:
        """Return the facts of the embedded model under the given name."""
        return msgspec.structs.replace(SMOLLM2, name=model, window=self._launch.window)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream a response; raises as `process.start_server` does if the model cannot start."""
        body = self._body(request, streaming=True)
        running, chat, _ = await self._ensure()
        try:
            answer = stream_call(chat, _PATH, body, decoder=partial(chat_decoder, self.name))
            async with aclosing(answer) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ProviderError as error:
            raise await self._explain_error(running, error) from error

    async def count_tokens(self, request: Request) -> int:
        """Return how many tokens `request` has; raises as `stream` does."""
        running, chat, _ = await self._ensure()
        body = self._body(request, streaming=False)
        found = await self._await_response(running, post(chat, _COUNT_PATH, body))
        return decode_json(found, type=_Count).input_tokens

    async def tokens_of(self, text: str) -> int:
        """Return how many tokens `text` has; raises as `stream` does."""
        running, _, plain = await self._ensure()
        body = msgspec.json.encode({"content": text})
        found = await self._await_response(running, post(plain, "tokenize", body))
        return len(decode_json(found, type=_Tokens).tokens)

    async def aclose(self) -> None:
        """Stop the process."""
        async with self._lock:
            await self._stop()

    def _body(self, request: Request, *, streaming: bool) -> bytes:
        limit = min(request.max_output_tokens or SMOLLM2.max_output, self._launch.window)
        fitted = replace(request, max_output_tokens=limit, tools=())
        return encode(fitted, self._fragments, streaming=streaming)

    async def _await_response(
        self, running: process.ServerProcess, answer: Awaitable[bytes]
    ) -> bytes:
        try:
            return await answer
        except ProviderError as error:
            raise await self._explain_error(running, error) from error

    async def _ensure(self) -> tuple[process.ServerProcess, Transport, Transport]:
        async with self._lock:
            if self._running is not None and self._running[0].alive:
                return self._running
            await self._stop()
            if not self._checked:
                await anyio.to_thread.run_sync(model_file.verify, self._launch.model)
                self._checked = True
            running = await process.start_server(self._launch, provider=self.name)
            self._running = (
                running,
                self._transport(running, "/v1"),
                self._transport(running, ""),
            )
            return self._running

    def _transport(self, running: process.ServerProcess, path: str) -> Transport:
        endpoint = Endpoint(
            base_url=running.address + path, api_key=running.key, idle_timeout=IDLE_TIMEOUT
        )
        return Transport(endpoint, provider=self.name)

    async def _explain_error(
        self, running: process.ServerProcess, error: ProviderError
    ) -> ProviderError:
        """Return the error of a process that died instead of the connection error it caused."""
        if error.status is not None or not await running.wait_for_end(within=_DEATH_LIMIT):
            return error
        return running.exit_error(self.name)

    async def _stop(self) -> None:
        if self._running is None:
            return
        (running, *transports), self._running = self._running, None
        with anyio.CancelScope(shield=True):
            for transport in transports:
                await transport.aclose()
            await running.stop()
