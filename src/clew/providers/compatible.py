"""Servers that speak Chat Completions, each in its own dialect."""

import dataclasses
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Unpack

import msgspec
from msgspec.structs import replace

from clew.context.reasoning import ReasoningReader
from clew.core.errors import ConfigError, ProviderRejected
from clew.core.models import ModelFacts
from clew.providers.adapter import Adapter, AdapterOptions
from clew.providers.http import Transport, get, post, stream_call
from clew.providers.profiles import Profile, WebToolFields, find_profile
from clew.providers.protocol import Chunk, Request
from clew.providers.wire.chat import model_list
from clew.providers.wire.chat.decode import ChatDecoder
from clew.providers.wire.chat.encode import encode, message_cache
from clew.providers.wire.chat.model_list import ModelListApi, parse_response

PATH = "chat/completions"
_OLLAMA_WINDOW = 4_096


class Compatible(Adapter):
    """Speaks to a server as its profile says: `Compatible("lm_studio")`.

    Raises:
        ConfigError: There is no such profile, its key is missing, or it cannot do what was
            switched on.
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
        """Speak by `profile`, at its usual address unless another is given.

        Args:
            profile: A profile, or the name of one.
            base_url: Where the server is.
            api_key: The key, where one is needed; at the usual address, the profile's variable
                of the environment is looked up without one.
            web_search: Let the server look things up on the web; not every one can.
            web_fetch: Let the server read pages of the web; not every one can.
            options: What may be said of any adapter.
        """
        self.profile = find_profile(profile) if isinstance(profile, str) else profile
        # A key goes to the server that it was made for: elsewhere it must be given by hand.
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
        """Return what the configuration says of `model`, then the server, then the catalogue."""
        known = self._models.get(model) or self._told.get(model)
        if known is not None or self.profile.listing is not ModelListApi.OLLAMA:
            return known or super().facts(model)
        # Whatever a model could take, Ollama gives it its own window and cuts what is longer
        # without a word. So nothing is assumed but its smallest one, and the user is told.
        return replace(super().facts(model), window=_OLLAMA_WINDOW, max_output=1_024, known=False)

    def completed(self, request: Request) -> Request:
        """Return `request` with the options and tools that hold for every one."""
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
        """Post the request and yield what the server sends back."""
        body = encode(
            self.completed(request),
            self._fragments,
            dialect=self.profile.dialect,
            streaming=self.streaming,
        )
        names = [spec.name for spec in request.tools]
        decoder = partial(ChatDecoder, self.name, marks=self.profile.marks, tools=names)
        return stream_call(self.transport, PATH, body, decoder=decoder)

    async def models(self) -> list[ModelFacts]:
        """Return the models that the server has; `facts` knows them from then on."""
        found = await self._listed()
        self._told = {facts.name: facts for facts in found}
        return found

    async def _listed(self) -> list[ModelFacts]:
        try:
            match self.profile.listing:
                case ModelListApi.LM_STUDIO:
                    return await self._lm_studio()
                case ModelListApi.OLLAMA:
                    return await self._ollama()
                case ModelListApi.MODELS:
                    pass
        except ProviderRejected as error:
            # A family's profile may be used with another server than the usual one.
            if error.status != 404:
                raise
        return parse_response(
            model_list.parse_models, await get(self.transport, "models"), self.name
        )

    async def _lm_studio(self) -> list[ModelFacts]:
        async with self._beside() as native:
            body = await get(native, "api/v0/models")
        return parse_response(model_list.parse_models, body, self.name)

    async def _ollama(self) -> list[ModelFacts]:
        async with self._beside() as native:
            names = parse_response(
                model_list.parse_ollama_names, await get(native, "api/tags"), self.name
            )
            loaded = parse_response(
                model_list.parse_ollama_loaded, await get(native, "api/ps"), self.name
            )
            found = []
            for name in names:
                body = await post(native, "api/show", msgspec.json.encode({"model": name}))
                read = partial(model_list.parse_ollama_model, name=name, loaded=loaded)
                found.append(parse_response(read, body, self.name))
        return found

    @asynccontextmanager
    async def _beside(self) -> AsyncIterator[Transport]:
        """Open the server's own API, which stands beside the compatible one."""
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
            f"{profile.name} has no {name} of its own. Leave it off and use Clew's tools instead."
        )
    return found
