"""Which addresses may be fetched. Pure: nothing here looks anything up.

A model fetches what a page told it to, so an address is hostile input. It is taken apart once,
written down in one form, and everything else works with that form: what was checked is what is
connected to, and what a permission rule is compared with.
"""

import ipaddress
import re
from typing import Final, TypeAlias
from urllib.parse import urljoin, urlsplit, urlunsplit

from msgspec import Struct

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL: Final = 8_192
_PORTS = {"http": 80, "https": 443}
_LABELS = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_BAD_PORTS: Final = frozenset(
    {1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6679, 6697, 10080}
) | frozenset(range(6665, 6670))
"""Above 1023, the ports that browsers refuse too: other protocols live there."""

_PRIVATE = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
        # Azure answers its machines here with what is in no other machine's reach.
        "168.63.129.16/32",
        # Of the global IPv6 space: protocol assignments with Teredo, examples, 6to4.
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""Networks without IPv4 reach it through these addresses, whose end is the IPv4 address."""


class UrlRefused(Exception):
    """An address that is not fetched; the text tells the model why."""


class WebUrl(Struct, frozen=True, kw_only=True):
    """An address in its one form."""

    scheme: str
    host: str
    """In lower case and ASCII; an IPv6 address has no brackets."""
    port: int
    path: str
    """With the query."""

    @property
    def ip(self) -> IPAddress | None:
        """The host as an IP address; None when it is a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def origin(self) -> str:
        """Scheme, host and port, as they are written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    def __str__(self) -> str:
        return self.origin + self.path


def parse_url(text: str) -> WebUrl:
    """Take an address apart.

    Raises:
        Refused: It is malformed, or written in a way that hides where it leads.
    """
    if len(text) > MAX_URL:
        raise UrlRefused(f"The address is longer than {MAX_URL} characters.")
    if not text.isprintable() or any(char.isspace() or char == "\\" for char in text):
        raise UrlRefused("The address holds blanks, control characters or backslashes.")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UrlRefused(f"{text} is not an address: {error}.") from error
    if parts.scheme not in _PORTS:
        raise UrlRefused(f"Only http and https are fetched, not {parts.scheme or 'a bare name'}.")
    if "@" in parts.netloc:
        raise UrlRefused("An address with a user name or a password in it is not fetched.")
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
        raise UrlRefused(f"{host!r} is not the name of a host.")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        # Such as 2130706433, 0x7f.1 or 0177.0.0.1, all of which are 127.0.0.1 to some programs.
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError as error:
            raise UrlRefused(f"{host} is an IP address in an unusual form.") from error
    return name


def resolve_redirect(address: WebUrl, location: str) -> WebUrl:
    """Return where a redirect leads.

    Raises:
        Refused: As for `parse_url`.
    """
    return parse_url(urljoin(str(address), location.strip()))


def check_url(address: WebUrl, *, allow_private: bool) -> None:
    """Make sure that an address may be fetched, as far as its text can tell.

    Raises:
        Refused: It leads into a private network, or to a port of another protocol.
    """
    if address.port in _BAD_PORTS or (address.port < 1024 and address.port not in (80, 443)):
        raise UrlRefused(f"Port {address.port} is not one that web servers use.")
    if allow_private:
        return
    is_local = address.host == "localhost" or address.host.endswith(".localhost")
    if is_local or (address.ip is not None and not is_public(address.ip)):
        raise UrlRefused(f"{address.host} is not on the public internet.")


def is_public(ip: IPAddress) -> bool:
    """Is this the address of a machine on the public internet?"""
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
    """Does a redirect stay where the caller meant to go?

    The same host does, with or without `www.`, as long as it does not give up encryption.
    """
    if first.scheme == "https" and second.scheme == "http":
        return False
    same_host = first.host.removeprefix("www.") == second.host.removeprefix("www.")
    usual = first.port == _PORTS[first.scheme] and second.port == _PORTS[second.scheme]
    return same_host and (usual or first.port == second.port)
