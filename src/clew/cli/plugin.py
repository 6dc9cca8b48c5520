"""`clew plugin`: install plugins, and ask before anything of them can run."""

import shutil
import signal
import sys
import textwrap
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import anyio

from clew.cli.environment import own_environment
from clew.cli.streams import print_json, write_err, write_out
from clew.cli.wait_note import WaitNote
from clew.core.errors import ClewError, ConfigError
from clew.core.redaction import redact
from clew.core.sanitize import sanitize
from clew.sdk import plugin_actions
from clew.sdk.folders import working_folder
from clew.sdk.plugin_actions import Agree, PluginReply, format_preparation
from clew.sdk.plugins import Plugins, PreparedPlugin

_INTERRUPTED = 130
_NARROWEST = 40


class _Interrupted(Exception):
    """The user pressed Ctrl-C at the question."""


def run_plugin(arguments: Namespace) -> int:
    """Run one action of `clew plugin`; returns the exit code."""
    plugins = Plugins(working_folder(), own_environment(arguments))
    name = arguments.action
    if name == "marketplace":
        name = f"marketplace {arguments.marketplace_action}"
    try:
        reply = _ACTIONS[name](plugins, arguments)
    except _Interrupted:
        write_err("nothing was installed")
        return _INTERRUPTED
    if arguments.json:
        print_json({**redact(reply.data), "success": reply.success}, indent=True)
    else:
        _write(reply.lines)
    return 0 if reply.success else 1


def _install(plugins: Plugins, arguments: Namespace) -> PluginReply:
    note = WaitNote()
    agree, scope = _make_question(arguments, note), arguments.scope
    return _fetch(
        partial(plugin_actions.install, plugins, arguments.plugin, agree=agree, scope=scope), note
    )


def _update(plugins: Plugins, arguments: Namespace) -> PluginReply:
    note = WaitNote()
    agree = _make_question(arguments, note)
    return _fetch(partial(plugin_actions.update, plugins, arguments.names, agree=agree), note)


def _fetch(
    action: Callable[[], Awaitable[PluginReply]], note: WaitNote | None = None
) -> PluginReply:
    """Run an action that may wait for a server, with a note while it does."""
    shown = note or WaitNote()
    failures: list[Exception] = []

    async def run() -> PluginReply | None:
        async with anyio.create_task_group() as group:
            group.start_soon(shown.run, "the repository")
            try:
                return await action()
            except (ClewError, _Interrupted) as error:
                # A task group would wrap it.
                failures.append(error)
            finally:
                shown.end()
                group.cancel_scope.cancel()
        return None

    reply = anyio.run(run)
    if reply is None:
        raise failures[0]
    return reply


def _make_question(arguments: Namespace, note: WaitNote) -> Agree:
    """Return the function that shows what a plugin adds, and asks unless `--yes` was given."""

    async def agree(prepared: PreparedPlugin) -> bool:
        note.restart()
        if not arguments.json:
            _write(format_preparation(prepared))
        if arguments.yes:
            return True
        if arguments.json:
            raise ConfigError(
                f"--json asks no questions; see what {prepared.id} adds without it, or add --yes"
                " to agree"
            )
        if not sys.stdin.isatty() or not sys.stdout.isatty():
            raise ConfigError(
                f"there is no terminal to ask whether you want {prepared.id}; add --yes to agree"
                " to what it adds"
            )
        answer = _ask("Install it?" if prepared.before is None else "Update it?")
        note.restart()
        return answer

    return agree


def _ask(question: str) -> bool:
    """Ask on the terminal; only yes is yes.

    Raises:
        _Interrupted: The user pressed Ctrl-C.
    """
    _discard_typed_keys()
    # The event loop would handle Ctrl-C only after the answer.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        write_out("")
        answer = input(f"{question} [y/N] ")
    except EOFError:
        write_out("\n")
        return False
    except KeyboardInterrupt:
        write_out("\n")
        raise _Interrupted from None
    finally:
        signal.signal(signal.SIGINT, before)
    return answer.strip().lower() in ("y", "yes")


def _discard_typed_keys() -> None:
    """Forget keys that were pressed before the question was shown."""
    import termios  # noqa: PLC0415 - only needed on a terminal

    try:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    except (termios.error, OSError, ValueError):
        return


def _remove(plugins: Plugins, arguments: Namespace) -> PluginReply:
    return plugin_actions.remove(plugins, arguments.name, scope=arguments.scope)


def _switch(plugins: Plugins, arguments: Namespace) -> PluginReply:
    enabled = arguments.action == "enable"
    return plugin_actions.switch(plugins, arguments.name, enabled=enabled, scope=arguments.scope)


def _list(plugins: Plugins, _: Namespace) -> PluginReply:
    return plugin_actions.list_plugins(plugins)


def _show(plugins: Plugins, arguments: Namespace) -> PluginReply:
    return plugin_actions.show(plugins, arguments.name)


def _validate(_: Plugins, arguments: Namespace) -> PluginReply:
    return plugin_actions.validate(Path(arguments.path))


def _add_marketplace(plugins: Plugins, arguments: Namespace) -> PluginReply:
    return _fetch(partial(plugin_actions.add_marketplace, plugins, arguments.source))


def _remove_marketplace(plugins: Plugins, arguments: Namespace) -> PluginReply:
    return plugin_actions.remove_marketplace(plugins, arguments.name)


def _list_marketplaces(plugins: Plugins, _: Namespace) -> PluginReply:
    return plugin_actions.list_marketplaces(plugins)


def _update_marketplaces(plugins: Plugins, arguments: Namespace) -> PluginReply:
    return _fetch(partial(plugin_actions.update_marketplaces, plugins, arguments.names))


def _search(plugins: Plugins, arguments: Namespace) -> PluginReply:
    return plugin_actions.search(plugins, arguments.words)


def _write(lines: Iterable[str]) -> None:
    shown = [sanitize(line) for line in lines]
    if sys.stdout.isatty():
        width = max(_NARROWEST, shutil.get_terminal_size().columns)
        shown = [row for line in shown for row in _wrap(line, width)]
    write_out("".join(f"{line}\n" for line in shown))


def _wrap(line: str, width: int) -> list[str]:
    """Wrap a line between words; what follows is indented a little more than its start."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [line]


_Action: TypeAlias = Callable[[Plugins, Namespace], PluginReply]
_ACTIONS: Mapping[str, _Action] = MappingProxyType(
    {
        "install": _install,
        "update": _update,
        "remove": _remove,
        "enable": _switch,
        "disable": _switch,
        "list": _list,
        "show": _show,
        "validate": _validate,
        "marketplace add": _add_marketplace,
        "marketplace remove": _remove_marketplace,
        "marketplace list": _list_marketplaces,
        "marketplace update": _update_marketplaces,
        "marketplace search": _search,
    }
)
