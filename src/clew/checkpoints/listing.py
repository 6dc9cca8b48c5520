"""Checkpoints as a person picks one: when, after which words, and what was changed."""

from collections.abc import Callable

from clew.checkpoints.blobs import Blobs
from clew.checkpoints.lines import changed_lines
from clew.checkpoints.records import Checkpoint, Left
from clew.checkpoints.states import Absent, File, Folder, State, Unkept, load, real, shown
from clew.checkpoints.values import Change, FileChange, Summary
from clew.core.errors import StoreDamaged

__all__ = ["FileChange", "Summary", "compare", "summary"]


def compare(path: str, before: State, blobs: Blobs, *, limit: int) -> Left:
    """Return what stands at a path now, and by how many lines that differs from `before`."""
    state, data = load(real(path), limit=limit)
    if state == before:
        return Left(state=state, added=0, removed=0)
    if not isinstance(state, File | Absent) or not isinstance(before, File | Absent):
        return Left(state=state)
    try:
        old = blobs.read(before.digest) if isinstance(before, File) else b""
    except StoreDamaged:
        return Left(state=state)
    lines = changed_lines(old, data)
    return (
        Left(state=state) if lines is None else Left(state=state, added=lines[0], removed=lines[1])
    )


def summary(checkpoint: Checkpoint, left: Callable[[str, State], Left]) -> Summary:
    """Describe a checkpoint; `left` tells what stands at a path now, while it goes on."""
    files = []
    for path, before in checkpoint.kept.items():
        after = checkpoint.left.get(path) or left(path, before)
        if (change := _change(before, after.state)) is not None:
            files.append(
                FileChange(
                    path=shown(path),
                    change=change,
                    added=after.added,
                    removed=after.removed,
                    note=before.why if isinstance(before, Unkept) else "",
                )
            )
    return Summary(
        number=checkpoint.number,
        entry=checkpoint.first,
        cause=checkpoint.cause,
        at=checkpoint.at,
        words=checkpoint.words,
        files=tuple(files),
    )


def _change(before: State, after: State) -> Change | None:
    if before == after or {type(before), type(after)} <= {Absent, Folder}:
        return None
    if isinstance(before, Absent):
        return "created"
    return "deleted" if isinstance(after, Absent) else "changed"
