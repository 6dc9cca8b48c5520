"""The folders of installed plugins: each is named by the hash of its content.

A plugin is fetched into a folder for work in progress, and renamed when it is complete: an
interrupted installation leaves nothing that could be loaded. Unused versions are removed
after a week, because open sessions may still run programs from it.
"""

import os
import shutil
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from secrets import token_hex

from anyio import CancelScope, to_thread

from clew.core.errors import ConfigError
from clew.extensions.plugins.content import GENERATED, compute_hash, find_generated
from clew.extensions.plugins.registry import InstalledPlugin
from clew.files.atomic import make_private_folder, sync_folder
from clew.files.locks import folder_lock, lock_descriptor

_UNUSED_SECONDS = 7 * 86_400.0
_WAIT = 60.0
"""Seconds to wait for a process that removes abandoned folders."""


class ContentChanged(ConfigError):
    """The files of a plugin are not those that the user installed."""


class PluginStorage:
    """The folders of plugins. Methods that are not async block.

    Args:
        folder: Clew's folder for plugins.
    """

    def __init__(self, folder: Path) -> None:
        self._content = folder / "content"
        self._staging = folder / "staging"

    @asynccontextmanager
    async def stage(self) -> AsyncIterator[Path]:
        """Make a folder for work in progress; it is removed at the end.

        Folders of processes that were killed are removed too.

        Raises:
            ConfigError: The folder cannot be made.
        """
        try:
            folder, handle = await to_thread.run_sync(self._open_stage)
        except OSError as error:
            raise ConfigError(
                f"{self._staging} cannot be written: {error.strerror or error}"
            ) from error
        try:
            yield folder
        finally:
            with CancelScope(shield=True):
                await to_thread.run_sync(_close_stage, folder, handle)

    def _open_stage(self) -> tuple[Path, int]:
        make_private_folder(self._staging)
        folder = self._staging / token_hex(8)
        with folder_lock(self._staging, timeout=_WAIT):
            self._remove_abandoned()
            folder.mkdir(mode=0o700)
            handle = _open_folder(folder)
            # Until it is closed, also by the end of the process, the folder is in use.
            lock_descriptor(handle, timeout=0)
        return folder, handle

    def keep(self, staged: Path, *, content: str, generated: Collection[str]) -> Path:
        """Move a complete plugin to its place; returns the folder.

        Args:
            staged: Its folder, in one of `stage`.
            content: The hash of its content.
            generated: Names of folders that its programs may have made since.

        Raises:
            OSError: It cannot be moved.
        """
        make_private_folder(self._content)
        target = self._content / content
        if target.exists() and not _has_content(target, content, generated):
            # Its files were changed: replace them by those that the user agrees to.
            remove_tree(target)
        try:
            staged.rename(target)
        except OSError:
            # It is there already, or another process was faster, with the same content.
            if not _has_content(target, content, generated):
                raise
            os.utime(target)
        sync_folder(self._content)
        return target

    def locate(self, plugin: InstalledPlugin) -> Path:
        """Return the folder of a plugin, without a look at its content."""
        return self._content / plugin.content

    def verify(self, plugin: InstalledPlugin) -> Path:
        """Return the folder of a plugin whose files are those that the user installed.

        Raises:
            ContentChanged: A file was changed, added or removed.
        """
        folder = self.locate(plugin)
        hint = f"repair it with: clew plugin update {plugin.id}"
        try:
            found = compute_hash(folder, ignored=plugin.generated)
        except FileNotFoundError as error:
            raise ContentChanged(f"the files of {plugin.id} are missing; {hint}") from error
        except (ConfigError, OSError) as error:
            raise ContentChanged(f"{plugin.id} cannot be checked ({error}); {hint}") from error
        if found != plugin.content:
            raise ContentChanged(
                f"the files of {plugin.id} were changed after you installed it, so it is not"
                f" loaded; {hint}"
            )
        return folder

    def remove_unused(self, used: Collection[str], *, released: Collection[str] = ()) -> None:
        """Remove contents that no plugin has used for a week.

        Args:
            used: The contents that are in use.
            released: Those that were in use until now; their week begins.
        """
        for name in released:
            with suppress(OSError):
                os.utime(self._content / name)
        with suppress(OSError):
            for folder in list(self._content.iterdir()):
                unused = folder.name not in used
                if unused and time.time() - folder.lstat().st_mtime > _UNUSED_SECONDS:
                    remove_tree(folder)

    def _remove_abandoned(self) -> None:
        with suppress(OSError):
            for folder in list(self._staging.iterdir()):
                _remove_if_abandoned(folder)


def list_missing_generated(folder: Path) -> tuple[str, ...]:
    """Return the names of folders that may appear in a plugin when its programs run."""
    return tuple(sorted(GENERATED - find_generated(folder)))


def remove_tree(folder: Path) -> None:
    """Remove a folder; what cannot be removed is left behind."""
    shutil.rmtree(folder, ignore_errors=True)


def _has_content(folder: Path, content: str, generated: Collection[str]) -> bool:
    try:
        return compute_hash(folder, ignored=generated) == content
    except (ConfigError, OSError):
        return False


def _close_stage(folder: Path, handle: int) -> None:
    remove_tree(folder)
    os.close(handle)


def _remove_if_abandoned(folder: Path) -> None:
    with suppress(OSError):
        handle = _open_folder(folder)
        try:
            lock_descriptor(handle, timeout=0)
        except TimeoutError:
            return
        finally:
            os.close(handle)
        remove_tree(folder)


def _open_folder(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
