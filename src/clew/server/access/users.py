"""Who uses the server: the owner, users with a token of their own, users that a proxy names.

Each user has a namespace: the server keeps the sessions of two users in separate stores.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.json_text import decode_json
from clew.sdk.secret_files import read_secret_file, write_secret_file
from clew.server.access.tokens import hash_token, make_token

USERS_FILE = "server-users.json"
"""In the user's folder."""
OWNER = "owner"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_PROXY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")


@dataclass(frozen=True, slots=True)
class User:
    """A user of the server."""

    name: str
    namespace: str = ""
    """A folder name that no other user has; empty for the owner, who has the usual stores."""


OWNER_USER = User(OWNER)


class UserRow(Struct, frozen=True, kw_only=True):
    """A user in the users file."""

    name: str
    token_sha256: str
    created: str = ""


class _Users(Struct, frozen=True, kw_only=True):
    version: int = 1
    users: tuple[UserRow, ...] = ()


def make_user(name: str) -> User:
    """Return the user of a name, with the namespace that belongs to it."""
    if name == OWNER:
        return OWNER_USER
    # The hash keeps apart what a file system that ignores case would join.
    mark = hashlib.sha256(name.encode()).hexdigest()[:12]
    return User(name, f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')[:40]}-{mark}")


def parse_proxy_user(name: str) -> User | None:
    """Return the user that a trusted proxy names, or None if the name is not a usual one.

    The owner's sessions are reached with the owner's token only. A user of the users file has the
    same sessions with a token and through the proxy.
    """
    return make_user(name) if _PROXY_NAME.fullmatch(name) and name != OWNER else None


class UsersFile:
    """The users file: names and hashes of tokens. A change counts from the next request on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._hashes: dict[str, str] = {}

    def read_hashes(self) -> dict[str, str]:
        """Return the hash of each user's token; the file is read again when it has changed.

        Raises:
            ConfigError: Others can read the file, or it is damaged.
        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._stamp, self._hashes = None, {}
            return self._hashes
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp != self._stamp:
            self._hashes = {row.name: row.token_sha256 for row in self.list_users()}
            self._stamp = stamp
        return self._hashes

    def list_users(self) -> tuple[UserRow, ...]:
        """Return the users by name.

        Raises:
            ConfigError: Others can read the file, or it is damaged.
        """
        data = read_secret_file(self._path)
        if data is None:
            return ()
        try:
            return decode_json(data, type=_Users).users
        except msgspec.DecodeError as error:
            raise ConfigError(f"{self._path} is damaged: {error}") from error

    def add(self, name: str) -> str:
        """Add a user, or give one a new token; return the token, which is stored nowhere.

        Raises:
            ConfigError: The name is not allowed, or the file cannot be written.
        """
        if not _NAME.fullmatch(name) or name == OWNER:
            raise ConfigError(
                f"{name!r} cannot be a user name: use 1 to 63 lower-case letters, digits, dots,"
                f" hyphens and underscores, but not {OWNER!r}"
            )
        token = make_token()
        row = UserRow(
            name=name,
            token_sha256=hash_token(token),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._write([*(user for user in self.list_users() if user.name != name), row])
        return token

    def remove(self, name: str) -> None:
        """Remove a user, whose token and cookies are void at once; the sessions stay stored.

        Raises:
            ConfigError: There is no such user, or the file cannot be written.
        """
        users = self.list_users()
        kept = [user for user in users if user.name != name]
        if len(kept) == len(users):
            raise ConfigError(f"there is no user {name!r}; list them with: clew serve user list")
        self._write(kept)

    def _write(self, users: list[UserRow]) -> None:
        rows = _Users(users=tuple(sorted(users, key=lambda user: user.name)))
        text = msgspec.json.format(msgspec.json.encode(rows), indent=2)
        write_secret_file(self._path, text + b"\n")
