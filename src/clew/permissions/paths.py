"""Path patterns of rules, matched against the resolved path.

`~`, `..`, symbolic links and case are resolved first. For a file that does not exist yet, the
existing parent folders are resolved. In a pattern `*` stays within one folder and `**` crosses
folders.
"""

import os
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

from clew.permissions.globs import (
    Glob,
    GlobStep,
    alternatives,
    any_except,
    any_text,
    build_glob,
    char_class,
    char_except,
    literal,
    optional,
    optional_tail,
    segments,
)
from clew.permissions.rules import Rule

_TOKEN = re.compile(r"(?s)/\*\*$|\*\*/|\*\*|\*|\?|\\.|\[[^]/]+\]|.")
_STEPS: dict[str, GlobStep] = {
    "/**": optional_tail("/"),
    "**/": optional(segments("/")),
    "**": any_text,
    "*": any_except("/"),
    "?": char_except("/"),
}
_RANGE = re.compile(r"(?s)(.)-(.)|(.)")
_WILD = frozenset("*?[")
_ONE_FOLDER = re.compile(r"[^/]+/\*\*")


def resolve(path: str, folder: Path) -> Path | None:
    """Return the real path, or None if it cannot be resolved."""
    real = _real_path(_below(expand_home(path), str(folder)))
    return None if real is None else Path(real)


def allows_path(rule: Rule, path: str, cwd: Path) -> bool:
    """Does an allow rule match the real path?

    A pattern in the working directory is joined to the real directory without following further
    links: a link inside a project must not widen a rule.
    """
    if rule.covers_all:
        return True
    target = resolve(path, cwd)
    if target is None:
        return False
    return any(compile_glob(each).matches(str(target)) for each in _expand_allowed(rule, cwd))


def denies_path(rule: Rule, path: str, cwd: Path, *, fold: bool | None = None) -> bool:
    """Does a deny rule match the path as written, or the real path?

    Args:
        rule: The rule; one for a folder also matches everything in it.
        path: The path.
        cwd: Where relative paths start.
        fold: Whether to ignore case; None asks the file system.
    """
    if rule.covers_all:
        return True
    written = _normalize_path(path, cwd)
    real = _real_path(written)
    targets = {written} if real is None else {written, real}
    if fold is None:
        fold = folds_case((real or written).rpartition("/")[0])
    patterns = expand_denied(rule, cwd)
    return _matches(patterns, targets, fold=fold) or _matches(
        {resolve_prefix(each) for each in patterns} - patterns, targets, fold=fold
    )


def denies_within(rule: Rule, path: str, cwd: Path, *, existing: bool = True) -> bool:
    """May the folder at `path` contain something that the rule denies?

    Args:
        rule: The rule.
        path: The folder.
        cwd: Where relative paths start.
        existing: Whether only what exists counts.
    """
    target = resolve(path, cwd)
    if target is None or not (is_folder(target) or (not existing and not _exists(target))):
        return False
    patterns = expand_denied(rule, cwd)
    for pattern in patterns | {resolve_prefix(each) for each in patterns}:
        fixed = Path(find_fixed_part(pattern))
        if fixed.is_relative_to(target) and (not existing or _exists(fixed)):
            return True
        if str(fixed) != pattern and target.is_relative_to(fixed):
            return True
    return False


def denies_some(rule: Rule, pattern: str, cwd: Path) -> bool:
    """May a file name pattern in a command match something that the rule denies?"""
    written = _normalize_path(pattern, cwd)
    return any(
        _may_match(each, denied)
        for each in {written, resolve_prefix(written)}
        for denied in expand_denied(rule, cwd)
    )


def _may_match(pattern: str, denied: str) -> bool:
    if _WILD & set(denied):
        return _may_meet(pattern, denied)
    return compile_glob(pattern).matches(denied) or compile_glob(f"{pattern}/**").matches(denied)


def find_fixed_folder(pattern: str) -> str:
    """Return the folder that all matches of a file name pattern are in."""
    return find_fixed_part(pattern, otherwise="/" if pattern.startswith("/") else ".")


def is_folder(path: Path) -> bool:
    """Is there a folder at this path? False for a path that the system rejects."""
    try:
        return path.is_dir()
    except OSError:  # a name that is too long
        return False


@lru_cache(maxsize=512)
def folds_case(path: str) -> bool:
    """Does the file system ignore case at `path`?"""
    folder = Path(path)
    for each in (folder, *folder.parents):
        swapped = each.with_name(each.name.swapcase()) if each.name else each
        try:
            if swapped != each and each.exists():
                return swapped.exists() and each.samefile(swapped)
        except (OSError, ValueError):
            return False
    return False


