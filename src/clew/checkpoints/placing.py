"""Carrying a plan out: putting paths back, each in one step, whatever happens to the others."""

import errno
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from clew.checkpoints.blobs import Blobs
from clew.checkpoints.plan import Step
from clew.checkpoints.states import (
    Absent,
    File,
    Folder,
    Link,
    Unkept,
    canonical,
    real,
    unnamed,
)
from clew.checkpoints.values import Skipped
from clew.core.errors import StoreDamaged
from clew.files.atomic import (
    remove_empty_folder,
    replace_file,
    replace_with_link,
    sync_folder,
)


def carry_out(steps: Sequence[Step], blobs: Blobs) -> list[Skipped]:
    """Do all steps, and return those that failed.

    What must go goes first, the deepest before the folder that holds it. Then folders are
    made from the top down, and files put into them. At last folders get their modes, as these
    may forbid to write there.
    """
    failed: dict[str, Skipped] = {}

    def attempt(step: Step, action: Callable[[Step, Path], None]) -> None:
        path = real(step.path)
        try:
            if step.path not in failed:
                action(step, path)
        except (OSError, StoreDamaged) as error:
            failed[step.path] = Skipped(path=step.path, why=_why(error))

    deepest = sorted(steps, key=lambda step: len(real(step.path).parts), reverse=True)
    for step in deepest:
        attempt(step, partial(_make_way, blobs))
    for step in reversed(deepest):
        attempt(step, partial(_put, blobs))
    for step in deepest:
        attempt(step, _finish)
    return list(failed.values())


def _make_way(blobs: Blobs, step: Step, path: Path) -> None:
    match step.now, step.target:
        case (Absent(), _) | (Folder(), Folder()) | (File() | Link() | Unkept(), File() | Link()):
            return
        case Folder(), File(digest=digest):
            blobs.read(digest)  # nothing goes before it is sure that something can come
            remove_empty_folder(path)
        case Folder(), _:
            remove_empty_folder(path)
        case _:
            path.unlink()
            sync_folder(path.parent)


def _put(blobs: Blobs, step: Step, path: Path) -> None:
    match step.now, step.target:
        case (_, Absent() | Unkept()) | (Folder(), Folder()):
            return
        case File(digest=now), File(digest=then, mode=mode) if now == then:
            path.chmod(mode)
            return
        case _ if canonical(path) != path:
            raise OSError(errno.ELOOP, "its folder has become a link to another place")
        case _:
            path.parent.mkdir(parents=True, exist_ok=True)
    match step.target:
        case File(digest=digest, mode=mode):
            replace_file(path, blobs.read(digest), mode=mode)
        case Link(target=target):
            replace_with_link(path, unnamed(target))
        case Folder():
            path.mkdir()
            sync_folder(path.parent)


def _finish(step: Step, path: Path) -> None:
    if isinstance(step.target, Folder):
        path.chmod(step.target.mode)


def _why(error: OSError | StoreDamaged) -> str:
    if isinstance(error, StoreDamaged):
        return str(error)
    if error.errno == errno.ENOTEMPTY:
        return "other files are in that folder"
    return error.strerror or str(error)
