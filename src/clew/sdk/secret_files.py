"""Small files that hold secrets: readable by their owner only, and never read through a link."""

import os
import stat
from pathlib import Path

from clew.core.errors import ConfigError
from clew.files.atomic import make_private_folder, replace_file

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LARGEST = 1 << 20


def read_secret_file(path: Path) -> bytes | None:
    """Return the content of a file that only its owner may read; None if there is no file.

    Raises:
        ConfigError: Others can read or change the file, it is not a file, or it cannot be read.
    """
    try:
        handle = os.open(path, _FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    try:
        _check_owner(path, os.fstat(handle))
        data = os.read(handle, _LARGEST + 1)
    finally:
        os.close(handle)
    if len(data) > _LARGEST:
        raise ConfigError(f"{path} is larger than {_LARGEST} bytes")
    return data


def _check_owner(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path} is not a regular file; remove it")
    if found.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"{path} belongs to another user; remove it or use another folder")
    if found.st_mode & 0o077:
        raise ConfigError(f"others can read {path}; run: chmod 600 {path}")


def write_secret_file(path: Path, data: bytes) -> None:
    """Put a file that only its owner may read; a reader sees the old or the new content.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        make_private_folder(path.parent)
        replace_file(path, data, mode=0o600)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
