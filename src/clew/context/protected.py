"""Protected content: tool results that clearing leaves alone and that a compaction keeps.

A rule names a tool (`WebFetch`, `mcp__github__*`), a path or pattern (`docs/spec.md`, `*.sql`), or
a tool with a pattern for its arguments (`Bash(git diff*)`). Invoked skills are always protected.
"""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from clew.context.items import NO_ITEMS, Item, Items
from clew.context.view import View
from clew.core.errors import ConfigError
from clew.core.ids import EntryId
from clew.core.messages import ToolResult

if TYPE_CHECKING:
    # Slow to import, and few sessions have protected content.
    from clew.context.digest.steps.step_log import StepLog
    from clew.context.digest.steps.tool_steps import ToolStep

_RULE = r"(?s)([\w.*?-]+)\((.+)\)"
_TOOL = r"mcp__\S+|[A-Za-z_]\w*"
_SKILL_TOOLS = frozenset({"executecommand", "skill"})
_LEAST_SKILL = 400
"""A shorter result of such a tool is the answer of a command, not the text of a skill."""


class ProtectionRule(Struct, frozen=True, kw_only=True):
    """Which tool results are protected."""

    tool: str = "*"
    """A tool name or pattern, in lower case."""
    pattern: str = ""
    """Matches an argument of the call: a path, the end of a path, or a whole text; empty for
    any call of the tool."""

    def matches(self, step: "ToolStep") -> bool:
        """Return whether the result of `step` is protected."""
        name, arguments = _find_call(step)
        if not fnmatchcase(name, self.tool):
            return False
        return not self.pattern or any(
            fnmatchcase(str(value), pattern)
            for value in arguments.values()
            if isinstance(value, str | int)
            for pattern in (self.pattern, f"*/{self.pattern}")
        )


def _find_call(step: "ToolStep") -> tuple[str, Mapping[str, Any]]:
    """Return the tool and the arguments of a step; a call on demand counts as that of its tool."""
    match step.name, step.arguments:
        case "callmcptool", {"tool": str(name), "arguments": dict(arguments)}:
            return name.lower(), arguments
    return step.name, step.arguments


class Protected(Struct, frozen=True, kw_only=True):
    """What a compaction keeps word for word, and what does not fit."""

    kept: frozenset[EntryId]
    """The entries of the results."""
    left_out: int
    """Protected results that are summarised like other messages, because there is no room."""


def parse_protection(text: str) -> ProtectionRule:
    """Read a rule such as `Bash(git diff*)`, `WebFetch` or `docs/*.md`.

    A file whose name looks like a tool is written as a path: `./Makefile`.

    Raises:
        ConfigError: The rule is empty.
    """
    text = text.strip()
    if not text:
        raise ConfigError("an entry of `protect` is empty; name a tool, a path or a pattern")
    if found := re.fullmatch(_RULE, text):
        return ProtectionRule(tool=found[1].lower(), pattern=found[2].removeprefix("./"))
    if re.fullmatch(_TOOL, text):
        return ProtectionRule(tool=text.lower())
    return ProtectionRule(pattern=text.removeprefix("./"))


def find_protected(view: View, rules: Sequence[str]) -> frozenset[EntryId]:
    """Return the entries of all results that a rule or a skill protects from clearing."""
    return frozenset(step.result_id for step in _list_protected(view, rules))


def choose_protected(view: View, rules: Sequence[str], *, room: int) -> Protected:
    """Choose the protected results that a compaction keeps, the newest first, within `room` units.

    Of calls with the same arguments only the newest counts: it has the latest version.
    """
    steps = _list_protected(view, rules)
    latest = {(step.name, str(step.arguments)): step for step in steps}
    units = {item.entry_id: item.units for item in view.items} if latest else {}
    kept: set[EntryId] = set()
    left_out = 0
    for step in sorted(latest.values(), key=lambda step: -step.place):
        size = units[step.result_id] + units[step.entry_id]
        if size <= room:
            room -= size
            kept.add(step.result_id)
        else:
            left_out += 1
    return Protected(kept=frozenset(kept), left_out=left_out)


def _list_protected(view: View, rules: Sequence[str]) -> "list[ToolStep]":
    if not rules and not view.memo.get(_SkillSearch).finds_any(view.items):
        return []
    parsed = [parse_protection(rule) for rule in rules]
    steps = view.memo.get(_ViewSteps).list_steps(view.items)
    return [step for step in steps if _is_protected(step, parsed)]


class _ViewSteps:
    """The steps of a view that grows: each message is read once."""

    def __init__(self) -> None:
        self._items = NO_ITEMS
        self._log: StepLog | None = None

    def list_steps(self, items: Items) -> "list[ToolStep]":
        """Return the steps of `items`."""
        from clew.context.digest.steps.step_log import StepLog  # noqa: PLC0415 - few sessions need it

        if self._log is None or not items.continues(self._items):
            self._items, self._log = NO_ITEMS, StepLog()
        self._log.extend(items[len(self._items) :])
        self._items = items
        return self._log.list_steps()


class _SkillSearch:
    """Looks for results of skills in a view that grows: each message is read once."""

    def __init__(self) -> None:
        self._items = NO_ITEMS
        self._is_found = False

    def finds_any(self, items: Items) -> bool:
        """Return whether a tool that invokes skills has a result in `items`."""
        if not items.continues(self._items):
            self._items, self._is_found = NO_ITEMS, False
        new = items[len(self._items) :]
        self._is_found = self._is_found or _has_skill(new)
        self._items = items
        return self._is_found


def _has_skill(items: Sequence[Item]) -> bool:
    names = {
        part.name
        for item in items
        if item.answers
        for part in item.message.parts
        if type(part) is ToolResult
    }
    return any(name.lower() in _SKILL_TOOLS for name in names)


def _is_protected(step: "ToolStep", rules: Sequence[ProtectionRule]) -> bool:
    if not step.answered or step.entry_id == step.result_id:
        return False
    is_skill = step.name in _SKILL_TOOLS and len(step.result) >= _LEAST_SKILL and not step.failed
    return is_skill or any(rule.matches(step) for rule in rules)
