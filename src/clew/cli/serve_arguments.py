"""The flags of `clew serve`."""

import argparse

from clew.cli.argument_parser import parse_count, parse_port, parse_seconds

HOST, PORT = "127.0.0.1", 8765


def add_serve(serve: argparse.ArgumentParser) -> None:
    """Add the flags of `clew serve` to its parser."""
    serve.description = (
        "Serves the sessions of this folder over HTTP until Ctrl-C: a REST API, event streams and"
        " WebSockets. Flags of sessions go before it: clew --model NAME serve. See"
        " docs/server.md."
    )
    serve.add_argument(
        "--host", default=HOST, metavar="ADDRESS", help=f"where to listen (default: {HOST})"
    )
    serve.add_argument(
        "--port",
        type=parse_port,
        default=PORT,
        metavar="N",
        help=f"0 for any free port (default: {PORT})",
    )
    serve.add_argument("--open", action="store_true", help="open the page in a browser")
    serve.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="FOLDER",
        help="serve sessions of this folder and those below it; repeatable (default: this folder)",
    )
    serve.add_argument(
        "--max-sessions",
        type=parse_count,
        default=100,
        metavar="N",
        help="how many sessions may be open at once (default: 100)",
    )
    _add_replica(serve)
    _add_access(serve)
    actions = serve.add_subparsers(dest="action", metavar="{user}")
    _add_user(actions.add_parser("user", help="add, remove or list users with their own sessions"))


def _add_replica(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--replica",
        default="",
        metavar="HOST[:PORT]",
        help="share the sessions of a PostgreSQL store with other servers, which reach this one at"
        " this address",
    )
    serve.add_argument(
        "--silent-after",
        type=parse_seconds,
        default=5.0,
        metavar="SECONDS",
        help="replicas take over the sessions of one that is silent for this long (default: 5)",
    )


def _add_access(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--new-token",
        action="store_true",
        help="replace the token first; the old one and its browsers are signed out",
    )
    serve.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name under which clients reach the server; repeatable",
    )
    serve.add_argument(
        "--trust-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="believe the X-Forwarded headers of this address or network; repeatable",
    )
    serve.add_argument(
        "--user-header",
        default="",
        metavar="NAME",
        help="the header in which a trusted proxy names the user",
    )


def _add_user(user: argparse.ArgumentParser) -> None:
    user.description = (
        "Each user has a token and separate sessions. Changes count at once, also for a server"
        " that runs. Users are not protected from each other's tools: see docs/server-access.md."
    )
    actions = user.add_subparsers(dest="user_action", metavar="{add,remove,list}", required=True)
    for name, words in (
        ("add", "add a user, or give one a new token; prints the token"),
        ("remove", "remove a user; the sessions stay stored"),
    ):
        actions.add_parser(name, help=words).add_argument("name", metavar="NAME")
    actions.add_parser("list", help="list the users")
