"""Matches rules against text, commands and URLs.

In a text `*` matches anything. `domain:example.com` is compared with the host of a URL and nothing
else: an allow rule matches this host, a deny or ask rule also the hosts below it.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from clew.core.permissions import Access, TargetKind, Verdict
from clew.permissions.globs import (
    Glob,
    GlobStep,
    any_char,
    any_except,
    any_text,
    build_glob,
    optional_tail,
    segments,
)
from clew.permissions.policy import MODE_TABLE, Policy, describe_mode
from clew.permissions.rules import Rule, names_tool, select_allow_rules
from clew.permissions.shell.command_line import ShellCommand

_Match: TypeAlias = Callable[[Rule, str], bool]


def matches_guard(rule: Rule, access: Access, cwd: Path) -> bool:  # noqa: ARG001
    """Does a deny or ask rule match one of the targets?"""
    if access.server and rule.covers_all and names_tool(rule, access.server):
        return True
    match: _Match = denies_address if access.kind is TargetKind.ADDRESS else denies_text
    return names_tool(rule, access.tool) and any(match(rule, target) for target in access.targets)


def applies_to(rule: Rule, access: Access) -> bool:
    """Does a deny or ask rule name this tool?"""
    return names_tool(rule, access.tool)


def find_doubt(access: Access, guarding: Sequence[Rule], policy: Policy) -> str:  # noqa: ARG001
    """Return why a rule may forbid the call, or an empty string."""
    if guarding and not all(access.targets):
        return f"the rule {guarding[0]} cannot be compared with this call"
    if access.kind is TargetKind.ADDRESS and any(host_of(each) is None for each in access.targets):
        return "the host of this URL is uncertain"
    return ""


def find_allow_rules(access: Access, policy: Policy) -> tuple[Rule, ...] | str:
    """Return the rules that together allow every target, or the reason to ask."""
    match: _Match = allows_address if access.kind is TargetKind.ADDRESS else matches_text
    rules = select_allow_rules(policy.allow, access.tool)
    found: list[Rule] = []
    for target in access.targets:
        rule = next((rule for rule in rules if match(rule, target)), None)
        if rule is not None:
            found.append(rule)
        elif MODE_TABLE[policy.mode][access.risk] is not Verdict.ALLOW:
            return describe_mode(policy.mode, access.risk)
        elif access.kind is TargetKind.ADDRESS:
            # A request carries data in its URL, so it is more than a read in every mode.
            return f"{policy.mode} mode asks before requests to {host_of(target)}"
    return tuple(dict.fromkeys(found))


_QUOTES = frozenset("\"'\\")
_BETWEEN_WORDS = "\0"
_STEPS: dict[str, str | GlobStep] = {"*": any_text, "?": any_char}


def matches_text(rule: Rule, text: str) -> bool:
    """Does the rule's pattern match the whole of `text`?"""
    return rule.covers_all or _text_glob(rule.pattern or "", " ").matches(text)


def denies_text(rule: Rule, text: str, *, fold: bool = False) -> bool:
    """Does a deny rule match `text`, with or without text after it?"""
    if fold:
        rule, text = Rule(rule.tool, (rule.pattern or "").casefold()), text.casefold()
    return matches_text(rule, text) or (rule.prefix is not None and rule.prefix == text.rstrip())


def allows_command(rule: Rule, command: ShellCommand) -> bool:
    """Does an allow rule match a command, word for word?

    A space in the pattern separates two words: quotes cannot join two words into one. A
    pattern with quotes is compared with the command as written.
    """
    if rule.covers_all:
        return True
    pattern = rule.pattern or ""
    if _QUOTES & set(pattern):
        return matches_text(rule, command.written)
    words = _BETWEEN_WORDS.join(word.text for word in command.words)
    if any(_BETWEEN_WORDS in word.text for word in command.words):
        return False
    return _text_glob(pattern, _BETWEEN_WORDS).matches(words)


def spells(rule: Rule, word: str) -> bool:
    """Does the rule contain this word literally, not through a wildcard?"""
    return word in rule.literal_words


@lru_cache(maxsize=2048)
def _text_glob(pattern: str, blank: str) -> Glob:
    body, ending = re.sub(r"\*+", "*", pattern), list[GlobStep]()
    for mark in (":*", " *"):
        # A `*` at the end also matches nothing, unless there is another wildcard.
        if body.endswith(mark) and (mark == ":*" or body.count("*") == 1):
            body, ending = body.removesuffix(mark).rstrip(), [optional_tail(blank)]
            break
    if blank != " ":
        body = re.sub(r"\s+", blank, body)
    return build_glob([*(_STEPS.get(char, char) for char in body), *ending])


_DOMAIN = "domain:"
_ODD = re.compile(r"[\0- \\\x7f-\xa0]")


def host_of(address: str) -> str | None:
    """Return the normalized host of a URL, or None if it is uncertain."""
    if _ODD.search(address):
        return None
    whole = address if "://" in address else f"https://{address}"
    try:
        split = urlsplit(whole)
        host = split.hostname or ""
        _ = split.port
    except ValueError:
        return None
    if split.scheme.lower() not in ("http", "https") or not host:
        return None
    return _normalize_host(host.rstrip("."))


def allows_address(rule: Rule, address: str) -> bool:
    """Does an allow rule match? A URL with a user name never matches a pattern."""
    if rule.covers_all:
        return True
    host = host_of(address)
    if host is None or "@" in address.partition("://")[2].partition("/")[0]:
        return False
    pattern = rule.pattern or ""
    if pattern.startswith(_DOMAIN):
        return _domain_glob(_domain_of(pattern)).matches(host)
    return matches_text(rule, address)


def denies_address(rule: Rule, address: str) -> bool:
    """Does a deny rule match the host, a domain that it belongs to, or the URL as written?"""
    if rule.covers_all or matches_text(rule, address):
        return True
    host, pattern = host_of(address), rule.pattern or ""
    if host is None or not pattern.startswith(_DOMAIN):
        return False
    domain = _domain_of(pattern)
    # The owner of a domain can add hosts to it.
    return _domain_glob(domain).matches(host) or _domain_glob(f"*.{domain}").matches(host)


def _domain_of(pattern: str) -> str:
    domain = pattern.removeprefix(_DOMAIN).strip().rstrip(".").lower()
    return domain if "*" in domain else (_normalize_host(domain) or domain)


def _normalize_host(host: str) -> str | None:
    """Return a host in lower case, an IP address in dotted form, other scripts in punycode."""
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
def _domain_glob(domain: str) -> Glob:
    if domain == "*":
        return build_glob([any_text])
    head = [segments(".")] if domain.startswith("*.") else []
    rest = domain.removeprefix("*.")
    return build_glob([*head, *(any_except(".") if char == "*" else char for char in rest)])
