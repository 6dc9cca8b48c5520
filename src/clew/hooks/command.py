"""Hooks that are commands."""

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from clew.hooks import process
from clew.hooks.context import HookContext
from clew.hooks.handlers import CommandHook
from clew.hooks.output import Ended
from clew.hooks.protocol import HookInput
from clew.hooks.settings import Hook

_SHELLS = {
    None: ("/bin/sh", "-c"),
    "bash": ("bash", "-c"),
    "powershell": ("pwsh", "-NoProfile", "-NonInteractive", "-Command"),
}
_PLACEHOLDER = re.compile(r"\$\{(CLAUDE_PROJECT_DIR|CLAUDE_PLUGIN_ROOT|CLAUDE_PLUGIN_DATA)\}")
_HARMLESS = re.compile(r"[\w@%+=:,./ -]*")


async def run_command(
    hook: Hook, handler: CommandHook, payload: HookInput, means: HookContext
) -> Ended:
    """Run a command and return how it ended.

    Raises:
        OSError: It could not be started.
        ValueError: Its words hold a character that no command may hold.
    """
    paths = _paths(hook, means)
    return await process.run(
        argv_for(handler, paths),
        stdin=payload.encode(hook.event),
        cwd=folder_for(payload, means),
        env={**_inherited(means.environ), **hook.env, **paths, **_session(payload, means)},
    )


def argv_for(handler: CommandHook, paths: Mapping[str, str]) -> list[str]:
    """Return the words to start, with `${CLAUDE_PLUGIN_ROOT}` and its like replaced.

    In a line for the shell, a path of harmless characters is put in as it is, so that it also
    works between single quotes; any other is left to the shell, which never reads it as code.
    """

    def fill(text: str, *, as_code: bool = False) -> str:
        def path(match: re.Match[str]) -> str:
            value = paths.get(match[1])
            if value is None or (as_code and not _HARMLESS.fullmatch(value)):
                return match[0]
            return value

        return _PLACEHOLDER.sub(path, text)

    if handler.args is not None:
        return [fill(handler.command), *map(fill, handler.args)]
    return [*_SHELLS[handler.shell], fill(handler.command, as_code=True)]


def folder_for(payload: HookInput, means: HookContext) -> Path:
    """Return where a command runs: the session's folder, or the nearest that still exists."""
    return next(folder for folder in _folders(payload, means) if folder.is_dir())


def _folders(payload: HookInput, means: HookContext) -> Iterator[Path]:
    yield Path(payload.cwd)
    yield means.project
    yield Path(means.environ.get("HOME") or "/")
    yield Path(tempfile.gettempdir())


def _paths(hook: Hook, means: HookContext) -> dict[str, str]:
    paths = {"CLAUDE_PROJECT_DIR": str(means.project)}
    if hook.source.plugin_root is not None:
        paths["CLAUDE_PLUGIN_ROOT"] = str(hook.source.plugin_root)
    if hook.source.plugin_data is not None:
        paths["CLAUDE_PLUGIN_DATA"] = str(hook.source.plugin_data)
    return paths


def _inherited(environ: Mapping[str, str]) -> dict[str, str]:
    # A session may itself run under a plugin; its folders are not this hook's.
    strange = ("CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA")
    return {name: value for name, value in environ.items() if name not in strange}


def _session(payload: HookInput, means: HookContext) -> dict[str, str]:
    return {"CLEW_PROJECT_DIR": str(means.project), "CLAUDE_SESSION_ID": payload.session_id}
