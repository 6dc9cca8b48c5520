"""How much is kept, and what goes first."""

from collections.abc import Iterable, Sequence

from clew.checkpoints.records import Checkpoint
from clew.checkpoints.states import File
from clew.checkpoints.values import DEFAULT_LIMITS, Limits

__all__ = ["DEFAULT_LIMITS", "Limits", "digests", "surplus"]


def surplus(checkpoints: Sequence[Checkpoint], limits: Limits) -> int:
    """Return how many of the oldest checkpoints must go; never the newest."""
    seen: set[str] = set()
    total = 0
    for count, checkpoint in enumerate(reversed(checkpoints)):
        for file in _files(checkpoint):
            total += 0 if file.digest in seen else file.size
            seen.add(file.digest)
        if count and (count >= limits.checkpoints or total > limits.total_bytes):
            return len(checkpoints) - count
    return 0


def digests(checkpoints: Iterable[Checkpoint]) -> set[str]:
    """Return the names of all contents that the checkpoints need."""
    return {file.digest for checkpoint in checkpoints for file in _files(checkpoint)}


def _files(checkpoint: Checkpoint) -> list[File]:
    return [state for state in checkpoint.kept.values() if isinstance(state, File)]
