"""Reading the `hooks` section of a settings file or of a plugin.

A mistake that hides what the user meant is an error that says where it is. A thing that this
release does not know, such as an event of a newer Claude Code, is a problem: the rest works,
and the table says what was left out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from clew.core.errors import ConfigError
from clew.hooks.handlers import KINDS, CommandHook, Handler
from clew.hooks.matching import TOOL_EVENTS, Matcher, matcher_for, shown
from clew.hooks.protocol import HookEvent

_GROUP_KEYS = frozenset({"matcher", "hooks", "env", "description"})
_SHOWN_ONLY = frozenset({"type", "description", "once", "rewakeSummary", "statusMessage"})
"""Known keys that change nothing about a run."""
_ALLOWED = {
    "allowedEnvVars": "a list of names of variables",
    "args": "a list of texts",
    "async": "true or false",
    "asyncRewake": "true or false",
    "command": "a command line",
    "continueOnBlock": "true or false",
    "headers": "an object of texts",
    "if": "a permission rule such as Bash(git *)",
    "maxTurns": "a whole number above 0",
    "prompt": "a text",
    "shell": "bash or powershell",
    "timeout": "seconds, above 0",
    "type": ", ".join(KINDS),
    "url": "an address that begins with http:// or https://",
}
_WORD = re.compile(r"[\w$-]{1,60}")
_KEY = re.compile(r"`\$\.(\w+)|field `(\w+)`")


class Source(Struct, frozen=True, kw_only=True):
    """Where hooks come from."""

    name: str
    """As a person knows it: a file, or a plugin's name."""
    project: bool = False
    """True for a file that came with the project, which nobody may have read."""
    plugin_root: Path | None = None
    """The folder of the plugin, if it is one."""
    plugin_data: Path | None = None
    """Where the plugin may keep things."""


class Hook(Struct, frozen=True, kw_only=True):
    """One hook, ready to run."""

    event: HookEvent
    matcher: Matcher
    handler: Handler
    source: Source
    place: str
    """Where in its source it stands, such as `PreToolUse[0].hooks[1]`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that its group sets."""

    @property
    def label(self) -> str:
        """The hook as reports name it."""
        return f"{self.event} hook `{self.handler.brief}` ({self.source.name})"

    @property
    def key(self) -> object:
        """Equal for hooks that do the same; those of two plugins never do."""
        same = msgspec.structs.replace(self.handler, timeout=None)
        return self.source.plugin_root, msgspec.json.encode(same), tuple(sorted(self.env.items()))


class HookTable(Struct, frozen=True):
    """All hooks of some sources, in order, and what was left out."""

    hooks: tuple[Hook, ...] = ()
    problems: tuple[str, ...] = ()

    def active(self, *, accepted: bool) -> "HookTable":
        """Return the table without the project's own hooks, unless the user accepted them."""
        if accepted:
            return self
        return replace(self, hooks=tuple(hook for hook in self.hooks if not hook.source.project))


def merged(*tables: HookTable) -> HookTable:
    """Put tables together: hooks add up, and none replaces another."""
    return HookTable(
        tuple(hook for table in tables for hook in table.hooks),
        tuple(problem for table in tables for problem in table.problems),
    )


def read(data: bytes, source: Source) -> HookTable:
    """Read a settings file or a plugin's hooks file.

    Raises:
        ConfigError: It is not JSON, or its hooks are malformed.
    """
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source.name} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{source.name} must hold a JSON object")
    # Some plugins write the events without the section around them.
    bare = "hooks" not in document and any(event in document for event in HookEvent)
    return parse(document if bare else document.get("hooks", {}), source)


def parse(section: object, source: Source) -> HookTable:
    """Read a `hooks` section that was decoded already.

    Raises:
        ConfigError: It is malformed; the message names the event, the index and the key.
    """
    if not isinstance(section, dict):
        raise ConfigError(f"{source.name}: hooks must be an object of events")
    tables = [_event(name, groups, source) for name, groups in section.items()]
    return merged(*tables)


