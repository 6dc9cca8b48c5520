"""`clew serve`: serve sessions over HTTP until the process is ended."""

import atexit
import gc
import logging
import os
import signal
import sys
import webbrowser
from argparse import Namespace
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from msgspec.structs import replace

from clew.cli.arguments import session_spec
from clew.cli.environment import own_environment
from clew.cli.streams import print_line, write_err
from clew.core.errors import ConfigError
from clew.core.sanitize import sanitize_line
from clew.sdk.folders import Homes
from clew.sdk.remote.connection import is_loopback
from clew.sdk.server_values import TOKEN_FILE
from clew.server.access import AccessOptions, RequestLimits, UsersFile, load_token, replace_token
from clew.server.access.audit import AUDIT_FILE
from clew.server.access.connections import raise_file_limit
from clew.server.access.origins import parse_networks
from clew.server.access.users import USERS_FILE
from clew.server.options import ReplicaOptions, ServerOptions
from clew.server.run import run_server
from clew.tui.signals import ending_signals

_SHOWN = 200
_TLS_NOTE = (
    "WARNING: other machines can reach this address, and HTTP is not encrypted: put a proxy with"
    " TLS in front (see docs/server-access.md for Caddy and nginx), or use --host 127.0.0.1"
)
_SESSION_FLAGS = {
    "latest": "--continue",
    "resume": "--resume",
    "fork": "--fork",
    "connect": "--connect",
}


def run_serve(arguments: Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM, or manage the users; returns the exit code."""
    if arguments.action == "user":
        return run_serve_user(arguments)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if "CLEW_DEBUG" in os.environ else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    options = _make_options(arguments)
    # All is closed by then: looking for garbage would take longer than stopping the server.
    atexit.register(gc.freeze)
    backend = {"use_uvloop": find_spec("uvloop") is not None}
    return anyio.run(_serve, options, arguments.open, backend_options=backend)


async def _serve(options: ServerOptions, open_page: bool) -> int:  # noqa: FBT001 - one caller
    with anyio.open_signal_receiver(signal.SIGINT, *ending_signals()) as received:
        async with run_server(options) as server:
            roots = ", ".join(options.roots or (options.defaults.cwd,))
            write_err(f"serving sessions of {sanitize_line(roots, _SHOWN)}")
            write_err(f"open {(link := server.make_login_link())}  (works once)")
            token_file = sanitize_line(str(_find_token(options.environ)), _SHOWN)
            write_err(f"API: {server.url}/api/v1/openapi.json, token in {token_file}")
            if not is_loopback(options.host):
                write_err(_TLS_NOTE)
            write_err("Ctrl-C stops the server; sessions stay stored")
            if open_page:
                await to_thread.run_sync(webbrowser.open, link, abandon_on_cancel=True)
            async for _ in received:
                break
    return 0


def _find_token(environ: Mapping[str, str]) -> Path:
    return Homes.of(environ).clew / TOKEN_FILE


def _refuse_session_flags(arguments: Namespace) -> None:
    """Refuse flags that name one session: the server has all of them."""
    for name, flag in _SESSION_FLAGS.items():
        if getattr(arguments, name) not in (None, False):
            raise ConfigError(
                f"{flag} does nothing for `clew serve`: clients choose a session, or copy one; use"
                " the page, or clew --connect URL --resume ID"
            )


def _make_options(arguments: Namespace) -> ServerOptions:
    _refuse_session_flags(arguments)
    roots = tuple(str(Path(root).expanduser().absolute()) for root in arguments.root)
    for root in roots:
        if not Path(root).is_dir():
            raise ConfigError(f"--root {sanitize_line(root, _SHOWN)} is not a folder")
    environ = own_environment(arguments) or os.environ
    home = Homes.of(environ).clew
    token_file = _find_token(environ)
    access = AccessOptions(
        token=replace_token(token_file) if arguments.new_token else load_token(token_file),
        users_file=home / USERS_FILE,
        audit_file=home / AUDIT_FILE,
        hosts=frozenset(name.lower() for name in arguments.allow_host),
        proxies=parse_networks(arguments.trust_proxy),
        user_header=_check_user_header(arguments),
        limits=RequestLimits(max_connections=raise_file_limit(RequestLimits().max_connections)),
    )
    return ServerOptions(
        # The port of the server is not that of the embedded model, which takes a free one.
        defaults=replace(session_spec(arguments), port=0),
        environ=environ,
        access=access,
        roots=roots,
        host=arguments.host,
        port=arguments.port,
        max_sessions=arguments.max_sessions,
        replica=_make_replica(arguments),
    )


def _make_replica(arguments: Namespace) -> ReplicaOptions | None:
    if not arguments.replica:
        return None
    text = arguments.replica
    try:
        place = urlsplit(f"//{text}")
        host, port = place.hostname or "", place.port or 0
    except ValueError:
        host, port = "", 0
    if not host or place.netloc != text or "@" in text:
        raise ConfigError(
            f"--replica {sanitize_line(text, _SHOWN)} is not an address, such as 10.0.0.5:8766"
        )
    return ReplicaOptions(host=host, port=port, silent_after=arguments.silent_after)


def _check_user_header(arguments: Namespace) -> str:
    header: str = arguments.user_header
    if header and not arguments.trust_proxy:
        raise ConfigError("--user-header needs --trust-proxy ADDRESS: who may name users?")
    return header


def run_serve_user(arguments: Namespace) -> int:
    """Add, remove or list users; returns the exit code."""
    users = UsersFile(Homes.of(own_environment(arguments) or os.environ).clew / USERS_FILE)
    match arguments.user_action:
        case "add":
            token = users.add(arguments.name)
            write_err(f"user {arguments.name}; the token is shown only now:")
            print_line(token)
        case "remove":
            users.remove(arguments.name)
            write_err(f"removed {arguments.name}; the sessions stay stored")
        case _:
            for user in users.list_users():
                print_line(f"{user.name}  {user.created}")
    return 0
