"""Where a model server is, how to speak to it, and how patient to be."""

import random
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import urlsplit

import anyio

from clew.core.errors import ConfigError, ProviderBusy

IDLE_TIMEOUT = 120.0
_SHORTEST_SECRET = 8
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

Sign: TypeAlias = Callable[[str, Mapping[str, str], bytes], Mapping[str, str]]
"""Takes address, headers and body of a request and returns further headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a busy server is asked again, and how long to wait in between."""

    attempts: int = 3
    first_delay: float = 0.5
    longest_delay: float = 30.0
    """A server that asks for a longer pause is not waited for: the caller decides."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    random: Callable[[], float] = random.random

    def delay(self, attempt: int, busy: ProviderBusy) -> float | None:
        """Return the pause before the next attempt; None when it is not worth one."""
        if attempt >= self.attempts:
            return None
        if busy.retry_after is not None:
            asked = busy.retry_after + self.random() * self.first_delay
            return asked if busy.retry_after <= self.longest_delay else None
        full = min(self.longest_delay, self.first_delay * 2.0 ** (attempt - 1))
        return full * (0.5 + self.random() / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a server is and how to speak to it.

    Raises:
        ConfigError: The address or the key cannot be right.
    """

    base_url: str = field(repr=False)
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    idle_timeout: float = IDLE_TIMEOUT
    """Seconds without a byte after which a call is given up."""
    retry: Retry = field(default_factory=Retry, repr=False)
    key_header: str = "Authorization"
    """Where the key goes; in `Authorization` it is a bearer token, elsewhere it stands alone."""
    sign: Sign | None = field(default=None, repr=False)
    """Makes headers that depend on the request itself, such as a signature over its body."""
    proxy: str = field(default="", repr=False)
    """An HTTP proxy; without one, those of the environment are used."""
    tls: ssl.SSLContext | bool = field(default=True, repr=False)
    """How the server's certificate is checked; False checks nothing, so mind the network."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError(
                f"The base URL {self.shown!r} is not an address."
                " Write it with its scheme, such as http://127.0.0.1:8080/v1."
            )
        if not (self.api_key.isascii() and (not self.api_key or self.api_key.isprintable())):
            raise ConfigError(
                "The API key contains characters that no key has, such as a line break."
                " Set it again without them."
            )

    @property
    def is_local(self) -> bool:
        """True when the server is on this machine, where no proxy stands between."""
        return urlsplit(self.base_url).hostname in _LOOPBACK

    def address(self, path: str) -> str:
        """Return the whole address of `path`."""
        return f"{self.base_url.rstrip('/')}/{path.lstrip('/')}"

    def headers_for(self, url: str, body: bytes) -> dict[str, str]:
        """Return the headers of a request, with the key or the signature."""
        bearer = "Bearer " if self.key_header == "Authorization" else ""
        key = {self.key_header: bearer + self.api_key} if self.api_key else {}
        headers = {"Content-Type": "application/json", **key, **self.headers}
        return headers if self.sign is None else {**headers, **self.sign(url, headers, body)}

    def without_secrets(self, text: str) -> str:
        """Return `text` with the key blotted out, should a server have repeated it."""
        for secret in self._secrets():
            text = text.replace(secret, "***")
        return text

    def _secrets(self) -> list[str]:
        parts = [urlsplit(self.base_url), urlsplit(self.proxy)]
        found = [self.api_key, *(part.password or "" for part in parts), *self.headers.values()]
        # Shorter values are words, and blotting words out would hide what went wrong.
        return [secret for secret in found if len(secret) >= _SHORTEST_SECRET]

    @property
    def shown(self) -> str:
        """The base URL without a user and a password."""
        return re.sub(r"[^/@]*@", "", self.base_url, count=1)

    @property
    def where(self) -> str:
        """The server as messages name it: no path, no user."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
