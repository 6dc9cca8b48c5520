"""Who may use the server, and how much: tokens, users, origins, limits, headers, audit log."""

from clew.server.access.access import AccessControl, get_user, record_session
from clew.server.access.options import AccessOptions, RequestLimits
from clew.server.access.tokens import load_token, replace_token
from clew.server.access.users import User, UsersFile

__all__ = [
    "AccessControl",
    "AccessOptions",
    "RequestLimits",
    "User",
    "UsersFile",
    "get_user",
    "load_token",
    "record_session",
    "replace_token",
]
