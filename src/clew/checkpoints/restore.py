"""Restore files from checkpoints: read their states, plan, keep what is overwritten, apply.

`plan_restore` is a pure decision; `apply_steps` carries it out, each path atomically and
independently of the others.
"""

import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from clew.checkpoints.manifest import BeginRecord, Checkpoint
from clew.checkpoints.path_states import (
    AbsentState,
    FileState,
    FolderState,
    LinkState,
    PathState,
    UnkeptState,
    canonical_path,
    decode_path,
    decode_text,
    display_path,
    with_missing_folders,
)
from clew.checkpoints.storage import BlobStore, CheckpointStorage
from clew.checkpoints.values import RestoreResult, SkippedFile
from clew.core.errors import StoreDamaged
from clew.files.atomic import remove_empty_folder, replace_file, replace_with_link, sync_folder


class RestoreStep(Struct, frozen=True, kw_only=True):
    """One path to restore."""

    path: str
    now: PathState
    target: PathState


class RestoreRules(Struct, frozen=True, kw_only=True):
    """What a restore may do."""

    root: Path
    """The project folder."""
    force: bool = False
    """Also overwrite files that another program changed."""
    outside: bool = False
    """Also restore files outside the project folder."""


def restore(
    storage: CheckpointStorage,
    chosen: Sequence[Checkpoint],
    rules: RestoreRules,
    begin: BeginRecord,
) -> RestoreResult:
    """Restore files to their state before `chosen`; what that overwrites is kept first.

    Changes no file and begins no checkpoint when all states are as they should be. A restore
    that failed can be repeated.

    Args:
        storage: Where files are kept.
        chosen: The checkpoints to undo, oldest first.
        rules: What may be done.
        begin: The checkpoint for what is overwritten; it is still running at the end.

    Raises:
        OSError: What would be overwritten cannot be kept; no file was changed.
    """
    now = {path: storage.read_state(decode_path(path)) for turn in chosen for path in turn.kept}
    steps, skipped = plan_restore(chosen, now, rules)
    if not steps:
        return _result([], skipped)
    snapshot = storage.begin(begin)
    storage.keep(snapshot, [p for s in steps for p in with_missing_folders(decode_path(s.path))])
    kept = [replace(step, now=snapshot.kept[step.path]) for step in steps]
    if not rules.force:
        skipped += [_skip_changed(b.path) for a, b in zip(steps, kept, strict=True) if a != b]
        kept = [step for step in kept if step in steps]
    failed = apply_steps(kept, storage.blobs)
    lost = {skip.path for skip in failed}
    return _result([step for step in kept if step.path not in lost], [*skipped, *failed])


def plan_restore(
    chosen: Sequence[Checkpoint], now: Mapping[str, PathState], rules: RestoreRules
) -> tuple[list[RestoreStep], list[SkippedFile]]:
    """Decide how to return to the state before `chosen`, which are given oldest first.

    Args:
        chosen: The checkpoints to undo.
        now: The current state of each path they kept.
        rules: What may be done.
    """
    steps: list[RestoreStep] = []
    skipped: list[SkippedFile] = []
    for path, turns in _by_path(chosen).items():
        found, target = now[path], turns[0].kept[path]
        if found == target:
            continue
        if (refusal := _refusal(path, turns, found, rules)) is not None:
            skipped.append(refusal)
        else:
            steps.append(RestoreStep(path=path, now=found, target=target))
    return steps, skipped


def apply_steps(steps: Sequence[RestoreStep], blobs: BlobStore) -> list[SkippedFile]:
    """Carry out all steps, and return those that failed.

    First remove what must go, the deepest first. Then make folders from the top down and put
    files into them. Folders get their permissions last, as these may forbid writing.
    """
    failed: dict[str, SkippedFile] = {}

    def attempt(step: RestoreStep, action: Callable[[RestoreStep, Path], None]) -> None:
        path = decode_path(step.path)
        try:
            if step.path not in failed:
                action(step, path)
        except (OSError, StoreDamaged) as error:
            failed[step.path] = SkippedFile(path=step.path, why=_reason(error))

    deepest = sorted(steps, key=lambda step: len(decode_path(step.path).parts), reverse=True)
    for step in deepest:
        attempt(step, partial(_remove, blobs))
    for step in reversed(deepest):
        attempt(step, partial(_put, blobs))
    for step in deepest:
        attempt(step, _set_folder_mode)
    return list(failed.values())


