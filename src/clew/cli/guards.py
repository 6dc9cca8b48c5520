"""The user's own rules and hooks, from the settings in the user's folders.

Settings that come with a project are not read here: nothing of a project runs, or raises what
may run, before the user has accepted it.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from clew.cli.places import user_folder
from clew.core.errors import ConfigError
from clew.hooks.settings import HookTable, Source, merged, read
from clew.permissions.rules import Rule, parse, parse_allow


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """What stands between a model and the machine, beside the mode."""

    hooks: HookTable = field(default_factory=HookTable)
    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()


def load_guards() -> Guards:
    """Read the settings of Clew and of Claude Code in the user's folders; lists add up.

    Raises:
        ConfigError: A file cannot be read or holds something malformed: a guard that is
            left out in silence would be none.
    """
    found = Guards()
    for path in (user_folder() / "settings.json", Path.home() / ".claude" / "settings.json"):
        if path.is_file():
            found = _joined(found, _guards(path))
    return found


def _guards(path: Path) -> Guards:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    hooks = read(data, Source(name=str(path)))
    lists = msgspec.json.decode(data).get("permissions", {})
    if not isinstance(lists, dict):
        raise ConfigError(f"{path}: `permissions` must be an object with allow, ask and deny")
    return Guards(
        hooks=hooks,
        allow=_rules(path, "allow", lists.get("allow", [])),
        ask=_rules(path, "ask", lists.get("ask", [])),
        deny=_rules(path, "deny", lists.get("deny", [])),
    )


def _rules(path: Path, name: str, texts: Any) -> tuple[Rule, ...]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{path}: `permissions.{name}` must be a list of rules")
    read_one = parse_allow if name == "allow" else parse
    try:
        return tuple(read_one(text, source=path.name) for text in texts)
    except ConfigError as error:
        raise ConfigError(f"{path}: permissions.{name}: {error}") from error


def _joined(one: Guards, other: Guards) -> Guards:
    return Guards(
        hooks=merged(one.hooks, other.hooks),
        allow=(*one.allow, *other.allow),
        ask=(*one.ask, *other.ask),
        deny=(*one.deny, *other.deny),
    )
