"""The actions of `clew config`; apart from what they do, which takes longer to load."""

import argparse


def add_config(config: argparse.ArgumentParser) -> None:
    """Add the actions of `clew config` to its parser."""
    config.description = (
        "Without an action, shows the settings that count here. Settings of a project count only"
        " as far as they restrict, until you accept its folder. See docs/settings.md."
    )
    config.set_defaults(json=False)
    actions = config.add_subparsers(
        dest="action", metavar="{show,path,check,schema,get,set,unset,accept,forget}"
    )
    show = actions.add_parser("show", help="what counts, and which file says so")
    show.add_argument("--json", action="store_true", help="print everything as JSON")
    actions.add_parser("path", help="the files that are read, the one that counts least first")
    actions.add_parser("check", help="look for mistakes; the exit code is 1 if there are any")
    actions.add_parser("schema", help="print the JSON schema, for editors")
    get = actions.add_parser("get", help="print one value")
    get.add_argument("key", metavar="KEY", help="such as context.strategy")
    put = actions.add_parser("set", help="write one value into a settings file")
    put.add_argument("key", metavar="KEY", help="such as context.strategy")
    put.add_argument("value", metavar="VALUE", help="JSON, or a text where the key takes one")
    drop = actions.add_parser("unset", help="take one value out of a settings file")
    drop.add_argument("key", metavar="KEY", help="such as context.strategy")
    for action in (put, drop):
        _add_places(action)
    actions.add_parser("accept", help="let the settings of this folder count in full")
    actions.add_parser("forget", help="accept this folder no longer")


def _add_places(action: argparse.ArgumentParser) -> None:
    where = action.add_mutually_exclusive_group()
    for name, words in (
        ("user", "your own settings (the default)"),
        ("project", "the project's settings, for all who work on it"),
        ("local", "the project's settings, for you alone"),
    ):
        where.add_argument(f"--{name}", dest="where", action="store_const", const=name, help=words)
    action.set_defaults(where="user")
