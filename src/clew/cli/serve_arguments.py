"""The flags of `clew serve`."""

import argparse

from clew.cli.argument_parser import parse_count, parse_port

HOST, PORT = "127.0.0.1", 8765


def add_serve(serve: argparse.ArgumentParser) -> None:
    """Add the flags of `clew serve` to its parser."""
    serve.description = (
        "Serves the sessions of this folder over HTTP until Ctrl-C: a REST API, event streams and"
        " WebSockets. Flags of sessions stand before it: clew --model NAME serve. See"
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
