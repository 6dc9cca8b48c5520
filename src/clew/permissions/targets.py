"""The files that a call refers to now: a decision holds only as long as they stay the same."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from clew.core.permissions import Access, TargetKind
from clew.permissions.command_files import follow_cd
from clew.permissions.grants import is_command
from clew.permissions.paths import resolve
from clew.permissions.shell.parser import parse_line


def find_targets(access: Access, cwd: Path) -> tuple[str, ...]:
    """Return the real paths that a call would use; links are followed.

    Compare the result with an earlier one to see whether a folder was replaced by a link.
    """
    found: Iterable[Path | None] = ()
    if access.kind is TargetKind.PATH:
        found = (resolve(target, cwd) for target in access.targets)
    elif is_command(access):
        found = _find_in_lines(access, cwd)
    return tuple(str(path) for path in found if path is not None) if found else ()


def _find_in_lines(access: Access, cwd: Path) -> Iterator[Path | None]:
    for target in access.targets:
        line = parse_line(target)
        dirs = follow_cd(line, cwd, access.start)
        yield from dirs.folders
        for file in line.files:
            if file.path.known:
                yield from (resolve(place, cwd) for place in dirs.resolve(file.path.text))
