"""One file of settings, read and understood; whether it counts is decided elsewhere."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from clew.config.checking import Checked, Fault, Keys, check, spelled
from clew.config.claude import translated
from clew.config.places import Convention, Place, Scope
from clew.config.reading import decode, located, read_bytes
from clew.config.schema import SettingsFile
from clew.core.errors import ConfigError
from clew.hooks.settings import HookSource, HookTable, parse_hooks
from clew.permissions.rules import Rule, parse_allow_rule, parse_rule

LISTS: Mapping[str, Callable[..., Rule]] = MappingProxyType(
    {"allow": parse_allow_rule, "ask": parse_rule, "deny": parse_rule}
)
"""The lists of rules, and how a rule of each is read."""
MOST_RULES = 1_000
"""How many a list may have: each is compared with every call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A file of settings."""

    place: Place
    content: bytes | None = field(default=None, repr=False)
    """What the file holds; None if there is none."""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What it says, by the names of the schema."""
    unused: tuple[str, ...] = ()
    """Keys that mean nothing here."""
    rules: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    """Its permission rules, by the name of the list."""
    hooks: HookTable = field(default_factory=HookTable, repr=False)

    @property
    def path(self) -> Path:
        """Where the file is, or would be."""
        return self.place.path

    @property
    def label(self) -> str:
        """How people know it."""
        return self.place.label

    @property
    def exists(self) -> bool:
        """Say whether there is such a file."""
        return self.content is not None

    @property
    def is_project(self) -> bool:
        """Say whether it came with the folder."""
        return self.place.scope is Scope.PROJECT


def read_layer(place: Place) -> Layer:
    """Read the file at `place`, if there is one.

    Raises:
        ConfigError: Something about it is wrong; the message says where and what.
    """
    content = read_bytes(place)
    return Layer(place=place) if content is None else understood(place, content)


def understood(place: Place, content: bytes) -> Layer:
    """Return the layer of a file that holds `content`.

    Raises:
        ConfigError: Something about it is wrong; the message says where and what.
    """
    data = decode(content, place.path)
    odd: tuple[Keys, ...] = ()
    foreign = place.convention is Convention.CLAUDE
    if foreign:
        data, odd = translated(data)
    try:
        found = check(data, SettingsFile, tolerant=foreign)
        rules = _rules(found, place)
    except Fault as fault:
        raise located(fault, content, place.path) from fault
    source = HookSource(name=str(place.path), project=place.scope is Scope.PROJECT)
    return Layer(
        place=place,
        content=content,
        data=found.data,
        unused=tuple(spelled(way) for way in (*odd, *found.unknown)),
        rules=rules,
        hooks=parse_hooks(found.data.get("hooks", {}), source),
    )


def _rules(found: Checked, place: Place) -> dict[str, tuple[Rule, ...]]:
    lists = found.data.get("permissions", {})
    for name in LISTS:
        if len(lists.get(name, ())) > MOST_RULES:
            raise Fault(("permissions", name), f"has more than {MOST_RULES:,} rules")
    return {
        name: tuple(
            _rule(name, index, text, place) for index, text in enumerate(lists.get(name, ()))
        )
        for name in LISTS
    }


def _rule(name: str, index: int, text: str, place: Place) -> Rule:
    try:
        return LISTS[name](text, source=place.label)
    except ConfigError as error:
        raise Fault(("permissions", name, index), str(error)) from error
