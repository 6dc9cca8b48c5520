"""Replacing a file in one step: who looks sees the old content or the new one, never a part.

The new content is written beside the file, forced to disk, and then takes its name. What a
crash can leave behind is a file of our own with a name that begins with a dot; it is removed
when the folder is next written to, once it is old enough to belong to nobody.
"""

import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from clew.tools.builtin.files import Unusable, why
from clew.tools.claims import claimed

__all__ = ["claimed", "replace"]

_PREFIX, _SUFFIX = ".clew-", ".tmp"
_STALE = 3_600.0
"""Seconds after which a temporary file belongs to a process that is gone."""


def replace(
    path: Path,
    data: bytes,
    shown: str,
    *,
    expected: bytes | None,
    before: Callable[[Path], None] | None = None,
) -> None:
    """Put `data` in place of the file at `path`, whole or not at all.

    A link is followed to its target. Mode, extended attributes and, where possible, owner
    of an existing file are kept; missing folders are made.

    Args:
        path: Where it is, or shall be.
        data: The new content.
        shown: How the model called it.
        expected: What the file holds now; None if it does not exist.
        before: Called before anything is changed; see `Place.before_change`.

    Raises:
        Unusable: It could not be done, or the file holds something else; what was there
            before is untouched.
    """
    try:
        target = path.resolve()
        facts = target.stat() if target.exists() else None
        _refuse_unwritable(target, facts, shown)
        if before is not None:
            before(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target.parent)
        temporary = target.parent / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        try:
            _write(temporary, data, target if facts else None)
            _refuse_changed(target, expected, shown)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync(target.parent)
    except (OSError, ValueError, RuntimeError) as error:
        raise Unusable(f"{shown} cannot be written: {why(error)}.") from error


def _refuse_unwritable(target: Path, facts: os.stat_result | None, shown: str) -> None:
    if facts is None:
        return
    if not stat.S_ISREG(facts.st_mode):
        raise Unusable(f"{shown} is not a regular file, so it cannot be written.")
    # A new file may take the name of one that must not be written.
    if not os.access(target, os.W_OK):
        raise Unusable(f"{shown} cannot be written: it is read-only.")


def _refuse_changed(target: Path, expected: bytes | None, shown: str) -> None:
    if (target.read_bytes() if target.exists() else None) != expected:
        raise Unusable(f"{shown} was changed just now by somebody else. Read it again.")


def _write(temporary: Path, data: bytes, model: Path | None) -> None:
    # 0o666 lets the kernel apply the umask; reading it in Python would race with threads.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    mode = 0o666 if model is None else 0o600
    with os.fdopen(os.open(temporary, flags, mode), "wb") as stream:
        stream.write(data)
        stream.flush()
        if model is not None:
            _take_after(stream.fileno(), model)
        os.fsync(stream.fileno())


def _take_after(handle: int, model: Path) -> None:
    facts = model.stat()
    with suppress(OSError):
        os.fchown(handle, facts.st_uid, facts.st_gid)
    os.fchmod(handle, stat.S_IMODE(facts.st_mode))
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(model):
                _copy_attribute(handle, model, name)


def _copy_attribute(handle: int, model: Path, name: str) -> None:
    # Labels that a policy gives out cannot be set by everybody.
    with suppress(OSError):
        os.setxattr(handle, name, os.getxattr(model, name))


def _sync(folder: Path) -> None:
    # Some file systems cannot sync a folder; the file itself is safe by then.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sweep(folder: Path) -> None:
    with suppress(OSError):
        names = [name for name in os.listdir(folder) if name.startswith(_PREFIX)]  # noqa: PTH208
        for path in (folder / name for name in names if name.endswith(_SUFFIX)):
            if time.time() - path.lstat().st_mtime > _STALE:
                path.unlink(missing_ok=True)
