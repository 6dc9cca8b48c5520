"""Summaries of checkpoints for lists: the time, the prompt, and the changed lines of each file."""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from itertools import takewhile

from clew.checkpoints.manifest import Checkpoint, FinalState
from clew.checkpoints.path_states import (
    AbsentState,
    FileState,
    FolderState,
    PathState,
    UnkeptState,
    decode_path,
    display_path,
    read_state_and_content,
)
from clew.checkpoints.values import ChangeKind, CheckpointChange, CheckpointSummary
from clew.core.errors import StoreDamaged

_MOST_BYTES = 4_000_000
_MOST_LINES = 2_000
"""Above this many different lines, all of them count as changed: difflib is quadratic."""
_SAMPLE = 8_192


def summarize(
    checkpoint: Checkpoint, final_state: Callable[[str, PathState], FinalState]
) -> CheckpointSummary:
    """Return the summary of a checkpoint.

    Args:
        checkpoint: The checkpoint.
        final_state: Returns the current state of a path; used while the checkpoint is running.
    """
    files = []
    for path, before in checkpoint.kept.items():
        after = checkpoint.left.get(path) or final_state(path, before)
        if (change := _change(before, after.state)) is not None:
            files.append(
                CheckpointChange(
                    path=display_path(path),
                    change=change,
                    added=after.added,
                    removed=after.removed,
                    note=before.why if isinstance(before, UnkeptState) else "",
                )
            )
    return CheckpointSummary(
        number=checkpoint.number,
        entry=checkpoint.first,
        cause=checkpoint.cause,
        at=checkpoint.at,
        words=checkpoint.words,
        files=tuple(files),
    )


def compare(
    path: str, before: PathState, read_blob: Callable[[str], bytes], *, limit: int
) -> FinalState:
    """Return the current state of a path, and how many lines differ from `before`."""
    state, data = read_state_and_content(decode_path(path), limit=limit)
    if state == before:
        return FinalState(state=state, added=0, removed=0)
    if not isinstance(state, FileState | AbsentState):
        return FinalState(state=state)
    if not isinstance(before, FileState | AbsentState):
        return FinalState(state=state)
    try:
        old = read_blob(before.digest) if isinstance(before, FileState) else b""
    except StoreDamaged:
        return FinalState(state=state)
    added, removed = count_changed_lines(old, data) or (None, None)
    return FinalState(state=state, added=added, removed=removed)


def count_changed_lines(before: bytes, after: bytes) -> tuple[int, int] | None:
    """Return how many lines were added and removed; None for binary or very large files."""
    if max(len(before), len(after)) > _MOST_BYTES or _is_binary(before) or _is_binary(after):
        return None
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    head = _common_prefix(old, new)
    old, new = old[head:], new[head:]
    tail = _common_prefix(old[::-1], new[::-1])
    old, new = old[: len(old) - tail], new[: len(new) - tail]
    if max(len(old), len(new)) > _MOST_LINES:
        return len(new), len(old)
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    same = sum(block.size for block in blocks)
    return len(new) - same, len(old) - same


def _change(before: PathState, after: PathState) -> ChangeKind | None:
    if before == after or {type(before), type(after)} <= {AbsentState, FolderState}:
        return None
    if isinstance(before, AbsentState):
        return "created"
    return "deleted" if isinstance(after, AbsentState) else "changed"


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:_SAMPLE]


def _common_prefix(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
