"""`/plugin` in a session: the actions of `clew plugin`, with a second command as the answer."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from anyio import to_thread

from clew.core.errors import SessionError
from clew.core.redaction import redact
from clew.extensions.commands.protocol import CommandResult
from clew.sdk import plugin_actions
from clew.sdk.folders import Homes
from clew.sdk.plugin_actions import PluginReply, format_preparation
from clew.sdk.plugins import Plugins, PreparedPlugin, Scope


class PluginDialog:
    """Carries out the actions of `/plugin`, and remembers what the user was shown.

    `/plugin install NAME` shows what a plugin adds. `/plugin install --yes NAME` installs it, if
    exactly that was shown; otherwise the user sees it first.

    Args:
        cwd: The project's folder.
        homes: The user's folders.
        environ: Environment variables.
    """

    def __init__(self, cwd: Path, homes: Homes, environ: Mapping[str, str]) -> None:
        self._cwd = cwd
        self._plugins = Plugins(cwd, environ, homes=homes)
        self._shown: dict[str, str] = {}
        """The fingerprint of each plugin that was shown, by its id."""

    async def run(
        self, words: Sequence[str], *, agreed: bool, in_project: bool = False
    ) -> CommandResult:
        """Carry out one action.

        Args:
            words: The action and its arguments.
            agreed: True when the user agrees to what a plugin adds.
            in_project: True for a plugin of this project instead of the user's own.

        Raises:
            SessionError: Words are missing, or there are too many.
            ConfigError: The action failed.
        """
        lines: list[str] = []

        async def agree(prepared: PreparedPlugin) -> bool:
            lines.extend(format_preparation(prepared))
            known = self._shown.get(prepared.id)
            self._shown[prepared.id] = prepared.fingerprint
            return agreed and known == prepared.fingerprint

        scope: Scope | None = "project" if in_project else None
        reply = await self._run(words, agree, scope)
        data = redact(reply.data)
        if lines and not reply.success:
            flags = "--yes --project" if in_project else "--yes"
            again = shlex.join(words[1:])
            agree_with = f"to agree, type: /plugin {words[0]} {flags} {again}".rstrip()
            return CommandResult("\n".join((*lines, agree_with)), data=data)
        return CommandResult("\n".join((*lines, *reply.lines)), success=reply.success, data=data)

    async def _run(
        self, words: Sequence[str], agree: plugin_actions.Agree, scope: Scope | None
    ) -> PluginReply:
        plugins = self._plugins
        match list(words):
            case ["install", text]:
                return await plugin_actions.install(
                    plugins, text, agree=agree, scope=scope or "user"
                )
            case ["update", *names]:
                return await plugin_actions.update(plugins, names, agree=agree)
            case ["marketplace", *rest]:
                return await self._run_marketplace(rest)
            case _:
                return await to_thread.run_sync(self._run_local, list(words), scope)

    def _run_local(self, words: list[str], scope: Scope | None) -> PluginReply:
        plugins = self._plugins
        match words:
            case ["list"]:
                return plugin_actions.list_plugins(plugins)
            case ["show", name]:
                return plugin_actions.show(plugins, name)
            case ["remove", name]:
                return plugin_actions.remove(plugins, name, scope=scope)
            case ["enable" | "disable" as action, name]:
                enabled = action == "enable"
                return plugin_actions.switch(plugins, name, enabled=enabled, scope=scope)
            case ["validate", *paths] if len(paths) <= 1:
                return plugin_actions.validate(self._cwd / (paths[0] if paths else "."))
            case _:
                raise SessionError(_usage(words))

    async def _run_marketplace(self, words: list[str]) -> PluginReply:
        plugins = self._plugins
        match words:
            case ["add", text]:
                return await plugin_actions.add_marketplace(plugins, text)
            case ["update", *names]:
                return await plugin_actions.update_marketplaces(plugins, names)
            case ["remove", name]:
                return await to_thread.run_sync(plugin_actions.remove_marketplace, plugins, name)
            case [] | ["list"]:
                return await to_thread.run_sync(plugin_actions.list_marketplaces, plugins)
            case ["search", *wanted]:
                return await to_thread.run_sync(plugin_actions.search, plugins, wanted)
            case _:
                raise SessionError(_usage(["marketplace", *words]))


def _usage(words: Sequence[str]) -> str:
    name = " ".join(words[:2] if words[0] == "marketplace" else words[:1])
    return f"/plugin {name} does not work like that; /help plugin says what to write"
