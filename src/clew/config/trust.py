"""Which folders the user has accepted, and with which settings in them."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.core.errors import ConfigError
from clew.files.atomic import make_private_folder, replace_file
from clew.files.locks import file_lock

_PRIVATE_FILE = 0o600


class _Folder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    fingerprint: str
    declined: bool = False
    """True when the user said no to just these settings."""


class _Content(Struct, frozen=True, kw_only=True):
    version: int = 1
    folders: dict[str, _Folder] = {}


_decoder = msgspec.json.Decoder(_Content)


class Trust:
    """Keeps the accepted folders in a private file of the user; all methods block.

    A folder is accepted together with the content of its settings: when a byte of them
    changes, it is not accepted any more. Several processes may write at once.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def is_accepted(self, cwd: Path, fingerprint: str) -> bool:
        """Say whether the user has accepted the folder with just these settings.

        Raises:
            ConfigError: The file cannot be read.
        """
        return self._read().folders.get(_name(cwd)) == _Folder(fingerprint=fingerprint)

    def is_declined(self, cwd: Path, fingerprint: str) -> bool:
        """Say whether the user was asked about just these settings and said no.

        Raises:
            ConfigError: The file cannot be read.
        """
        known = self._read().folders.get(_name(cwd))
        return known == _Folder(fingerprint=fingerprint, declined=True)

    def decline(self, cwd: Path, fingerprint: str) -> None:
        """Remember that the user does not want to be asked about these settings again.

        Raises:
            ConfigError: The file cannot be read or written.
        """
        self._change(_name(cwd), _Folder(fingerprint=fingerprint, declined=True))

    def accept(self, cwd: Path, fingerprint: str) -> None:
        """Remember that the user accepts the folder with these settings, and no others.

        Raises:
            ConfigError: The file cannot be read or written.
        """
        self._change(_name(cwd), _Folder(fingerprint=fingerprint))

    def forget(self, cwd: Path) -> bool:
        """Accept the folder no longer; say whether it was accepted.

        Raises:
            ConfigError: The file cannot be read or written.
        """
        return self._change(_name(cwd), None)

    def _change(self, name: str, new: _Folder | None) -> bool:
        """Put one folder in or take it out; say whether it was there."""
        try:
            make_private_folder(self._file.parent)
            with file_lock(self._file):
                folders = dict(self._read().folders)
                before = folders.pop(name, None)
                if new is not None:
                    folders[name] = new
                if before != new:
                    self._write(_Content(folders=folders))
        except OSError as error:
            raise ConfigError(f"{self._file} cannot be written: {error.strerror}") from error
        return before is not None

    def _read(self) -> _Content:
        try:
            return _decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return _Content()
        except OSError as error:
            raise ConfigError(f"{self._file} cannot be read: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{self._file}, which says what folders you accepted, is damaged ({error});"
                " remove it, and you will be asked again"
            ) from error

    def _write(self, content: _Content) -> None:
        data = msgspec.json.format(msgspec.json.encode(content))
        replace_file(self._file, data, mode=_PRIVATE_FILE)


def _name(cwd: Path) -> str:
    """Return the real path as text that JSON can hold, whatever bytes it is made of."""
    return os.fsencode(cwd.resolve()).decode("utf-8", "backslashreplace")
