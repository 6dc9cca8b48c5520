"""Parses URLs and decides which may be fetched. Pure: nothing here resolves names.

A model fetches what a page told it to, so a URL is hostile input. It is parsed once into a
normalized form that everything else uses: the checked URL is the one that is fetched, and the
one that permission rules are compared with.
"""

import ipaddress
import re
from typing import Final, TypeAlias
from urllib.parse import urljoin, urlsplit, urlunsplit

from msgspec import Struct

from clew.core.text import end_sentence

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL: Final = 8_192
_PORTS = {"http": 80, "https": 443}
_LABELS = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_BAD_PORTS: Final = frozenset(
    {1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6679, 6697, 10080}
) | frozenset(range(6665, 6670))
"""Ports above 1023 that browsers refuse too, because they belong to other protocols."""

_PRIVATE = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
        # Azure serves machine credentials at this address.
        "168.63.129.16/32",
        # Within global IPv6 space: protocol assignments with Teredo, documentation, 6to4.
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""NAT64: networks without IPv4 reach it through these addresses, which end in the IPv4 address."""


class UrlRefused(Exception):
    """A URL that may not be fetched; the text tells the model why."""


class WebUrl(Struct, frozen=True, kw_only=True):
    """A normalized URL."""

    scheme: str
    host: str
    """In lower case and ASCII; an IPv6 address is without brackets."""
    port: int
    path: str
    """Including the query."""

    @property
    def ip(self) -> IPAddress | None:
        """The host as an IP address; None if it is a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def origin(self) -> str:
        """The scheme, the host and a non-default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    def __str__(self) -> str:
        return self.origin + self.path


def parse_url(text: str) -> WebUrl:
    """Parse and normalize a URL.

    Raises:
        UrlRefused: It is malformed, or written in a form that hides its host.
    """
    if len(text) > MAX_URL:
        raise UrlRefused(f"The URL has more than {MAX_URL} characters.")
    if not text.isprintable() or any(char.isspace() or char == "\\" for char in text):
        raise UrlRefused("The URL has spaces, control characters or backslashes.")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UrlRefused(end_sentence(f"{text} is not a URL: {error}")) from error
    if parts.scheme not in _PORTS:
        raise UrlRefused(
            f"Only http and https URLs can be fetched, not {parts.scheme or 'a bare name'}."
        )
    if "@" in parts.netloc:
        raise UrlRefused("A URL with a user name or a password cannot be fetched.")
    return WebUrl(
        scheme=parts.scheme,
        host=_normalize_ipv6(host) if parts.netloc.startswith("[") else _normalize_host(host),
        port=_PORTS[parts.scheme] if port is None else port,
        path=urlunsplit(("", "", parts.path or "/", parts.query, "")),
    )


def _normalize_ipv6(host: str) -> str:
    try:
        ip = ipaddress.IPv6Address(host)
    except ValueError as error:
        raise UrlRefused(f"[{host}] is not an IPv6 address.") from error
    if ip.scope_id:
        raise UrlRefused(f"[{host}] is an address of one network interface.")
    return ip.compressed


def _normalize_host(host: str) -> str:
    try:
        name = host.encode("idna").decode().lower().removesuffix(".")
    except UnicodeError:
        name = ""
    if not _LABELS.fullmatch(name):
        raise UrlRefused(f"{host!r} is not a valid host name.")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        # Some programs read 2130706433, 0x7f.1 and 0177.0.0.1 as 127.0.0.1.
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError as error:
            raise UrlRefused(f"{host} is an IP address in an unusual form.") from error
    return name


def resolve_redirect(address: WebUrl, location: str) -> WebUrl:
    """Return the target of a redirect.

    Raises:
        UrlRefused: As for `parse_url`.
    """
    return parse_url(urljoin(str(address), location.strip()))


def check_url(address: WebUrl, *, allow_private: bool) -> None:
    """Check that a URL may be fetched, as far as its text shows.

    Raises:
        UrlRefused: Its host is on a private network, or its port belongs to another protocol.
    """
    if address.port in _BAD_PORTS or (address.port < 1024 and address.port not in (80, 443)):
        raise UrlRefused(f"Port {address.port} is not one that web servers use.")
    if allow_private:
        return
    is_local = address.host == "localhost" or address.host.endswith(".localhost")
    if is_local or (address.ip is not None and not is_public(address.ip)):
        raise UrlRefused(f"{address.host} is not on the public internet.")


def is_public(ip: IPAddress) -> bool:
    """Is this an address on the public internet?"""
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped
        if ip in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(inner)
        if ip not in _GLOBAL_V6:
            return False
    return not any(ip in network for network in _PRIVATE)


def is_same_site(first: WebUrl, second: WebUrl) -> bool:
    """Does a redirect stay on the same site?

    The same host counts, with or without `www.`, unless the redirect gives up encryption.
    """
    if first.scheme == "https" and second.scheme == "http":
        return False
    same_host = first.host.removeprefix("www.") == second.host.removeprefix("www.")
    usual = first.port == _PORTS[first.scheme] and second.port == _PORTS[second.scheme]
    return same_host and (usual or first.port == second.port)
