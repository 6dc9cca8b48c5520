"""Shell edits: the files that a shell command writes, edits, renames and removes.

What a command does to files by other means, such as a program of its own, is not known.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clew.context.digest.steps.shell_commands import (
    skip_git_options,
    split_command,
    split_words,
    strip_prefixes,
)


@dataclass(frozen=True, slots=True)
class FileEdit:
    """One change of one file."""

    path: str
    kind: str
    """`write`, `edit` or `delete`."""
    moved_to: str = ""
    """The new path of a file that was deleted because it was renamed."""


_CHANGES = re.compile(r"<<|\b(?:rm|mv|sed|perl)\s")
_HEREDOC = re.compile(r"\b(?:cat|tee)\b.*<<")
_HEREDOC_TARGET = re.compile(r"(?:>{1,2}|\btee(?: -a)?)[ \t]*['\"]?([^\s<>|;&()'\"]+)")
_IN_PLACE = re.compile(r"-[A-HJ-Za-z0-9]*i(?:$|\W)|-i|--in-place")
_TAKES_SCRIPT = re.compile(r"-[A-Za-z0-9]*e|-f|--expression|--file")
_TRIAL = frozenset({"--cached", "-n", "--dry-run"})
_TEMPORARY = ("/tmp/", "/private/", "/var/folders/", "/var/tmp/", "$")  # noqa: S108
_NOT_PLAIN = frozenset("*\"'`(){}?[]$<>&#;|")


def is_temporary(path: str) -> bool:
    """Return whether a path is in a folder for temporary files."""
    return path.startswith(_TEMPORARY)


def list_shell_edits(command: str) -> list[FileEdit]:
    """Return what a command does to files, in order; their paths as the command names them."""
    if not _CHANGES.search(command):
        return []
    found: list[FileEdit] = []
    folder: str | None = ""
    for part, _ in split_command(command):
        words = split_words(strip_prefixes(part))
        if words[:1] == ["cd"]:
            folder = _enter(folder, "".join(words[1:2]))
            continue
        changes = list(_list_changes(words))
        if "<<" in part and _HEREDOC.search(part):
            changes += [_name(path, "write") for path in _HEREDOC_TARGET.findall(part)]
        placed = (_place(change, folder) for change in changes)
        found += [change for change in placed if change is not None]
    return [change for change in found if not change.path.startswith("/dev/")]


def _enter(folder: str | None, target: str) -> str | None:
    """Return the folder after `cd`, relative to the first one; None if it is not known."""
    if target.startswith("/"):
        return target
    if folder is None or not target or not is_plain_path(target) or target[0] in "-~.":
        return None
    return f"{folder}/{target}".strip("/") if not folder.startswith("/") else f"{folder}/{target}"


def _place(change: FileEdit, folder: str | None) -> FileEdit | None:
    """Return a change with paths that do not depend on a folder; None if that is not known."""
    if not folder and folder is not None:
        return change
    paths = [path for path in (change.path, change.moved_to) if path]
    if all(path.startswith("/") for path in paths):
        return change
    if folder is None or is_temporary(f"{folder}/"):
        return None
    path, target = (
        path if not path or path.startswith("/") else f"{folder}/{path}"
        for path in (change.path, change.moved_to)
    )
    return FileEdit(path, change.kind, target)


def _name(path: str, kind: str, moved_to: str = "") -> FileEdit:
    return FileEdit(path.removeprefix("./"), kind, moved_to=moved_to.removeprefix("./"))


def _list_changes(words: Sequence[str]) -> Iterator[FileEdit]:
    """Yield the files that a simple command removes, renames or edits."""
    is_git = words[:1] == ["git"]
    folder = ""
    if is_git:
        words, folder = skip_git_options(words[1:])
    program, rest = (words[0], words[1:]) if words else ("", ())
    if is_git and (program not in {"rm", "mv"} or folder or _TRIAL.intersection(rest)):
        return
    if program == "rm":
        yield from (_name(path, "delete") for path in _list_operands(rest) if is_plain_path(path))
    elif program == "mv":
        yield from _list_renames(rest)
    elif program in {"sed", "perl"} and any(_IN_PLACE.match(word) for word in rest):
        yield from (_name(path, "edit") for path in _list_edited(rest) if is_plain_path(path))


def _list_operands(words: Sequence[str]) -> list[str]:
    """Return the words that are no options; after `--`, all are."""
    ended = words.index("--") if "--" in words else len(words)
    return [word for word in words[:ended] if word and word[0] != "-"] + list(words[ended + 1 :])


def _list_renames(words: Sequence[str]) -> Iterator[FileEdit]:
    paths = _list_operands(words)
    if any(word.startswith("--target-directory") for word in words):
        return
    if "-t" in words[:-1]:
        folder = words[words.index("-t") + 1]
        paths = [path for path in paths if path != folder] + [f"{folder.rstrip('/')}/"]
    if len(paths) < 2 or "-S" in words or not all(map(is_plain_path, paths)):
        return
    *sources, target = paths
    for source in sources:
        is_folder = len(sources) > 1 or _is_folder(target, source)
        new = _place_in(target, source) if is_folder else target
        yield _name(source, "delete", new)
        yield _name(new, "write")


def _is_folder(target: str, source: str) -> bool:
    name, last = source.rstrip("/").rpartition("/")[2], target.rpartition("/")[2]
    return last in {"", ".", ".."} or ("." in name[1:] and "." not in last)


def _place_in(folder: str, source: str) -> str:
    name = source.rstrip("/").rpartition("/")[2]
    return name if folder in {".", "./"} else f"{folder.rstrip('/')}/{name}"


def _list_edited(words: Sequence[str]) -> list[str]:
    """Return the files of `sed` or `perl`: the operands after the script."""
    given = [place for place, word in enumerate(words) if _TAKES_SCRIPT.fullmatch(word)]
    scripts = {place + 1 for place in given}
    operands = [
        word
        for place, word in enumerate(words)
        if word[:1] not in {"", "-"} and place not in scripts
    ]
    return operands if given else operands[1:]


def is_plain_path(word: str) -> bool:
    """Return whether a word of a command is a path without variables and patterns."""
    return word[:1] not in {"", "$"} and not word.isdigit() and not _NOT_PLAIN & {*word}