def escape_glob(path: str) -> str:
    """Return a pattern that matches only `path`."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", path)


def _expand_allowed(rule: Rule, cwd: Path) -> Iterable[str]:
    pattern = _as_folder(rule.pattern or "")
    root = str(_real(cwd))
    if pattern.startswith("//"):
        yield resolve_prefix(pattern[1:])
    elif pattern.startswith("~"):
        yield resolve_prefix(expand_home(pattern))
    elif pattern.startswith("/"):
        yield f"{_real(Path(rule.base)) if rule.base else root}{pattern}"
    elif "/" not in pattern:
        yield f"{root}/**/{pattern}"
    else:
        yield _below(pattern, root)


def expand_denied(rule: Rule, cwd: Path) -> set[str]:
    """Return the absolute patterns that a deny rule stands for, in every reading of it."""
    pattern = _as_folder(rule.pattern or "")
    found = set(_expand_allowed(rule, cwd))
    root = str(_real(cwd))
    if pattern.startswith("//"):
        found.add(pattern[1:])
    elif pattern.startswith("~"):
        found.add(expand_home(pattern))
    elif pattern.startswith("/"):
        # One slash means the project's folder, but many users mean the root of the disk.
        found.add(pattern)
    elif _ONE_FOLDER.fullmatch(pattern) and not pattern.startswith("."):
        found.add(f"{root}/**/{pattern}")
    return {os.path.normpath(each) for each in found}


def _matches(patterns: Iterable[str], targets: Iterable[str], *, fold: bool) -> bool:
    return any(
        compile_glob(_fold_case(pattern, fold=fold), below=True).matches(
            _fold_case(each, fold=fold)
        )
        for pattern in patterns
        for each in targets
    )


def _normalize_path(path: str, cwd: Path) -> str:
    return os.path.normpath(_below(expand_home(path), str(_real(cwd))))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _real_path(path: str) -> str | None:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return None


def _as_folder(pattern: str) -> str:
    return f"{pattern}**" if pattern.endswith("/") else pattern


def _fold_case(text: str, *, fold: bool) -> str:
    return unicodedata.normalize("NFC", text).casefold() if fold else text


def _real(folder: Path) -> Path:
    return _resolve_folder(str(folder))


@lru_cache(maxsize=64)
def _resolve_folder(folder: str) -> Path:
    return Path(folder).resolve()


def expand_home(path: str) -> str:
    """Replace `~` at the beginning; a user that does not exist stays as written."""
    if not path.startswith("~"):
        return path
    head, slash, rest = path.partition("/")
    try:
        return f"{Path(head).expanduser()}{slash}{rest}"
    except RuntimeError:
        return path


def _below(path: str, folder: str) -> str:
    return path if path.startswith("/") else f"{folder}/{path.removeprefix('./')}"


def find_fixed_part(pattern: str, *, otherwise: str = "/") -> str:
    """Return the folders of a pattern before its first wildcard."""
    folders = pattern.split("/")
    fixed = next((at for at, part in enumerate(folders) if _WILD & set(part)), len(folders))
    return "/".join(folders[:fixed]) or otherwise


def resolve_prefix(pattern: str) -> str:
    """Follow the links in the part of a pattern before its first wildcard."""
    fixed = find_fixed_part(pattern)
    real = _real_path(fixed)
    if real is None:
        return pattern
    rest = pattern[len(fixed) :].lstrip("/")
    return f"{real.rstrip('/')}/{rest}" if rest else real


def _may_meet(one: str, other: str) -> bool:
    """May two patterns match the same path? Compares their literal beginnings and ends."""
    first, second = Path(find_fixed_part(one)), Path(find_fixed_part(other))
    if not (first.is_relative_to(second) or second.is_relative_to(first)):
        return False
    ends = [re.split(r"[*?\]]", each)[-1] for each in (one, other)]
    return ends[0].endswith(ends[1]) or ends[1].endswith(ends[0])


@lru_cache(maxsize=2048)
def compile_glob(pattern: str, *, below: bool = False) -> Glob:
    """Compile a path pattern; with `below`, everything in a matching folder matches too."""
    tokens = _TOKEN.findall(os.path.normpath(pattern))
    return build_glob([*map(_compile_token, tokens), *([optional_tail("/")] if below else [])])


def _compile_token(token: str) -> str | GlobStep:
    if token in _STEPS:
        return _STEPS[token]
    if len(token) == 2 and token[0] == "\\":
        return token[1]
    if len(token) > 2 and token[0] == "[":
        # Folders named `[id]` are as common as character classes: both meanings count.
        return alternatives(literal(token), char_class(_member_of(token[1:-1])))
    return token


def _member_of(letters: str) -> Callable[[str], bool]:
    """Return a test for a character class such as `a-z_`, or `!a-z` for all others."""
    ranges = [
        (first or single, last or single)
        for first, last, single in _RANGE.findall(letters.removeprefix("!"))
    ]

    def is_member(letter: str) -> bool:
        return any(first <= letter <= last for first, last in ranges)

    if letters.startswith("!"):
        return lambda letter: letter != "/" and not is_member(letter)
    return is_member
