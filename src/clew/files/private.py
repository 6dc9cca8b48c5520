"""Folders for what is nobody else's business."""

from pathlib import Path


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone.

    Raises:
        OSError: It cannot be done.
    """
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
