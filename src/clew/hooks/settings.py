"""Parses the `hooks` section of a settings file or a plugin, with its matchers.

A mistake that hides what the user meant is an error with its location. Something that this
release does not know, such as an event of a newer Claude Code, is a problem: the rest works,
and the table lists what was ignored.

A matcher of plain characters is a name or a list of names; any other matcher is a regular
expression that may match anywhere in the name. So `Bash` does not match `BashOutput`, and
`^Note` matches every name that starts with it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, UnsetType, field
from msgspec.structs import replace

from clew.core.errors import ConfigError
from clew.core.json_text import decode_json
from clew.core.text import split_validation_error
from clew.hooks.handlers import HANDLER_TYPES, CommandHook, HookHandler
from clew.hooks.protocol import HookEvent, HookInput

_NAMES = re.compile(r"[A-Za-z0-9_\-, |]*")
_NARROW_NAMES = re.compile(r"[A-Za-z0-9_|]*")
_SHOWN = 100
_OTHER_NAMES = {"Agent": ("Task",), "BackgroundProcess": ("Bash",)}
"""Other names that hooks use: an earlier name of Claude Code's tool, and the tool in which Claude
Code runs background processes, so that a hook that checks commands sees all of them."""

TOOL_EVENTS = frozenset({HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE})
UNMATCHED_EVENTS = frozenset(
    {
        HookEvent.USER_PROMPT_SUBMIT,
        HookEvent.STOP,
        HookEvent.WORKTREE_CREATE,
        HookEvent.WORKTREE_REMOVE,
    }
)
"""Events without anything to match: their hooks always run."""


class HookMatcher(Struct, frozen=True):
    """A parsed matcher: everything, some names, or a pattern."""

    names: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None

    def matches(self, target: tuple[str, ...]) -> bool:
        """Does the matcher match one of these names?"""
        if self.names is not None:
            return not self.names.isdisjoint(target)
        return self.pattern is None or any(map(self.pattern.search, target))


MATCH_ALL = HookMatcher()


def parse_matcher(event: HookEvent, text: str) -> tuple[HookMatcher, str]:
    """Parse a matcher.

    Returns:
        The matcher, and a problem with it; an empty string without one.
    """
    if text in ("", "*"):
        return MATCH_ALL, ""
    if event in UNMATCHED_EVENTS:
        return MATCH_ALL, f"the matcher {quote_value(text)} has no effect on {event}"
    # Claude Code allows commas and hyphens in a list of names, except for this event.
    narrow = event is HookEvent.STOP_FAILURE
    if (_NARROW_NAMES if narrow else _NAMES).fullmatch(text):
        names = (name.strip() for name in re.split(r"\|" if narrow else r"[|,]", text))
        return HookMatcher(names=frozenset(name for name in names if name)), ""
    try:
        return HookMatcher(pattern=re.compile(text)), ""
    except (re.error, RecursionError, OverflowError) as error:
        why = f"is not a regular expression ({error}); it matches as a name"
        return HookMatcher(names=frozenset({text})), f"the matcher {quote_value(text)} {why}"


def quote_value(written: object) -> str:
    """Quote a value from the settings for a message, truncated to one short line."""
    text = repr(written)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def matcher_target(event: HookEvent, payload: HookInput) -> tuple[str, ...]:
    """Return the names that a matcher of `event` is compared with, the current one first."""
    match event:
        case HookEvent.PRE_TOOL_USE | HookEvent.POST_TOOL_USE:
            found = payload.tool_name
        case HookEvent.SESSION_START:
            found = payload.source
        case HookEvent.SESSION_END:
            found = payload.reason
        case HookEvent.PRE_COMPACT | HookEvent.POST_COMPACT:
            found = payload.trigger
        case HookEvent.SUBAGENT_START | HookEvent.SUBAGENT_STOP:
            found = payload.agent_type or payload.agent_id
        case HookEvent.STOP_FAILURE:
            found = payload.error
        case _:
            return ()
    if isinstance(found, UnsetType):
        return ()
    return (found, *_OTHER_NAMES.get(found, ())) if event in TOOL_EVENTS else (found,)


_GROUP_KEYS = frozenset({"matcher", "hooks", "env", "description"})
_SHOWN_ONLY = frozenset({"type", "description", "once", "rewakeSummary", "statusMessage"})
"""Keys of Claude Code that have no effect on a run."""
_ALLOWED = {
    "allowedEnvVars": "a list of variable names",
    "args": "a list of strings",
    "async": "true or false",
    "asyncRewake": "true or false",
    "command": "a command line",
    "continueOnBlock": "true or false",
    "headers": "an object of strings",
    "if": "a permission rule such as Bash(git *)",
    "maxTurns": "a whole number above 0",
    "prompt": "a string",
    "shell": "bash or powershell",
    "timeout": "seconds, above 0",
    "type": ", ".join(HANDLER_TYPES),
    "url": "a URL that starts with http:// or https://",
}
_WORD = re.compile(r"[\w$-]{1,60}")
_FIELD = re.compile(r"field `(\w+)`")


class HookSource(Struct, frozen=True, kw_only=True):
    """The file or plugin that hooks come from."""

    name: str
    """The name for messages: a file, or the name of a plugin."""
    project: bool = False
    """True for a file that came with the project and that the user may not have read."""
    plugin_root: Path | None = None
    """The folder of the plugin."""
    plugin_data: Path | None = None
    """The folder for the plugin's own data."""


