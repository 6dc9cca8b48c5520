"""Comparing rules with addresses: `domain:example.com` is about the host, and nothing else."""

import ipaddress
import re
import socket
from functools import lru_cache
from urllib.parse import urlsplit

from clew.permissions.globs import Glob, anything, glob, parts, within
from clew.permissions.rules import Rule
from clew.permissions.texts import matches_text

_DOMAIN = "domain:"
_ODD = re.compile(r"[\0- \\\x7f-\xa0]")


def host_of(address: str) -> str | None:
    """Return the host of a web address in its plain form, or None if it is not certain."""
    if _ODD.search(address):
        return None
    whole = address if "://" in address else f"https://{address}"
    try:
        parts = urlsplit(whole)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme.lower() not in ("http", "https") or not host:
        return None
    return _plain(host.rstrip("."))


def allows_address(rule: Rule, address: str) -> bool:
    """Does an allow rule match? An address with a user's name in it never matches a pattern."""
    if rule.covers_all:
        return True
    host = host_of(address)
    if host is None or "@" in address.partition("://")[2].partition("/")[0]:
        return False
    pattern = rule.pattern or ""
    if pattern.startswith(_DOMAIN):
        return _glob(_of(pattern)).matches(host)
    return matches_text(rule, address)


def denies_address(rule: Rule, address: str) -> bool:
    """Does a rule that denies match the host, or the address as it is written?"""
    if rule.covers_all or matches_text(rule, address):
        return True
    host, pattern = host_of(address), rule.pattern or ""
    if host is None or not pattern.startswith(_DOMAIN):
        return False
    return _glob(_of(pattern)).matches(host)


def _of(pattern: str) -> str:
    domain = pattern.removeprefix(_DOMAIN).strip().rstrip(".").lower()
    return domain if "*" in domain else (_plain(domain) or domain)


def _plain(host: str) -> str | None:
    """Return a host in lower case, a number as four, and other scripts as DNS writes them."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    if re.fullmatch(r"[0-9a-fx.]+", host) and host[:1].isdigit():
        try:
            return socket.inet_ntoa(socket.inet_aton(host))
        except OSError:
            return None if re.fullmatch(r"[\d.]+", host) else host
    try:
        return host.encode("idna").decode().lower() if not host.isascii() else host.lower()
    except UnicodeError:
        return None


@lru_cache(maxsize=512)
def _glob(domain: str) -> Glob:
    if domain == "*":
        return glob([anything])
    head = [parts(".")] if domain.startswith("*.") else []
    rest = domain.removeprefix("*.")
    return glob([*head, *(within(".") if char == "*" else char for char in rest)])