def _by_path(chosen: Iterable[Checkpoint]) -> dict[str, list[Checkpoint]]:
    paths: dict[str, list[Checkpoint]] = {}
    for checkpoint in chosen:
        for path in checkpoint.kept:
            paths.setdefault(path, []).append(checkpoint)
    return paths


def _refusal(
    path: str, turns: Sequence[Checkpoint], found: PathState, rules: RestoreRules
) -> SkippedFile | None:
    target = turns[0].kept[path]
    if isinstance(target, UnkeptState):
        return SkippedFile(path=path, why=f"it was not kept: {target.why}")
    if not rules.outside and not decode_path(path).is_relative_to(rules.root):
        return SkippedFile(path=path, why="it is outside the project")
    if rules.force:
        return None
    if (why := _foreign_change(path, turns, found)) is not None:
        return SkippedFile(path=path, why=why, forceable=True)
    if isinstance(found, UnkeptState):
        why = f"its current content could not be brought back: {found.why}"
        return SkippedFile(path=path, why=why, forceable=True)
    return None


def _foreign_change(path: str, turns: Sequence[Checkpoint], found: PathState) -> str | None:
    """Return whether another program changed a path between two turns or since the last turn."""
    nexts = [*(turn.kept[path] for turn in turns[1:]), found]
    for turn, following in zip(turns, nexts, strict=True):
        left = turn.left.get(path)
        if left is None:
            return f"its state after checkpoint {turn.number} is not known"
        if left.state != following:
            return f"it was changed after checkpoint {turn.number} by another program"
    return None


def _remove(blobs: BlobStore, step: RestoreStep, path: Path) -> None:
    match step.now, step.target:
        case (
            (AbsentState(), _)
            | (FolderState(), FolderState())
            | (FileState() | LinkState() | UnkeptState(), FileState() | LinkState())
        ):
            return
        case FolderState(), FileState(digest=digest):
            blobs.read(digest)  # remove nothing before it is sure that the file can be restored
            remove_empty_folder(path)
        case FolderState(), _:
            remove_empty_folder(path)
        case _:
            path.unlink()
            sync_folder(path.parent)


def _put(blobs: BlobStore, step: RestoreStep, path: Path) -> None:
    match step.now, step.target:
        case (_, AbsentState() | UnkeptState()) | (FolderState(), FolderState()):
            return
        case FileState(digest=now), FileState(digest=then, mode=mode) if now == then:
            path.chmod(mode)
            return
        case _ if canonical_path(path) != path:
            raise OSError(errno.ELOOP, "its folder has become a link to another place")
        case _:
            path.parent.mkdir(parents=True, exist_ok=True)
    match step.target:
        case FileState(digest=digest, mode=mode):
            replace_file(path, blobs.read(digest), mode=mode)
        case LinkState(target=target):
            replace_with_link(path, decode_text(target))
        case FolderState():
            path.mkdir()
            sync_folder(path.parent)


def _set_folder_mode(step: RestoreStep, path: Path) -> None:
    if isinstance(step.target, FolderState):
        path.chmod(step.target.mode)


def _reason(error: OSError | StoreDamaged) -> str:
    if isinstance(error, StoreDamaged):
        return str(error)
    if error.errno == errno.ENOTEMPTY:
        return "other files are in that folder"
    return error.strerror or str(error)


def _skip_changed(path: str) -> SkippedFile:
    return SkippedFile(path=path, why="it was just changed by another process", forceable=True)


def _result(done: Sequence[RestoreStep], skipped: Sequence[SkippedFile]) -> RestoreResult:
    return RestoreResult(
        restored=tuple(display_path(step.path) for step in done),
        skipped=tuple(replace(skip, path=display_path(skip.path)) for skip in skipped),
    )