def _event(name: str, groups: object, source: Source) -> HookTable:
    try:
        event = HookEvent(name)
    except ValueError:
        if name == "description":
            return HookTable()
        return HookTable(
            problems=(f"{source.name}: there is no event {_named(name)} here; left out",)
        )
    return merged(
        *(
            _group(event, group, source, f"{name}[{index}]")
            for index, group in enumerate(_list(groups, f"{source.name}: {name}"))
        )
    )


def _group(event: HookEvent, group: object, source: Source, place: str) -> HookTable:
    where = f"{source.name}: {place}"
    if not isinstance(group, dict):
        raise ConfigError(f"{where} must be an object with matcher and hooks")
    text = group.get("matcher") or ""
    if not isinstance(text, str):
        raise ConfigError(f"{where}.matcher must be a text")
    matcher, problem = matcher_for(event, text)
    env = _env(group.get("env"), where)
    hooks: list[Hook] = []
    problems = [problem] if problem else []
    problems += _unknown(group, _GROUP_KEYS)
    if "hooks" not in group:
        raise ConfigError(f"{where}.hooks is missing; allowed: a list of hooks")
    for index, raw in enumerate(_list(group["hooks"], f"{where}.hooks")):
        inner = f"{place}.hooks[{index}]"
        handler, odd = _handler(event, raw, f"{source.name}: {inner}")
        problems += (f"hooks[{index}]: {text}" for text in odd)
        if handler is not None:
            hook = Hook(
                event=event, matcher=matcher, handler=handler, source=source, place=inner, env=env
            )
            hooks.append(hook)
    return HookTable(tuple(hooks), tuple(f"{where}: {text}" for text in problems))


def _handler(event: HookEvent, raw: object, where: str) -> tuple[Handler | None, list[str]]:
    """Return the handler, or None for one that cannot run here, and what is odd about it."""
    if not isinstance(raw, dict):
        raise ConfigError(f"{where} must be an object with a type")
    if "type" not in raw:
        raise ConfigError(f"{where}.type is missing; allowed: {_ALLOWED['type']}")
    kind = KINDS.get(raw["type"]) if isinstance(raw["type"], str) else None
    if kind is None:
        return None, [
            f"there is no type {shown(raw['type'])} here (known: {_ALLOWED['type']}); left out"
        ]
    try:
        handler = msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise _malformed(error, where) from error
    odd = list(_unknown(raw, {*kind.__struct_encode_fields__, *_SHOWN_ONLY}))
    if handler.if_ and event not in TOOL_EVENTS:
        return None, [*odd, f"`if` is for tool events, so on {event} the hook never runs"]
    if isinstance(handler, CommandHook) and handler.args is not None and handler.shell:
        odd.append("`shell` has no effect beside `args`")
    return handler, odd


def _malformed(error: msgspec.ValidationError, where: str) -> ConfigError:
    found = _KEY.search(str(error))
    key = (found[1] or found[2]) if found else ""
    allowed = f"; allowed: {_ALLOWED[key]}" if key in _ALLOWED else ""
    at = f"{where}.{key}" if key else where
    reason = str(error).partition(" - at ")[0]
    return ConfigError(f"{at} is not right: {reason}{allowed}")


def _unknown(raw: Mapping[str, Any], known: Iterable[str]) -> Iterator[str]:
    for key in sorted(raw.keys() - set(known)):
        yield f"the key {_named(key)} is not known here and has no effect"


def _named(key: str) -> str:
    return key if _WORD.fullmatch(key) else shown(key)


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise ConfigError(f"{where} must be a list")
    return value


def _env(value: object, where: str) -> dict[str, str]:
    try:
        return msgspec.convert(value or {}, dict[str, str])
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}.env must be an object of texts: {error}") from error
