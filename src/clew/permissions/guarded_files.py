"""Files of a project that decide what runs later: settings, hooks, agents, files of other tools.

A call that changes one of them needs an approval of its own, also in `acceptEdits` mode. Names are
compared without regard to case and invisible characters, because some file systems ignore them,
and links are followed in both directions.
"""

import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from clew.core.permissions import Access, Risk, TargetKind
from clew.permissions.paths import resolve
from clew.permissions.rules import Rule

GUARDED_FOLDERS = frozenset(
    (
        # Settings, hooks, agents, skills, commands and memory of Clew and Claude Code
        *(".clew", ".claude"),
        # Hooks and configuration of git, and of tools that run commands from a project
        *(".git", ".husky", ".vscode", ".idea", ".devcontainer"),
    )
)
"""Folders, at any depth."""
GUARDED_FILES = frozenset(
    (
        *("clew.toml", ".mcp.json", ".claude.json"),
        *(".gitconfig", ".gitmodules", ".envrc", ".pre-commit-config.yaml", ".ripgreprc"),
        *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zprofile", ".zshenv"),
    )
)
"""Files, at any depth."""
GUARDED_PAIRS = frozenset({(".agents", "agents"), (".agents", "skills")})
"""Folders in folders; the tasks in `.agents` are text that models may change."""
_SETTINGS = (
    *("clew.toml", ".mcp.json"),
    *(
        f"{folder}/settings{kind}.json"
        for folder in (".clew", ".claude")
        for kind in ("", ".local")
    ),
)
"""Files in the working directory that may be links to other files of the project."""


def find_guarded_part(path: Path, root: Path) -> str:
    """Return the guarded file or folder that a real path belongs to; empty for other files."""
    parts = [_simplify(part) for part in path.relative_to(root).parts]
    if parts and parts[-1] in GUARDED_FILES:
        return parts[-1]
    if folder := next((part for part in parts if part in GUARDED_FOLDERS), ""):
        return folder
    if pair := next((pair for pair in pairwise(parts) if pair in GUARDED_PAIRS), None):
        return "/".join(pair)
    return next((name for name, real in _iter_links(root) if path.is_relative_to(real)), "")


def is_guarded(access: Access, target: str, cwd: Path) -> bool:
    """Would this call change a guarded file?"""
    return bool(_guarded_part(access, target, cwd))


def names_guarded_part(rule: Rule, access: Access, target: str, cwd: Path) -> bool:
    """May an allow rule apply? A pattern must name a guarded file or folder to allow changes."""
    part = _guarded_part(access, target, cwd)
    if not part or rule.covers_all:
        return True
    named = [_simplify(each) for each in (rule.pattern or "").split("/")]
    return set(part.split("/")) <= set(named)


def _guarded_part(access: Access, target: str, cwd: Path) -> str:
    if access.risk is Risk.INSPECT or access.kind is not TargetKind.PATH:
        return ""
    path, root = resolve(target, cwd), cwd.resolve()
    return find_guarded_part(path, root) if path and path.is_relative_to(root) else ""


def _iter_links(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the guarded names of a folder that are links, with what they lead to."""
    for name in (*_SETTINGS, *GUARDED_FOLDERS):
        place = root / name
        try:
            if place.is_symlink():
                yield name, place.resolve()
        except (OSError, RuntimeError):
            continue


def _simplify(name: str) -> str:
    visible = (char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", "".join(visible)).casefold().rstrip(". ")
