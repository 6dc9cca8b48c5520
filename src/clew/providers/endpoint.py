"""The address of a model server, authentication and timeouts."""

import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import urlsplit

from clew.core.errors import ConfigError
from clew.core.secret_variables import is_secret_variable
from clew.providers.retry import Retry

IDLE_TIMEOUT = 120.0
STALL_FACTOR = 5
"""The default of `progress_timeout` as a multiple of `idle_timeout`."""
_SHORTEST_SECRET = 8
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

Sign: TypeAlias = Callable[[str, Mapping[str, str], bytes], Mapping[str, str]]
"""Takes the URL, headers and body of a request and returns additional headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of a server and how to connect to it.

    Raises:
        ConfigError: The address or the key is invalid.
    """

    base_url: str = field(repr=False)
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    idle_timeout: float = IDLE_TIMEOUT
    """Seconds without data after which a call fails."""
    progress_timeout: float | None = None
    """Seconds without a part of the answer after which a call fails, although data arrives, such as
    keep-alive comments. By default five times `idle_timeout`: busy servers queue a request for up
    to ten minutes."""
    retry: Retry = field(default_factory=Retry, repr=False)
    key_header: str = "Authorization"
    """The header for the key; `Authorization` sends it as a bearer token."""
    sign: Sign | None = field(default=None, repr=False)
    """Creates headers that depend on the request, such as a signature over its body."""
    proxy: str = field(default="", repr=False)
    """An HTTP proxy; by default those of the environment."""
    tls: ssl.SSLContext | bool = field(default=True, repr=False)
    """How to verify the server's certificate; False disables verification."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError(
                f"The base URL {self.safe_url!r} is not a valid URL."
                " Include the scheme, as in http://127.0.0.1:8080/v1."
            )
        if not (self.api_key.isascii() and (not self.api_key or self.api_key.isprintable())):
            raise ConfigError(
                "The API key contains invalid characters, such as a line break. Remove them."
            )

    @property
    def is_local(self) -> bool:
        """True when the server runs on this machine, so that no proxy applies."""
        return urlsplit(self.base_url).hostname in _LOOPBACK

    @property
    def longest_stall(self) -> float:
        """Seconds after which a call without progress fails."""
        if self.progress_timeout is None:
            return STALL_FACTOR * self.idle_timeout
        return self.progress_timeout

    def address(self, path: str) -> str:
        """Return the URL of `path`."""
        return f"{self.base_url.rstrip('/')}/{path.lstrip('/')}"

    def headers_for(self, url: str, body: bytes) -> dict[str, str]:
        """Return the headers of a request, including the key or the signature."""
        bearer = "Bearer " if self.key_header == "Authorization" else ""
        key = {self.key_header: bearer + self.api_key} if self.api_key else {}
        headers = {"Content-Type": "application/json", **key, **self.headers}
        return headers if self.sign is None else {**headers, **self.sign(url, headers, body)}

    def mask_secrets(self, text: str, *more: str) -> str:
        """Return `text` with keys masked, and `more` secrets, in case a server repeats them."""
        for secret in self._secrets(more):
            text = text.replace(secret, "***")
        return text

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key, passwords in addresses, and headers that hold secrets."""
        urls = [urlsplit(self.base_url), urlsplit(self.proxy)]
        headers = (
            value
            for name, value in self.headers.items()
            if is_secret_variable(name.replace("-", "_")) or name.lower() == "authorization"
        )
        found = [self.api_key, *(url.password or "" for url in urls), *headers]
        return tuple(secret for secret in found if len(secret) >= _SHORTEST_SECRET)

    def _secrets(self, more: Iterable[str]) -> list[str]:
        parts = [urlsplit(self.base_url), urlsplit(self.proxy)]
        passwords = (part.password or "" for part in parts)
        found = [self.api_key, *passwords, *self.headers.values(), *more]
        # Shorter values may be words, and masking words would hide the problem.
        return [secret for secret in found if len(secret) >= _SHORTEST_SECRET]

    @property
    def safe_url(self) -> str:
        """The base URL without user and password."""
        return re.sub(r"[^/@]*@", "", self.base_url, count=1)

    @property
    def host(self) -> str:
        """The server's scheme and host, for error messages."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
