"""`/plugin`: what `clew plugin` does, in a session; what is installed is loaded by the next one."""

import shlex

from clew.core.errors import SessionError
from clew.extensions.commands.arguments import Builtin, split_word
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult

_YES, _PROJECT = "--yes", "--project"
_MARKETPLACE = (
    ("add", "SOURCE", "add a marketplace"),
    ("remove", "NAME", "remove a marketplace; its plugins stay"),
    ("list", "", "list the marketplaces"),
    ("update", "[NAME …]", "fetch the lists again"),
    ("search", "WORD …", "search the plugins of all marketplaces"),
)
_PLUGIN: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("list", "", "list the plugins of this folder", ()),
    ("show", "NAME", "show what a plugin adds", ()),
    (
        "install",
        "[--yes] [--project] PLUGIN",
        "show what a plugin adds; with --yes, install it",
        ("yes", "project"),
    ),
    ("update", "[--yes] [NAME …]", "update plugins; new hooks and servers need --yes", ("yes",)),
    ("remove", "[--project] NAME", "remove a plugin", ("project",)),
    ("enable", "[--project] NAME", "let new sessions load a plugin", ("project",)),
    ("disable", "[--project] NAME", "keep a plugin, but do not load it", ("project",)),
    ("validate", "[FOLDER]", "check a plugin or a marketplace that you write", ()),
)


async def _plugin(host: CommandHost, arguments: str) -> CommandResult:
    try:
        words = shlex.split(arguments)
    except ValueError as error:
        raise SessionError(f"/plugin cannot read its arguments: {error}") from error
    agreed = _YES in words
    in_project = _PROJECT in words
    words = [word for word in words if word not in (_YES, _PROJECT)] or ["list"]
    action = words[0].lower()
    if action not in {row[0] for row in _PLUGIN} | {"marketplace"}:
        word, _ = split_word(arguments)
        raise SessionError(f"there is no /plugin {word}: write /plugin {_HINT}")
    return await host.plugins.run([action, *words[1:]], agreed=agreed, in_project=in_project)


def _read_only(name: str) -> bool:
    return name in ("list", "show", "search", "validate")


_HINT = "[list | show | install | update | remove | enable | disable | validate | marketplace]"
PLUGIN_COMMANDS = (
    Builtin(
        Command(
            name="plugin",
            description="install, update and remove plugins, and search marketplaces",
            argument_hint=_HINT,
            safety="changes-files",
            subcommands=(
                *(
                    Command(
                        name=name,
                        description=description,
                        argument_hint=hint,
                        flags=flags,
                        safety="read-only" if _read_only(name) else "changes-files",
                    )
                    for name, hint, description, flags in _PLUGIN
                ),
                Command(
                    name="marketplace",
                    description="add, remove, list, update and search marketplaces",
                    argument_hint="[add | remove | list | update | search]",
                    safety="changes-files",
                    subcommands=tuple(
                        Command(
                            name=name,
                            description=description,
                            argument_hint=hint,
                            safety="read-only" if _read_only(name) else "changes-files",
                        )
                        for name, hint, description in _MARKETPLACE
                    ),
                ),
            ),
        ),
        _plugin,
    ),
)