class Hook(Struct, frozen=True, kw_only=True):
    """One hook, ready to run."""

    event: HookEvent
    matcher: HookMatcher
    handler: HookHandler
    source: HookSource
    place: str
    """Its location in the source, such as `PreToolUse[0].hooks[1]`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that its group sets."""

    @property
    def label(self) -> str:
        """The name of the hook in reports."""
        return f"{self.event} hook `{self.handler.brief}` ({self.source.name})"

    @property
    def key(self) -> object:
        """Equal for hooks that do the same; hooks of two plugins never do."""
        same = msgspec.structs.replace(self.handler, timeout=None)
        return self.source.plugin_root, msgspec.json.encode(same), tuple(sorted(self.env.items()))


class HookTable(Struct, frozen=True):
    """The hooks of some sources, in order, and the problems found in them."""

    hooks: tuple[Hook, ...] = ()
    problems: tuple[str, ...] = ()

    def active(self, *, accepted: bool) -> "HookTable":
        """Return the table without the project's hooks, unless the user accepted the project."""
        if accepted:
            return self
        return replace(self, hooks=tuple(hook for hook in self.hooks if not hook.source.project))


def merge_tables(*tables: HookTable) -> HookTable:
    """Merge tables: hooks add up, and none replaces another."""
    return HookTable(
        tuple(hook for table in tables for hook in table.hooks),
        tuple(problem for table in tables for problem in table.problems),
    )


def read_hooks(data: bytes, source: HookSource) -> HookTable:
    """Parse a settings file or a plugin's hooks file.

    Raises:
        ConfigError: The file is not JSON, or its hooks are malformed.
    """
    try:
        document = decode_json(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source.name} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{source.name} must contain a JSON object")
    # Some plugins put the events at the top level.
    bare = "hooks" not in document and any(event in document for event in HookEvent)
    return parse_hooks(document if bare else document.get("hooks", {}), source)


def parse_hooks(section: object, source: HookSource) -> HookTable:
    """Parse a decoded `hooks` section.

    Raises:
        ConfigError: It is malformed; the message names the event, the index and the key.
    """
    if not isinstance(section, dict):
        raise ConfigError(f"{source.name}: hooks must be an object of events")
    tables = [_event(name, groups, source) for name, groups in section.items()]
    return merge_tables(*tables)


def _event(name: str, groups: object, source: HookSource) -> HookTable:
    try:
        event = HookEvent(name)
    except ValueError:
        if name == "description":
            return HookTable()
        return HookTable(problems=(f"{source.name}: unknown event {_quote_key(name)}; ignored",))
    return merge_tables(
        *(
            _group(event, group, source, f"{name}[{index}]")
            for index, group in enumerate(_list(groups, f"{source.name}: {name}"))
        )
    )


def _group(event: HookEvent, group: object, source: HookSource, place: str) -> HookTable:
    where = f"{source.name}: {place}"
    if not isinstance(group, dict):
        raise ConfigError(f"{where} must be an object with matcher and hooks")
    text = group.get("matcher") or ""
    if not isinstance(text, str):
        raise ConfigError(f"{where}.matcher must be a string")
    matcher, problem = parse_matcher(event, text)
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


def _handler(event: HookEvent, raw: object, where: str) -> tuple[HookHandler | None, list[str]]:
    """Return the handler, or None for one that can never run, and its problems."""
    if not isinstance(raw, dict):
        raise ConfigError(f"{where} must be an object with a type")
    if "type" not in raw:
        raise ConfigError(f"{where}.type is missing; allowed: {_ALLOWED['type']}")
    kind = HANDLER_TYPES.get(raw["type"]) if isinstance(raw["type"], str) else None
    if kind is None:
        return None, [
            f"unknown type {quote_value(raw['type'])} (known: {_ALLOWED['type']}); ignored"
        ]
    try:
        handler = msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise _explain_invalid(error, where) from error
    odd = list(_unknown(raw, {*kind.__struct_encode_fields__, *_SHOWN_ONLY}))
    if handler.if_ and event not in TOOL_EVENTS:
        return None, [*odd, f"`if` applies to tool events, so on {event} the hook never runs"]
    if isinstance(handler, CommandHook) and handler.args is not None and handler.shell:
        odd.append("`shell` has no effect with `args`")
    return handler, odd


def _explain_invalid(error: msgspec.ValidationError, where: str) -> ConfigError:
    reason, path = split_validation_error(error)
    found = _FIELD.search(reason)
    key = found[1] if found else re.split(r"\W", path, maxsplit=1)[0]
    allowed = f"; allowed: {_ALLOWED[key]}" if key in _ALLOWED else ""
    at = f"{where}.{key}" if key else where
    return ConfigError(f"{at} is invalid: {reason}{allowed}")


def _unknown(raw: Mapping[str, Any], known: Iterable[str]) -> Iterator[str]:
    for key in sorted(raw.keys() - set(known)):
        yield f"the key {_quote_key(key)} is unknown and has no effect"


def _quote_key(key: str) -> str:
    return key if _WORD.fullmatch(key) else quote_value(key)


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise ConfigError(f"{where} must be a list")
    return value


def _env(value: object, where: str) -> dict[str, str]:
    try:
        return msgspec.convert(value or {}, dict[str, str])
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}.env must be an object of strings: {error}") from error
