"""Runs shell lines one after the other in a folder, and prints the files that each touched.

A program of its own, because it runs inside the sandbox. It reads a request as JSON from a file:
the folder to copy and the lines. After each line it restores the copy, and the folder `outside`
beside it. A file is touched if its
content, kind or permissions changed, or if it was read: reading updates the access time, which is
set to the beginning of time before.
"""

import ctypes
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_SECONDS = 2
_SET_CHILD_SUBREAPER = 36
MODIFIED = 1_000_000_000
OUTSIDE = "keep"
"""The folder of the template that is also beside the copy."""


def main(request: Path) -> None:
    """Run the lines of a request in the folder beside it, and print one result per line."""
    asked = json.loads(request.read_text())
    template, folder = Path(asked["template"]), request.with_suffix(".work")
    outside = folder.parent / "outside"
    adopt_children()
    make_folder(folder, template)
    make_folder(outside, template / OUTSIDE)
    before, repository = look(folder), look(folder / ".git")
    before_outside = look(outside)
    for line in asked["lines"]:
        run(line, folder)
        touched = compare(before, look(folder))
        elsewhere = compare(before_outside, look(outside))
        found = {
            how: touched[how] + [f"../outside/{name}" for name in elsewhere[how]] for how in touched
        }
        print(json.dumps(found), flush=True)
        if compare(repository, look(folder / ".git"))["written"]:
            _remove(folder / ".git")
            shutil.copytree(template / ".git", folder / ".git", symlinks=True)
            repository = look(folder / ".git")
        if touched["written"] or touched["read"]:
            restore(folder, template, touched)
            before = look(folder)
        if elsewhere["written"] or elsewhere["read"]:
            make_folder(outside, template / OUTSIDE)
            before_outside = look(outside)


def make_folder(folder: Path, template: Path) -> None:
    """Copy the template; no file of the copy was ever read."""
    _remove(folder)
    shutil.copytree(template, folder, symlinks=True)
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            os.utime(Path(at) / name, (0, MODIFIED), follow_symlinks=False)


def restore(folder: Path, template: Path, touched: Mapping[str, list[str]]) -> None:
    """Undo what a line did to the folder."""
    for name in touched["read"]:
        os.utime(folder / name, (0, MODIFIED))
    changed = touched["written"]
    for name in changed:
        if not any(name.startswith(f"{other}/") for other in changed):
            original = template / name
            _remove(folder / name)
            if original.is_dir() and not original.is_symlink():
                make_folder(folder / name, original)
            elif os.path.lexists(original):
                shutil.copy2(original, folder / name, follow_symlinks=False)
                os.utime(folder / name, (0, MODIFIED), follow_symlinks=False)


def _remove(path: Path) -> None:
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    path.chmod(0o700)
    for at, folders, _ in os.walk(path):
        for name in folders:
            if not (Path(at) / name).is_symlink():
                (Path(at) / name).chmod(0o700)
    shutil.rmtree(path)


def look(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return kind, permissions, times and content of every path but git's own folder."""
    found: dict[str, tuple[Any, ...]] = {}
    if not folder.is_dir() or folder.is_symlink():
        return found
    folder.chmod(0o700)
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*folders, *names):
            path = Path(at) / name
            try:
                facts = path.lstat()
            except PermissionError:  # the line changed the permissions of the folder
                continue
            content: object = None
            if stat.S_ISLNK(facts.st_mode):
                content = os.readlink(path)  # noqa: PTH115
            elif stat.S_ISREG(facts.st_mode):
                content = (facts.st_size, facts.st_mtime_ns, facts.st_ino)
            times = facts.st_atime_ns if stat.S_ISREG(facts.st_mode) else 0
            found[str(path.relative_to(folder))] = (facts.st_mode, content, times)
    return found


def compare(
    before: Mapping[str, tuple[Any, ...]], after: Mapping[str, tuple[Any, ...]]
) -> dict[str, list[str]]:
    """Return the paths that were written, and those that were only read."""
    changed = [
        path
        for path in before.keys() | after.keys()
        if before.get(path, ())[:2] != after.get(path, ())[:2]
    ]
    read = [path for path in after if path not in changed and after[path] != before[path]]
    return {"written": sorted(changed), "read": sorted(read)}


def run(line: str, folder: Path) -> None:
    """Run a line with bash, without input; whatever still runs is killed."""
    process = subprocess.Popen(
        ["bash", "-c", line],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        end_children()


def adopt_children() -> None:
    """Become the parent of processes whose own parent ends."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """Kill what lines left in the background, so that it does not disturb the next one."""
    while children := Path("/proc/thread-self/children").read_text().split():
        for child in map(int, children):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
