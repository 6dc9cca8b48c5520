"""The flags of `clew plugin`."""

import argparse

_JSON = "print JSON"
_ACTIONS = "{install,update,remove,enable,disable,list,show,validate,marketplace}"


def add_plugin(plugin: argparse.ArgumentParser) -> None:
    """Add the actions of `clew plugin` to its parser."""
    plugin.description = (
        "Installs plugins in the format of Claude Code: skills, commands, agents, hooks and MCP"
        " servers. Shows what a plugin adds, and asks, before anything of it can run. See"
        " docs/plugins.md."
    )
    actions = plugin.add_subparsers(dest="action", metavar=_ACTIONS, required=True)
    _add_install(actions.add_parser("install", help="install a plugin"))
    update = actions.add_parser("update", help="update plugins; all of them without a name")
    update.add_argument("names", nargs="*", metavar="NAME")
    _add_yes(update)
    for name, words in (
        ("remove", "remove a plugin"),
        ("enable", "let new sessions load a plugin"),
        ("disable", "keep a plugin, but do not load it"),
    ):
        action = actions.add_parser(name, help=words)
        action.add_argument("name", metavar="NAME", help="its name, or name@marketplace")
        _add_scope(action, default=None)
        _add_json(action)
    _add_json(actions.add_parser("list", help="list the plugins of this folder"))
    show = actions.add_parser("show", help="show what a plugin adds")
    show.add_argument("name", metavar="NAME")
    _add_json(show)
    check = actions.add_parser("validate", help="check a plugin or a marketplace that you write")
    check.add_argument("path", nargs="?", default=".", metavar="FOLDER")
    _add_json(check)
    _add_marketplace(actions.add_parser("marketplace", help="add and search marketplaces"))


def _add_install(install: argparse.ArgumentParser) -> None:
    install.description = (
        "For example: clew plugin install code-review@claude-plugins-official, ./my-plugin,"
        " my-plugin.zip, or https://github.com/owner/plugin.git"
    )
    install.add_argument(
        "plugin",
        metavar="PLUGIN",
        help="name@marketplace, a folder, an archive (.zip, .tar.gz) or a git repository;"
        " #branch may follow its address",
    )
    _add_scope(install, default="user")
    _add_yes(install)


def _add_marketplace(marketplace: argparse.ArgumentParser) -> None:
    actions = marketplace.add_subparsers(
        dest="marketplace_action", metavar="{add,remove,list,update,search}", required=True
    )
    add = actions.add_parser("add", help="add a marketplace")
    add.description = (
        "For example: clew plugin marketplace add anthropics/claude-plugins-official, ./folder, or"
        " https://example.com/plugins.git#branch"
    )
    add.add_argument(
        "source", metavar="SOURCE", help="owner/name of GitHub, a git repository, or a folder"
    )
    remove = actions.add_parser("remove", help="remove a marketplace; its plugins stay")
    remove.add_argument("name", metavar="NAME")
    listed = actions.add_parser("list", help="list the marketplaces")
    update = actions.add_parser("update", help="fetch the lists again; all without a name")
    update.add_argument("names", nargs="*", metavar="NAME")
    search = actions.add_parser("search", help="search the plugins of all marketplaces")
    search.add_argument("words", nargs="*", metavar="WORD")
    for action in (add, remove, listed, update, search):
        _add_json(action)


def _add_yes(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "-y", "--yes", action="store_true", help="agree to what the plugin adds, without a question"
    )
    _add_json(action)


def _add_json(action: argparse.ArgumentParser) -> None:
    action.add_argument("--json", action="store_true", help=_JSON)


def _add_scope(action: argparse.ArgumentParser, *, default: str | None) -> None:
    said = "in all folders (default), or only in this one"
    action.add_argument(
        "--scope",
        choices=("user", "project"),
        default=default,
        help=said if default else "the one for all folders, or the one for this folder",
    )
