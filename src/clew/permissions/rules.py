"""Rules such as `Read`, `Bash(pnpm *)` and `Read(/src/**)`, and what they match.

In a command or another text `*` stands for anything. In a path `*` stays within one
folder and `**` crosses folders. Paths are resolved before they are compared: `~`, `..`,
links, and the working folder for relative ones.
"""

import os
import re
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from clew.core.access import Access
from clew.core.errors import ConfigError

_RULE = re.compile(r"(?s)\s*([A-Za-z_][\w.-]*)\s*(?:\((.*)\))?\s*")
_PATH_TOKEN = re.compile(r"/\*\*$|\*\*/|\*\*|\*|\?|.", re.DOTALL)
_PREFIX = ":*"

DEFAULT_ALLOW: tuple[str, ...] = tuple(
    f"{tool}({folder}/**)"
    for tool in ("Read", "Glob", "Grep")
    for folder in (".clew", ".claude", ".agents", "~/.clew/skills", "~/.claude/skills")
)
"""Configuration a model may always read. A user's own settings hold keys, so they are not here."""


class Rule(Struct, frozen=True):
    """One tool, and which of its calls."""

    tool: str
    pattern: str | None = None
    """None for every call."""

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    @property
    def covers_all(self) -> bool:
        """Does it hold for every call of its tool?"""
        return self.pattern in (None, "*", "**")

    @property
    def literal_words(self) -> tuple[str, ...]:
        """The words of the pattern that hold no wildcard."""
        pattern = (self.pattern or "").removesuffix(_PREFIX)
        return tuple(word for word in pattern.split() if not set("*?") & set(word))


def parse(text: str) -> Rule:
    """Read `Tool` or `Tool(pattern)`.

    Raises:
        ConfigError: The rule is malformed; the message quotes it.
    """
    match = _RULE.fullmatch(text)
    if not match or (match[2] is not None and not match[2].strip()):
        raise ConfigError(f"{text!r} is not a permission rule: write Tool or Tool(pattern)")
    return Rule(match[1], None if match[2] is None else match[2].strip())


def matches_text(rule: Rule, text: str) -> bool:
    """Does the rule's pattern match the whole of `text`?"""
    return rule.covers_all or bool(_text_regex(rule.pattern or "").fullmatch(text))


def allows_path(rule: Rule, access: Access, cwd: Path) -> bool:
    """Does an allow rule match where the path really leads?

    A relative pattern is taken below the real working folder without following links: a
    link inside a project must not widen a rule.
    """
    if rule.covers_all:
        return True
    target = resolved(access.target, cwd)
    if target is None:
        return False
    pattern = _expanded(rule.pattern or "")
    anchored = _real_prefix(pattern) if pattern.startswith("/") else _below(pattern, cwd)
    return bool(_path_regex(anchored).fullmatch(str(target)))


def denies_path(rule: Rule, access: Access, cwd: Path) -> bool:
    """Does a deny rule match the path as it is written, or where it leads?"""
    if rule.covers_all:
        return True
    pattern = _below(_expanded(rule.pattern or ""), cwd)
    real = resolved(access.target, cwd)
    written = os.path.normpath(_below(_expanded(access.target), cwd))
    targets = {written} if real is None else {written, str(real)}
    regexes = [_path_regex(each) for each in {pattern, _real_prefix(pattern)}]
    return any(regex.fullmatch(target) for regex in regexes for target in targets)


def guards_below(rule: Rule, access: Access, cwd: Path) -> bool:
    """Is something the rule denies inside the folder that `access` is about?"""
    target = resolved(access.target, cwd)
    if target is None or not target.is_dir():
        return False
    pattern = _real_prefix(_below(_expanded(rule.pattern or ""), cwd))
    fixed = Path(_fixed_part(pattern))
    return fixed.is_relative_to(target) or (str(fixed) != pattern and target.is_relative_to(fixed))


def resolved(path: str, cwd: Path) -> Path | None:
    """Return where `path` leads, or None if that cannot be told."""
    try:
        return Path(_below(_expanded(path), cwd)).resolve()
    except (OSError, ValueError, RuntimeError):
        return None


def _expanded(path: str) -> str:
    if not path.startswith("~"):
        return path
    head, slash, rest = path.partition("/")
    try:
        return f"{Path(head).expanduser()}{slash}{rest}"
    except RuntimeError:
        return path


def _below(path: str, cwd: Path) -> str:
    return path if path.startswith("/") else f"{cwd.resolve()}/{path.removeprefix('./')}"


def _fixed_part(pattern: str) -> str:
    parts = pattern.split("/")
    fixed = next((at for at, part in enumerate(parts) if set("*?") & set(part)), len(parts))
    return "/".join(parts[:fixed]) or "/"


def _real_prefix(pattern: str) -> str:
    fixed = _fixed_part(pattern)
    try:
        real = str(Path(fixed).resolve())
    except (OSError, ValueError, RuntimeError):
        return pattern
    rest = pattern[len(fixed) :].lstrip("/")
    return f"{real.rstrip('/')}/{rest}" if rest else real


@lru_cache(maxsize=1024)
def _text_regex(pattern: str) -> re.Pattern[str]:
    ending = ""
    if pattern.endswith(_PREFIX):
        pattern, ending = pattern.removesuffix(_PREFIX), r"(?:\s.*)?"
    pieces = {"*": ".*", "?": "."}
    body = "".join(pieces.get(char, re.escape(char)) for char in re.sub(r"\*+", "*", pattern))
    return re.compile(body + ending, re.DOTALL)


@lru_cache(maxsize=1024)
def _path_regex(pattern: str) -> re.Pattern[str]:
    pieces = {"/**": "(?:/.*)?", "**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    normal = os.path.normpath(pattern)
    body = "".join(pieces.get(each, re.escape(each)) for each in _PATH_TOKEN.findall(normal))
    return re.compile(body, re.DOTALL)
