"""Servers with an OpenAI-compatible Chat Completions API, each with its dialect."""

import dataclasses
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Unpack

from msgspec.structs import replace

from clew.context.reasoning import ReasoningReader
from clew.core.errors import ConfigError, ProviderRejected
from clew.core.models import ModelFacts
from clew.providers import ollama_api
from clew.providers.adapter import Adapter, AdapterOptions
from clew.providers.profiles import Profile, WebToolFields, find_profile
from clew.providers.protocol import Chunk, Request
from clew.providers.transport import Transport, get, stream_call
from clew.providers.wire.chat import model_list
from clew.providers.wire.chat.decode import chat_decoder
from clew.providers.wire.chat.encode import encode, message_cache
from clew.providers.wire.chat.model_list import ModelListApi, parse_response

PATH = "chat/completions"


class Compatible(Adapter):
    """Connects to a server according to its profile, as in `Compatible("lm_studio")`.

    Raises:
        ConfigError: The profile does not exist, its key is missing, or it lacks a web tool that
            was enabled.
    """

    def __init__(
        self,
        profile: Profile | str,
        *,
        base_url: str | None = None,
        api_key: str = "",
        web_search: bool = False,
        web_fetch: bool = False,
        **options: Unpack[AdapterOptions],
    ) -> None:
        """Connect with `profile`, at its default address unless another is given.

        Args:
            profile: A profile or the name of one.
            base_url: The address of the server.
            api_key: The API key; at the default address, the profile's environment variable is
                the fallback.
            web_search: Enable the server's own web search, if it has one.
            web_fetch: Enable the server's own web fetch, if it has one.
            options: See `AdapterOptions`.
        """
        self.profile = find_profile(profile) if isinstance(profile, str) else profile
        # The key of the environment is for the default address only.
        if not api_key and base_url is None and self.profile.key_env:
            api_key = os.environ.get(self.profile.key_env, "")
        _expect_key(self.profile, given=bool(api_key or base_url or options.get("headers")))
        wanted = {"web_search": web_search, "web_fetch": web_fetch}
        self.web_tools = frozenset(name for name, on in wanted.items() if on)
        self._switches = [_switch(self.profile, name) for name in sorted(self.web_tools)]
        super().__init__(
            self.profile.name, base_url or self.profile.base_url, {"api_key": api_key}, **options
        )
        self._borrowed = options.get("client")
        self._told: dict[str, ModelFacts] = {}
        reader = ReasoningReader(self.name, self.profile.echoes)
        self._fragments = message_cache(reader, self.profile.dialect)

    def facts(self, model: str) -> ModelFacts:
        """Return facts from the configuration, the server or the catalogue, in this order."""
        known = self._models.get(model) or self._told.get(model)
        if known is not None or self.profile.listing is not ModelListApi.OLLAMA:
            return known or super().facts(model)
        # Ollama runs a model with its own window and silently truncates longer prompts.
        return model_list.assume_ollama_window(super().facts(model))

    def complete_request(self, request: Request) -> Request:
        """Return `request` with the options and tools that apply to every request."""
        options = dict(self.profile.options)
        for switch in self._switches:
            options |= switch.options
        tools = tuple(tool for switch in self._switches for tool in switch.tools)
        return replace(
            request,
            native_tools=(*request.native_tools, *tools),
            options={**options, **self._options, **request.options},
        )

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Post the request and yield the response."""
        body = encode(
            self.complete_request(request),
            self._fragments,
            dialect=self.profile.dialect,
            streaming=self.streaming,
        )
        names = [spec.name for spec in request.tools]
        decoder = partial(chat_decoder, self.name, tags=self.profile.tags, tools=names)
        return stream_call(self.transport, PATH, body, decoder=decoder)

    async def models(self) -> list[ModelFacts]:
        """Return the models of the server; `facts` knows them afterwards."""
        found = await self._list_models()
        self._told = {facts.name: facts for facts in found}
        return found

    async def load_facts(self, model: str) -> ModelFacts:
        """Ask Ollama which window it runs `model` with; it loads the model if need be.

        Other servers are not asked.
        """
        if model in self._models or self.profile.listing is not ModelListApi.OLLAMA:
            return self.facts(model)
        async with self._beside() as native:
            self._told[model] = await ollama_api.load_facts(native, model)
        return self._told[model]

    async def _list_models(self) -> list[ModelFacts]:
        try:
            match self.profile.listing:
                case ModelListApi.LM_STUDIO:
                    return await self._lm_studio()
                case ModelListApi.OLLAMA:
                    async with self._beside() as native:
                        return await ollama_api.list_models(native)
                case ModelListApi.MODELS:
                    pass
        except ProviderRejected as error:
            # The profile may be used with another server than its default one.
            if error.status != 404:
                raise
        return parse_response(
            model_list.parse_models, await get(self.transport, "models"), self.name
        )

    async def _lm_studio(self) -> list[ModelFacts]:
        async with self._beside() as native:
            body = await get(native, "api/v0/models")
        return parse_response(model_list.parse_models, body, self.name)

    @asynccontextmanager
    async def _beside(self) -> AsyncIterator[Transport]:
        """Open the server's native API, which runs beside the compatible one."""
        endpoint = self.transport.endpoint
        root = endpoint.base_url.rstrip("/").removesuffix("/v1")
        native = Transport(
            dataclasses.replace(endpoint, base_url=root), provider=self.name, client=self._borrowed
        )
        try:
            yield native
        finally:
            await native.aclose()


def _expect_key(profile: Profile, *, given: bool) -> None:
    if profile.needs_key and not given:
        raise ConfigError(
            f"{profile.name} needs an API key: pass it as `api_key`"
            f"{f', or set {profile.key_env}' if profile.key_env else ''}."
        )


def _switch(profile: Profile, name: str) -> WebToolFields:
    found = profile.web.get(name)
    if found is None:
        raise ConfigError(
            f"{profile.name} has no built-in {name}. Disable it and use Clew's own tools instead."
        )
    return found
