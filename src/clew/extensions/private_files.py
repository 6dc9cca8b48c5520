"""Small private files that several processes share: bounded reads, atomic writes, locks.

A project's folder may come from anywhere. So a link may not lead out of the folder that a file
belongs to, only regular files are opened, and large files are refused.
"""

import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from clew.core.errors import ConfigError, StoreUnavailable
from clew.files.atomic import make_private_folder, replace_file
from clew.files.locks import folder_lock
from clew.files.project_folder import keep_out_of_git
from clew.files.safe_read import NotRegularFile, read_regular

_TIMEOUT = 5.0
"""Seconds to wait for another process that writes."""


def resolve_inside(path: Path, *, inside: Path) -> Path:
    """Return `path` after following links.

    Raises:
        ConfigError: It leads out of `inside`, or the links form a circle.
    """
    try:
        found, home = path.resolve(), inside.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"{path} cannot be resolved: {error}. Remove the link.") from error
    if not found.is_relative_to(home):
        raise ConfigError(f"{path} is a link that leads out of {inside}. Use a real file.")
    return found


def read_bounded(path: Path, *, inside: Path, limit: int, whole: bool = True) -> bytes | None:
    """Return the content of a regular file, or None if it does not exist.

    Args:
        path: The file.
        inside: The folder that it must be in after following links.
        limit: The number of bytes to read at most.
        whole: Refuse a longer file; otherwise return its beginning.

    Raises:
        ConfigError: It leads out of `inside`, is not a regular file, or is too long.
        StoreUnavailable: It cannot be read.
    """
    target = resolve_inside(path, inside=inside)
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
    """Check whether `read_bounded` would accept a file, without reading it.

    Raises:
        ConfigError: It leads out of `inside`, is not a regular file, or is too long.
        StoreUnavailable: It cannot be accessed.
    """
    target = resolve_inside(path, inside=inside)
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
    """Write a file atomically; new files and folders are accessible to their owner only.

    An existing file keeps its mode.

    Raises:
        ConfigError: The path leads out of `inside`.
        StoreUnavailable: It cannot be written; the old content is unchanged.
    """
    target = resolve_inside(path, inside=inside)
    try:
        make_private_folder(target.parent)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
        replace_file(target, data, mode=mode)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be written: {error.strerror}.") from error


@contextmanager
def lock_folder(folder: Path, *, timeout: float = _TIMEOUT) -> Iterator[None]:
    """Lock an existing folder against other processes and threads that lock it too.

    Args:
        folder: The folder.
        timeout: Seconds to wait for another process.

    Raises:
        StoreUnavailable: The lock timed out, or the folder cannot be opened.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(folder_lock(folder, timeout=timeout))
        except TimeoutError as error:
            raise StoreUnavailable(
                f"{folder} is being changed by another process. Try again later."
            ) from error
        except OSError as error:
            raise StoreUnavailable(f"{folder} cannot be opened: {error.strerror}.") from error
        yield


@contextmanager
def create_and_lock(folder: Path, *, inside: Path) -> Iterator[None]:
    """Create a private folder if it does not exist, and lock it.

    Raises:
        ConfigError: It leads out of `inside`.
        StoreUnavailable: It cannot be created or opened, or the lock timed out.
    """
    home = resolve_inside(folder, inside=inside)
    try:
        with keep_out_of_git(home):
            make_private_folder(home)
    except OSError as error:
        raise StoreUnavailable(f"{folder} cannot be created: {error.strerror}.") from error
    with lock_folder(home):
        yield


def _not_regular(path: Path) -> ConfigError:
    return ConfigError(f"{path} is not a regular file. Move it away.")


def _check_size(size: int, path: Path, limit: int) -> None:
    if size > limit:
        raise ConfigError(f"{path} is larger than {limit:,} bytes. Shorten it or split it.")
