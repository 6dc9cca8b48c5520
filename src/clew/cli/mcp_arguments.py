"""The flags of `clew mcp`."""

import argparse

_JSON = "print JSON"
_ACTIONS = "{add,add-json,get,list,login,logout,remove,serve,test}"


def add_mcp(mcp: argparse.ArgumentParser) -> None:
    """Add the actions of `clew mcp` to its parser."""
    mcp.description = (
        "Adds, lists, tests and removes MCP servers, whose tools the model can call. See"
        " docs/mcp.md."
    )
    actions = mcp.add_subparsers(dest="action", metavar=_ACTIONS, required=True)
    _add_add(actions.add_parser("add", help="add a server: a command, or an address"))
    new = actions.add_parser("add-json", help="add a server from an entry of mcpServers")
    new.add_argument("name", metavar="NAME")
    new.add_argument("entry", metavar="JSON", help='for example \'{"command": "my-server"}\'')
    _add_scope(new)
    listing = actions.add_parser("list", help="list the servers of this folder")
    listing.add_argument("--json", action="store_true", help=_JSON)
    get = actions.add_parser("get", help="show one server")
    get.add_argument("name", metavar="NAME")
    get.add_argument("--json", action="store_true", help=_JSON)
    drop = actions.add_parser("remove", help="remove a server")
    drop.add_argument("name", metavar="NAME")
    _add_scope(drop)
    test = actions.add_parser("test", help="start a server and list its tools")
    test.add_argument("name", metavar="NAME")
    test.add_argument("--json", action="store_true", help=_JSON)
    for action, words in (
        ("login", "log in to a server with your browser"),
        ("logout", "remove the tokens of a login"),
    ):
        actions.add_parser(action, help=words).add_argument("name", metavar="NAME")
    serve = actions.add_parser("serve", help="offer the sessions of this folder to other agents")
    serve.description = (
        "Speaks MCP on standard input and output: lists and searches the sessions of this folder,"
        " recalls what they contain, and previews compactions. It only reads."
    )


def _add_add(new: argparse.ArgumentParser) -> None:
    new.description = (
        "For example: clew mcp add time -- uvx mcp-server-time, or"
        " clew mcp add --transport http docs https://example.com/mcp"
    )
    new.add_argument("name", metavar="NAME")
    new.add_argument("target", metavar="COMMAND_OR_URL")
    new.add_argument(
        "args", metavar="ARGUMENT", nargs="*", help="arguments of the command; write -- before it"
    )
    new.add_argument(
        "--transport",
        choices=("stdio", "http", "sse"),
        help="how to reach it (default: http for an address, else stdio)",
    )
    new.add_argument(
        "-e",
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable of the command; can be repeated",
    )
    new.add_argument(
        "-H",
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="a header of every request; can be repeated",
    )
    _add_scope(new)


def _add_scope(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--scope",
        choices=("user", "project", "local"),
        default="user",
        help="your settings (default), .mcp.json of this folder, or your own for this folder",
    )
