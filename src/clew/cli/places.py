"""Where Clew works, and where it keeps things on this machine."""

from pathlib import Path

from clew.core.errors import ConfigError
from clew.sdk.places import store_path, user_folder

__all__ = ["store_path", "user_folder", "working_folder"]


def working_folder() -> Path:
    """Return the folder that Clew works in.

    Raises:
        ConfigError: It was deleted, or may not be seen.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError(
            f"the working folder cannot be used ({error.strerror}); go to another one and try again"
        ) from error
