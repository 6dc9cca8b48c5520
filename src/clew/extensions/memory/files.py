"""Small files that people and several processes share: read within bounds, replaced in one step.

A project's folder may come from anywhere. So nothing is followed out of the folder it belongs
to, nothing but a regular file is opened, and nothing large is read.
"""

import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from clew.core.errors import ConfigError, StoreUnavailable
from clew.files.atomic import make_private_folder, replace_file
from clew.files.locks import folder_lock
from clew.files.safe_read import NotRegularFile, read_regular

_PATIENCE = 5.0
"""Seconds to wait for another process that is writing."""


def real_path(path: Path, *, inside: Path) -> Path:
    """Return `path` with its links followed.

    Raises:
        ConfigError: It leads out of `inside`, or in a circle.
    """
    try:
        found, home = path.resolve(), inside.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"{path} cannot be followed: {error}. Remove that link.") from error
    if not found.is_relative_to(home):
        raise ConfigError(f"{path} is a link that leads out of {inside}. Put a real file there.")
    return found


def read_bounded(path: Path, *, inside: Path, limit: int, whole: bool = True) -> bytes | None:
    """Return what a regular file holds, or None when there is none.

    Args:
        path: The file.
        inside: The folder that it must be in once all links are followed.
        limit: How many bytes are read at most.
        whole: Refuse a longer file; otherwise its beginning is returned.

    Raises:
        ConfigError: It leads out of `inside`, is no regular file, or is too long.
        StoreUnavailable: It cannot be read.
    """
    target = real_path(path, inside=inside)
    try:
        data = read_regular(target, limit=limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotRegularFile as error:
        raise _not_regular(path) from error
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}.") from error
    if whole:
        _check_size(len(data), path, limit)
    return data[:limit]


def check_readable(path: Path, *, inside: Path, limit: int) -> None:
    """Look whether `read_bounded` would refuse a file, without reading it.

    Raises:
        ConfigError: It leads out of `inside`, is no regular file, or is too long.
        StoreUnavailable: It cannot be looked at.
    """
    target = real_path(path, inside=inside)
    try:
        facts = target.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}.") from error
    if not stat.S_ISREG(facts.st_mode):
        raise _not_regular(path)
    _check_size(facts.st_size, path, limit)


def write_private(path: Path, data: bytes, *, inside: Path) -> None:
    """Put `data` at `path` in one step; a new file or folder is for its owner alone.

    The mode of a file that is there already is kept.

    Raises:
        ConfigError: The path leads out of `inside`.
        StoreUnavailable: It cannot be written; what was there before is untouched.
    """
    target = real_path(path, inside=inside)
    try:
        make_private_folder(target.parent)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
        replace_file(target, data, mode=mode)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be written: {error.strerror}.") from error


@contextmanager
def held(folder: Path, *, patience: float = _PATIENCE) -> Iterator[None]:
    """Keep other processes and threads that ask in the same way out of an existing `folder`.

    Args:
        folder: What is kept.
        patience: How many seconds to wait for another who keeps it.

    Raises:
        StoreUnavailable: Somebody else has kept it for too long, or it cannot be opened.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(folder_lock(folder, timeout=patience))
        except TimeoutError as error:
            raise StoreUnavailable(
                f"{folder} is being changed by another process. Try again later."
            ) from error
        except OSError as error:
            raise StoreUnavailable(f"{folder} cannot be opened: {error.strerror}.") from error
        yield


@contextmanager
def made_and_held(folder: Path, *, inside: Path) -> Iterator[None]:
    """Make a folder for its owner alone if it is missing, and keep others out of it.

    Raises:
        ConfigError: It leads out of `inside`.
        StoreUnavailable: It cannot be made or opened, or somebody else keeps it.
    """
    home = real_path(folder, inside=inside)
    try:
        make_private_folder(home)
    except OSError as error:
        raise StoreUnavailable(f"{folder} cannot be made: {error.strerror}.") from error
    with held(home):
        yield


def _not_regular(path: Path) -> ConfigError:
    return ConfigError(f"{path} is not a regular file. Move it away.")


def _check_size(size: int, path: Path, limit: int) -> None:
    if size > limit:
        raise ConfigError(f"{path} is larger than {limit:,} bytes. Shorten it or split it.")
