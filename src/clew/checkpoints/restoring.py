"""Taking checkpoints back: look, decide, keep what will be overwritten, carry out."""

from collections.abc import Sequence

from msgspec.structs import replace

from clew.checkpoints.placing import carry_out
from clew.checkpoints.plan import Rules, Step, plan
from clew.checkpoints.records import Began, Checkpoint
from clew.checkpoints.shelf import Shelf
from clew.checkpoints.states import real, shown, with_folders
from clew.checkpoints.values import Restored, Skipped

__all__ = ["Restored", "restore"]


def restore(shelf: Shelf, chosen: Sequence[Checkpoint], rules: Rules, began: Began) -> Restored:
    """Bring files back to the state before `chosen`; what that overwrites is kept first.

    Does nothing to files, and begins no checkpoint, when all is as it should be. Whatever
    fails can be tried again: what was restored is then found to be so.

    Args:
        shelf: Where files are kept.
        chosen: What to take back, oldest first.
        rules: What may be done.
        began: The checkpoint that will hold what is overwritten; still open at the end.

    Raises:
        OSError: What would be overwritten cannot be kept; no file was changed.
    """
    now = {path: shelf.examine(real(path)) for turn in chosen for path in turn.kept}
    steps, skipped = plan(chosen, now, rules)
    if not steps:
        return _report([], skipped)
    snapshot = shelf.begin(began)
    shelf.keep(snapshot, [p for step in steps for p in with_folders(real(step.path))])
    kept = [replace(step, now=snapshot.kept[step.path]) for step in steps]
    if not rules.force:
        skipped += [_just_changed(b.path) for a, b in zip(steps, kept, strict=True) if a != b]
        kept = [step for step in kept if step in steps]
    failed = carry_out(kept, shelf.blobs)
    lost = {skip.path for skip in failed}
    return _report([step for step in kept if step.path not in lost], [*skipped, *failed])


def _just_changed(path: str) -> Skipped:
    return Skipped(path=path, why="it was changed just now by somebody else", forceable=True)


def _report(done: Sequence[Step], skipped: Sequence[Skipped]) -> Restored:
    return Restored(
        restored=tuple(shown(step.path) for step in done),
        skipped=tuple(replace(skip, path=shown(skip.path)) for skip in skipped),
    )
