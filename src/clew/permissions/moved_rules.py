"""Rules for a copy of a project, such as a git worktree: what is forbidden stays forbidden there.

A rule with a relative pattern holds in the copy by itself. One with an absolute pattern names files
of the project, and the copy has the same files elsewhere.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from clew.permissions.paths import expand_denied
from clew.permissions.rules import Rule

_ABSOLUTE = ("/", "~")


def add_moved_rules(rules: Iterable[Rule], source: Path, target: Path) -> tuple[Rule, ...]:
    """Return deny or ask rules with those added that they stand for in a copy.

    Args:
        rules: The rules.
        source: A folder of the project.
        target: The same folder of the copy; the same rules are returned if it is `source`.
    """
    rules = tuple(rules)
    if source == target:
        return rules
    old, new = _find_roots(Path(os.path.realpath(source)), Path(os.path.realpath(target)))
    moved = (
        replace(rule, pattern=f"/{new}{pattern.removeprefix(str(old))}", base="")
        for rule in rules
        if (rule.pattern or "").startswith(_ABSOLUTE)
        for pattern in sorted(expand_denied(rule, source))
        if pattern.startswith(f"{old}/")
    )
    return (*rules, *moved)


def _find_roots(source: Path, target: Path) -> tuple[Path, Path]:
    """Return the outermost folders above two folders of the same relative path."""
    while source.name and source.name == target.name:
        source, target = source.parent, target.parent
    return source, target
