"""The base of all adapters over HTTP: connection, options and model facts."""

import ssl
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack

import msgspec
from msgspec.structs import replace

from clew.core.errors import ProviderError
from clew.core.json_text import decode_json
from clew.core.models import ModelFacts
from clew.providers.catalogue import lookup
from clew.providers.endpoint import IDLE_TIMEOUT, Endpoint, Sign
from clew.providers.protocol import Request
from clew.providers.retry import Retry
from clew.providers.transport import Transport
from clew.providers.transport_tap import TappedTransport, TransportTap

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")


class AdapterOptions(TypedDict, total=False):
    """Options that every adapter accepts."""

    headers: Mapping[str, str]
    idle_timeout: float
    """Seconds without data after which a call fails."""
    progress_timeout: float | None
    """Seconds without a part of the answer, although data arrives; by default five times that."""
    retry: Retry
    proxy: str
    """An HTTP proxy; by default those of the environment."""
    tls: ssl.SSLContext | bool
    """How to verify the server's certificate."""
    client: "aiohttp.ClientSession | None"
    """A client that the caller owns and closes."""
    models: Mapping[str, ModelFacts]
    """Facts about models, which take precedence over the catalogue."""
    options: Mapping[str, Any]
    """Fields of the provider's API for every request, such as `thinking`."""
    streaming: bool
    """False requests whole responses instead of streams."""


class AuthOptions(TypedDict, total=False):
    """How an adapter authenticates."""

    api_key: str
    key_header: str
    sign: Sign | None


class Adapter:
    """Holds the connection and the options; a subclass adds `stream`."""

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
            progress_timeout=options.get("progress_timeout"),
            retry=options.get("retry") or Retry(),
            proxy=options.get("proxy", ""),
            tls=options.get("tls", True),
        )
        self.name = name
        self.secrets = endpoint.secrets  # a session redacts them everywhere
        self.transport = Transport(endpoint, provider=name, client=options.get("client"))
        self.streaming = options.get("streaming", True)
        self._models = dict(options.get("models", {}))
        self._options = dict(options.get("options", {}))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.transport.endpoint.safe_url!r})"

    @property
    def address(self) -> str:
        """The server's scheme and host."""
        return self.transport.endpoint.host

    def facts(self, model: str) -> ModelFacts:
        """Return the configured facts about `model`, or those of the catalogue."""
        return self._models.get(model) or lookup(model)

    def complete_request(self, request: Request) -> Request:
        """Return `request` with the options that apply to every request."""
        if not self._options:
            return request
        return replace(request, options={**self._options, **request.options})

    def decode(self, body: bytes, kind: type[T]) -> T:
        """Decode a JSON response.

        Raises:
            ProviderError: The response has another format.
        """
        try:
            return decode_json(body, type=kind)
        except msgspec.DecodeError as error:
            raise ProviderError(
                f"{self.name} returned an unexpected response ({error}). Check the base URL.",
                provider=self.name,
            ) from error

    def with_tap(self, tap: TransportTap) -> Self:
        """Return a copy on the same connections that reports its traffic to `tap`."""
        twin = copy(self)
        twin.transport = TappedTransport(self.transport, tap)
        return twin

    async def aclose(self) -> None:
        """Close the adapter's own connections."""
        await self.transport.aclose()
