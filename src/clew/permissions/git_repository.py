"""Whether reading a git repository runs nothing but git.

`git status` and `git diff` run programs that the settings of the repository name: a file system
monitor, filters, external diffs, hooks. A folder that was unpacked rather than cloned can bring
such settings. So only settings that are known to be harmless count, and submodules, which have
settings of their own, do not.
"""

import os
import re
from pathlib import Path

from clew.permissions.shell.programs import word_set

_MAX_CONFIG = 65_536
_MAX_INDEX = 32_000_000
_MAX_POINTER = 4_096
_SUBMODULE = b"\0\0\xe0\0"
"""The mode of an entry of the index that is a submodule."""
_SPARSE = b"sdir"

_SECTION = re.compile(r'\[([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\]\s*(?:[#;].*)?')
_SETTING = re.compile(r"([A-Za-z][\w-]*)\s*(?:=.*)?")
_HARMLESS: dict[str, frozenset[str]] = {
    "core": word_set("""
        repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks
        autocrlf eol safecrlf abbrev quotepath compression bigfilethreshold preloadindex longpaths
        protecthfs protectntfs commitgraph multipackindex whitespace
    """),
    "remote": word_set("url pushurl fetch tagopt prune mirror"),
    "branch": word_set("remote merge rebase pushremote description vscode-merge-base"),
    "submodule": word_set("url active"),
    "user": word_set("name email"),
    "pull": word_set("rebase ff"),
    "push": word_set("default autosetupremote followtags"),
    "fetch": word_set("prune prunetags"),
    "init": word_set("defaultbranch"),
    "gc": word_set("auto"),
    "commit": word_set("gpgsign"),
    "tag": word_set("gpgsign sort"),
    "log": word_set("decorate date abbrevcommit"),
    "status": word_set("short branch showuntrackedfiles"),
    "color": word_set("ui status branch diff"),
    "extensions": word_set("objectformat"),
    "lfs": word_set("repositoryformatversion"),
}
"""Settings that make git run nothing and read nothing elsewhere."""


def find_risk(folder: Path, root: Path) -> str:
    """Return why git may run a program or read elsewhere, or an empty string.

    Args:
        folder: The folder in which git starts.
        root: The working directory: a repository around it does not count.
    """
    try:
        found = _find_repository(folder, root)
        if found is None:
            return "there is no git repository in the working directory"
        return _inspect_repository(found)
    except (OSError, ValueError):
        return "the git repository cannot be inspected"


def _find_repository(folder: Path, root: Path) -> Path | None:
    """Return the `.git` file or folder that git would use."""
    for place in (folder, *folder.parents):
        if not place.is_relative_to(root):
            return None
        if os.path.lexists(place / ".git"):
            return place / ".git"
        if (place / "HEAD").exists() and (place / "objects").exists():
            # Git takes this folder itself for a repository.
            return place
    return None


def _inspect_repository(found: Path) -> str:
    if found.is_symlink():
        return "the git repository is a link"
    own, common = (found, found) if found.is_dir() else _follow_worktree(found)
    if common is own and (found.name != ".git" or (own / "commondir").exists()):
        return "the git repository is unusual"
    parts = ("config", "objects", "refs", "hooks")
    if any((common / part).is_symlink() for part in parts) or (own / "index").is_symlink():
        return "a part of the git repository is a link"
    if (common / "objects/info/alternates").exists():
        return "the git repository uses the objects of another one"
    if (common / "hooks/post-index-change").exists():
        return "a hook of the git repository may run"
    if setting := _find_setting(_read(common / "config", _MAX_CONFIG).decode()):
        return f"the setting {setting} of the git repository may run a program"
    return _find_submodules(own)


def _follow_worktree(file: Path) -> tuple[Path, Path]:
    """Return the folder of a worktree, and that of its repository, which must know the worktree.

    Raises:
        ValueError: The repository does not know it.
    """
    own = (file.parent / _read_pointer(file).removeprefix("gitdir: ")).resolve()
    common = (own / _read_pointer(own / "commondir")).resolve()
    known = Path(_read_pointer(own / "gitdir")).resolve() == file.resolve()
    if not known or own.parent != common / "worktrees":
        raise ValueError("the repository does not know this worktree")
    return own, common


def _read_pointer(file: Path) -> str:
    return _read(file, _MAX_POINTER).decode().strip()


def _read(file: Path, limit: int) -> bytes:
    if not file.is_file() or file.stat().st_size > limit:
        raise ValueError(f"{file} is not a regular file, or is too long")
    with file.open("rb") as stream:
        return stream.read(limit)


def _find_setting(text: str) -> str:
    """Return the first setting that is not known to be harmless, or an empty string."""
    section = ""
    for each in text.splitlines():
        line = each.strip()
        if not line or line.startswith(("#", ";")):
            continue
        if header := _SECTION.fullmatch(line):
            section = header[1].lower()
            continue
        setting = _SETTING.fullmatch(line)
        name = f"{section}.{setting[1].lower()}" if setting else line[:40]
        if (
            not setting
            or line.endswith("\\")
            or setting[1].lower() not in _HARMLESS.get(section, frozenset())
        ):
            return name
    return ""


def _find_submodules(own: Path) -> str:
    if any(own.glob("sharedindex.*")):
        return "the index of the git repository is split"
    index = own / "index"
    data = _read(index, _MAX_INDEX) if index.exists() else b""
    if _SUBMODULE in data or _SPARSE in data:
        return "the git repository has submodules, and their settings may run a program"
    return ""
