"""Tokens, one-time login codes and signed cookies.

A token is 32 random bytes, so a plain hash of it is as good as a slow one. All comparisons take
the same time whatever they compare.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clew.core.errors import ConfigError
from clew.sdk.secret_files import read_secret_file, write_secret_file

CODE_SECONDS = 600.0
"""How long a login code is valid."""
COOKIE_SECONDS = 7 * 24 * 3600
_PREFIX = "clew_"
_TOKEN = re.compile(r"[!-~]{32,256}")
_COOKIE = re.compile(r"v1\.(\d{1,12})\.([0-9a-f]{64})\.([!-~]{0,128})")
_MAX_CODES = 64


def make_token() -> str:
    """Return a new random token."""
    return _PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return what may be stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def load_token(path: Path) -> str:
    """Return the token in a file; if there is no file, make one.

    Raises:
        ConfigError: Others can read the file, or it holds no token.
    """
    data = read_secret_file(path)
    if data is None:
        return replace_token(path)
    return check_token(data.decode("utf-8", "replace").strip(), str(path))


def replace_token(path: Path) -> str:
    """Put a new token into a file, and return it; the old one and its cookies are void.

    Raises:
        ConfigError: The file cannot be written.
    """
    token = make_token()
    write_secret_file(path, f"{token}\n".encode())
    return token


def check_token(token: str, source: str) -> str:
    """Return a token that is long enough not to be guessed.

    Raises:
        ConfigError: It is too short, or has other characters than visible ASCII.
    """
    if not _TOKEN.fullmatch(token):
        raise ConfigError(
            f"{source} holds no token of 32 to 256 visible ASCII characters; make a new one with:"
            " clew serve --new-token"
        )
    return token


def match_token(token: str, hashes: dict[str, str]) -> str | None:
    """Return the name whose hash is that of `token`; every hash is compared."""
    presented = hash_token(token)
    found = None
    for name, known in hashes.items():
        if hmac.compare_digest(presented, known):
            found = name
    return found


class LoginCodes:
    """Codes for a link that signs a browser in: each works once, for some minutes."""

    def __init__(self, clock: Callable[[], float], seconds: float = CODE_SECONDS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._codes: dict[str, float] = {}
        """Hashes of codes, and when they end; oldest first."""

    def make(self) -> str:
        """Return a new code."""
        code = secrets.token_urlsafe(24)
        self._codes[hash_token(code)] = self._clock() + self._seconds
        while len(self._codes) > _MAX_CODES:
            del self._codes[next(iter(self._codes))]
        return code

    def take(self, code: str) -> bool:
        """Return whether the code is valid; it never is again."""
        found = match_token(code, {known: known for known in self._codes})
        return found is not None and self._codes.pop(found) > self._clock()


@dataclass(frozen=True, slots=True)
class CookieSigner:
    """Makes and checks the value of the cookie, which names a user.

    Nothing is stored, so that a browser stays signed in when the server restarts and when another
    replica answers. A new token of the server or of the user makes the cookie void.
    """

    token: str
    """The server's token."""

    def sign(self, name: str, token_hash: str, *, now: float) -> str:
        """Return the cookie of a user."""
        end = int(now) + COOKIE_SECONDS
        return f"v1.{end}.{self._code(name, token_hash, end)}.{name}"

    def verify(self, cookie: str, hashes: dict[str, str], *, now: float) -> str | None:
        """Return the user that a cookie names, or None if it is not valid."""
        parts = _COOKIE.fullmatch(cookie)
        if parts is None:
            return None
        end, code, name = int(parts[1]), parts[2], parts[3]
        known = hashes.get(name, "")
        genuine = hmac.compare_digest(self._code(name, known, end), code)
        return name if genuine and known and now < end else None

    def _code(self, name: str, token_hash: str, end: int) -> str:
        text = f"cookie\n{end}\n{token_hash}\n{name}"
        return hmac.new(self.token.encode(), text.encode(), hashlib.sha256).hexdigest()
