"""What adapters over HTTP have in common."""

import ssl
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from msgspec.structs import replace

from clew.core.models import ModelFacts
from clew.providers.catalogue import lookup
from clew.providers.endpoint import IDLE_TIMEOUT, Endpoint, Retry, Sign
from clew.providers.http import Transport
from clew.providers.protocol import Request
from clew.providers.transport_tap import TappedTransport, TransportTap

if TYPE_CHECKING:
    import aiohttp


class AdapterOptions(TypedDict, total=False):
    """What may be said of any adapter; each has a sensible default."""

    headers: Mapping[str, str]
    idle_timeout: float
    """Seconds without a byte after which a call is given up."""
    retry: Retry
    proxy: str
    """An HTTP proxy; without one, those of the environment are used."""
    tls: ssl.SSLContext | bool
    """How the server's certificate is checked."""
    client: "aiohttp.ClientSession | None"
    """A client of the caller's own, which stays the caller's to close."""
    models: Mapping[str, ModelFacts]
    """What is known of models, before the catalogue is asked."""
    options: Mapping[str, Any]
    """Fields of the provider's own API for every request, such as `thinking`."""
    streaming: bool
    """False: answers are asked for in one piece."""


class AuthOptions(TypedDict, total=False):
    """How a server knows its callers."""

    api_key: str
    key_header: str
    sign: Sign | None


class Adapter:
    """Holds the connection and the settings; a subclass adds `stream`."""

    def __init__(
        self, name: str, base_url: str, access: AuthOptions, **options: Unpack[AdapterOptions]
    ) -> None:
        unknown = options.keys() - AdapterOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no option {', '.join(sorted(unknown))}")
        endpoint = Endpoint(
            base_url=base_url,
            api_key=access.get("api_key", "").strip(),
            key_header=access.get("key_header", "Authorization"),
            sign=access.get("sign"),
            headers=options.get("headers", {}),
            idle_timeout=options.get("idle_timeout", IDLE_TIMEOUT),
            retry=options.get("retry") or Retry(),
            proxy=options.get("proxy", ""),
            tls=options.get("tls", True),
        )
        self.name = name
        self.transport = Transport(endpoint, provider=name, client=options.get("client"))
        self.streaming = options.get("streaming", True)
        self._models = dict(options.get("models", {}))
        self._options = dict(options.get("options", {}))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.transport.endpoint.shown!r})"

    def facts(self, model: str) -> ModelFacts:
        """Return what the configuration says of `model`, else what the catalogue says."""
        return self._models.get(model) or lookup(model)

    def completed(self, request: Request) -> Request:
        """Return `request` with the options that hold for every one."""
        if not self._options:
            return request
        return replace(request, options={**self._options, **request.options})

    def watched(self, watch: TransportTap) -> Self:
        """Return a twin on the same connections that shows `watch` what it sends and gets."""
        twin = copy(self)
        twin.transport = TappedTransport(self.transport, watch)
        return twin

    async def aclose(self) -> None:
        """Close the connections that are our own."""
        await self.transport.aclose()
