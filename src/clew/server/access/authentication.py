"""Who sends a request: the bearer of a token, a browser with the cookie, a user behind a proxy."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from clew.core.errors import AccessDenied, ConfigError, NotAuthenticated
from clew.server.access.options import AccessOptions
from clew.server.access.origins import Client, check_origin
from clew.server.access.tokens import CookieSigner, hash_token, match_token
from clew.server.access.users import OWNER, User, UsersFile, make_user, parse_proxy_user

logger = logging.getLogger(__name__)

_BEARER = re.compile(r"(?i:bearer) +([!-~]{1,512})")
_HOW = (
    "open the link that `clew serve` prints, or send the token: Authorization: Bearer TOKEN"
    " (it is in server.token in your clew folder)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a request brings to show who sends it."""

    method: str
    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    websocket: bool = False

    @property
    def may_be_from_browser(self) -> bool:
        """False only for a request that no browser sends: each WebSocket of one has an origin."""
        has_source = "Origin" in self.headers or "Sec-Fetch-Site" in self.headers
        return has_source or self.websocket


class Authenticator:
    """Knows the tokens of all users."""

    def __init__(self, options: AccessOptions, clock: Callable[[], float]) -> None:
        self._owner_hash = hash_token(options.token)
        self._signer = CookieSigner(options.token)
        self._users = UsersFile(options.users_file) if options.users_file else None
        self._user_header = options.user_header
        self._clock = clock

    def find_user(self, client: Client, credentials: Credentials) -> User:
        """Return who sends a request.

        A browser sends the cookie, and what signs it in to a proxy, with requests of any page:
        for these the page must be the server's own.

        Raises:
            NotAuthenticated: Nothing shows it, or it is wrong.
            AccessDenied: A page of another site made the browser send the request.
        """
        if self._user_header and client.proxied and self._user_header in credentials.headers:
            user = self._find_proxy_user(credentials.headers[self._user_header])
            if credentials.may_be_from_browser:
                _check_page(client, credentials)
            return user
        header = credentials.headers.get("Authorization")
        if header is not None:
            token = _BEARER.fullmatch(header.strip())
            name = self.find_by_token(token[1]) if token else None
            if name is None:
                raise NotAuthenticated(f"the token is wrong: {_HOW}")
            if credentials.websocket and "Origin" in credentials.headers:
                _check_page(client, credentials)
            return make_user(name)
        user = self._find_cookie_user(client, credentials.cookies)
        _check_page(client, credentials)
        return user

    def find_by_token(self, token: str) -> str | None:
        """Return the name of the user with this token."""
        return match_token(token, self._read_hashes())

    def make_cookie(self, name: str) -> str:
        """Return the value of the cookie of a user."""
        return self._signer.sign(name, self._read_hashes()[name], now=self._clock())

    def _find_proxy_user(self, name: str) -> User:
        user = parse_proxy_user(name)
        if user is None:
            raise AccessDenied(
                "the proxy names a user that cannot be one: use up to 128 letters, digits and"
                f" . _ @ + -, but not {OWNER!r}"
            )
        return user

    def _find_cookie_user(self, client: Client, cookies: Mapping[str, str]) -> User:
        cookie = cookies.get(name_cookie(client))
        if cookie is None:
            raise NotAuthenticated(f"this needs a token: {_HOW}")
        name = self._signer.verify(cookie, self._read_hashes(), now=self._clock())
        if name is None:
            raise NotAuthenticated(f"you are signed out: {_HOW}")
        return make_user(name)

    def _read_hashes(self) -> dict[str, str]:
        """Return the hashes of all users; only the owner's if the users file cannot be read."""
        try:
            users = self._users.read_hashes() if self._users else {}
        except ConfigError as error:
            logger.warning("no user but the owner can sign in: %s", error)
            users = {}
        return {**users, OWNER: self._owner_hash}


def _check_page(client: Client, credentials: Credentials) -> None:
    check_origin(client, credentials.method, credentials.headers, websocket=credentials.websocket)


def name_cookie(client: Client) -> str:
    """Return the name of the cookie: browsers share cookies between the ports of a host."""
    prefix = "__Host-" if client.scheme == "https" else ""
    return f"{prefix}clew-{client.port}"
