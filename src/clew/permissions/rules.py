"""Permission rules such as `Read`, `Bash(pnpm *)` and `Read(./src/**)`, and the tools they name.

The syntax is that of Claude Code, so its settings work unchanged:

| rule | matches |
|---|---|
| `Tool`, `Tool(*)` | every call of the tool |
| `Bash(npm test)` | exactly this command |
| `Bash(npm test *)`, `Bash(npm test:*)` | the command, alone or with any arguments after it |
| `BackgroundProcess(npm start)` | the command in the background; rules of `Bash` apply to it too |
| `BackgroundProcess.send(y)` | a line for the input of such a process |
| `Read(//etc/**)` | an absolute path |
| `Read(~/notes/**)` | a path in the home folder |
| `Edit(/src/**)` | a path in the project, or in the folder of the settings with the rule |
| `Edit(src/**)`, `Edit(./src/**)` | a path in the working folder |
| `Read(.env)` | a file of this name in any folder of the working folder |
| `WebFetch(domain:example.com)` | an address, by its host; denying includes hosts below it |
| `WebFetch(domain:*.example.com)` | every host below `example.com`, but not `example.com` itself |
| `mcp__git__*`, `mcp__git` | every tool of a server |

A pattern of `Edit` or `Write` applies to every tool that writes, one of `Read` to every tool that
reads.
Denying is generous and allowing is strict: where a rule can be read in two ways, both
readings deny and only the narrower one allows.
"""

import re
from functools import lru_cache

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.permissions import Risk
from clew.permissions.globs import Glob, any_char, any_text, build_glob

_RULE = r"(?s)\s*([A-Za-z_*?][\w.*?-]*)\s*(?:\((.*)\))?\s*"
_SERVER_GLOB = r"mcp__[^*?]+?__.*"
_WILD = frozenset("*?")
_PREFIX = ":*"

MAX_RULE_LENGTH = 2_000
"""The most characters of a rule: the time to match one grows with its length."""
EDITING = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
READING = frozenset({"Read", "Grep", "Glob"})
SHELL_TOOLS = frozenset({"Bash", "BackgroundProcess"})
"""Tools that have the shell of this machine run a command line: the rules of `Bash` apply."""
_PROCESS_INPUT = "BackgroundProcess.send"
_GUARDS = {
    "BackgroundProcess": frozenset({"Bash"}),
    _PROCESS_INPUT: frozenset({"Bash", "BackgroundProcess"}),
}
"""Other tools whose deny and ask rules apply. What a process reads may be a command for it."""

DEFAULT_ALLOW: tuple[str, ...] = tuple(
    f"{tool}({folder}/**)"
    for tool in ("Read", "Glob", "Grep")
    for folder in (".clew", ".claude", ".agents", "~/.clew/skills", "~/.claude/skills")
)
"""Configuration that a model may always read. User settings may hold keys, so they are not here."""


class Rule(Struct, frozen=True, cache_hash=True):
    """A tool, and which of its calls the rule matches."""

    tool: str
    pattern: str | None = None
    """None matches every call."""
    source: str = ""
    """Where the rule comes from, for messages: `project settings`, a path, a flag."""
    base: str = ""
    """The folder at which a pattern with one leading slash starts; empty for the project."""

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    @property
    def covers_all(self) -> bool:
        """Does the rule match every call of its tool?"""
        return self.pattern in (None, "*", "**")

    @property
    def prefix(self) -> str | None:
        """The text before a final `*` that also matches nothing, or None without one."""
        pattern = self.pattern or ""
        for ending in (_PREFIX, " *"):
            if pattern.endswith(ending):
                return pattern.removesuffix(ending).rstrip()
        return None

    @property
    def literal_words(self) -> tuple[str, ...]:
        """The words of the pattern without a wildcard."""
        pattern = (self.pattern or "").removesuffix(_PREFIX)
        return tuple(word for word in pattern.split() if not _WILD & set(word))


def parse_rule(text: str, *, source: str = "", base: str = "") -> Rule:
    """Parse `Tool` or `Tool(pattern)`.

    Raises:
        ConfigError: The rule is malformed or too long; the message quotes it.
    """
    if len(text) > MAX_RULE_LENGTH:
        raise ConfigError(
            f"{text[:40]!r}… is not a permission rule: it has more than {MAX_RULE_LENGTH:,}"
            " characters"
        )
    match = re.fullmatch(_RULE, text)
    if not match or (match[2] is not None and not match[2].strip()):
        raise ConfigError(f"{text!r} is not a permission rule: write Tool or Tool(pattern)")
    return Rule(match[1], None if match[2] is None else match[2].strip(), source, base)


def parse_allow_rule(text: str, *, source: str = "", base: str = "") -> Rule:
    """Parse a rule for the allow list, where the tool may have a wildcard only after its server.

    Raises:
        ConfigError: The rule is malformed, or its tool has a wildcard elsewhere than after the
            name of a server, as in `mcp__git__*`.
    """
    rule = parse_rule(text, source=source, base=base)
    if _WILD & set(rule.tool) and not re.fullmatch(_SERVER_GLOB, rule.tool):
        raise ConfigError(f"{text!r} allows tools of any server: write mcp__server__*")
    return rule


@lru_cache(maxsize=4096)
def names_tool(rule: Rule, tool: str) -> bool:
    """Does a deny or ask rule name this tool?"""
    if rule.tool == tool or rule.tool in _GUARDS.get(tool, ()):
        return True
    if rule.tool.startswith("mcp__") and tool.startswith(f"{rule.tool}__"):
        return True
    return bool(_WILD & set(rule.tool)) and _tool_glob(rule.tool).matches(tool)


def _may_allow(rule: Rule, tool: str) -> bool:
    """Can an allow rule match calls of this tool?"""
    if _WILD & set(rule.tool) and not re.fullmatch(_SERVER_GLOB, rule.tool):
        return False
    if rule.pattern is not None:
        if rule.tool == "Edit" and tool in EDITING:
            return True
        if rule.tool == "Read" and tool in READING:
            return True
    if tool == _PROCESS_INPUT and rule.tool != tool and not rule.covers_all:
        # The process may understand a line in another way than the shell does.
        return False
    return names_tool(rule, tool)


@lru_cache(maxsize=1024)
def select_allow_rules(rules: tuple[Rule, ...], tool: str) -> tuple[Rule, ...]:
    """Return the allow rules that can match calls of this tool."""
    return tuple(rule for rule in rules if _may_allow(rule, tool))


def guards_files(rule: Rule, tool: str, risk: Risk) -> bool:
    """Can a deny or ask rule match what this tool does to files?

    A rule against reading a file also applies to writing it, because a write can be inspected.
    """
    if names_tool(rule, tool):
        return True
    if rule.pattern is None:
        return False
    return rule.tool == "Read" or (risk is not Risk.INSPECT and rule.tool in EDITING)


@lru_cache(maxsize=1024)
def _tool_glob(pattern: str) -> Glob:
    return build_glob({"*": any_text, "?": any_char}.get(char, char) for char in pattern)
