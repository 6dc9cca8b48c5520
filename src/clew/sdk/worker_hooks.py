"""The hooks of a project in a worker, for what happens before the session of an agent opens."""

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from clew.core.redaction import redact
from clew.hooks.context import HookContext
from clew.hooks.protocol import HookEvent, HookInput, Hooks, HookVerdict, NoHooks
from clew.hooks.runner import HookRunner
from clew.sdk.folders import Homes
from clew.sdk.session_plugins import load_plugins, merge_hooks
from clew.sdk.settings import load_project_settings


def load_worker_hooks(cwd: Path, environ: Mapping[str, str]) -> Hooks:
    """Return the hooks for WorktreeCreate and WorktreeRemove; blocks.

    There is no model to ask yet, so only commands and HTTP hooks can run.

    Raises:
        ConfigError: A settings file is wrong.
    """
    homes = Homes.of(environ)
    loaded = load_project_settings(cwd, homes, environ)
    table = merge_hooks(loaded, load_plugins(loaded, homes, cwd))
    if not table.hooks:
        return NoHooks()
    context = HookContext(project=cwd, environ=loaded.environ, redact=redact)
    return _WorkerHooks(HookRunner(table, context))


class _WorkerHooks:
    """Hooks that cannot make the worktree: only one that Clew made moves to another machine."""

    def __init__(self, inner: Hooks) -> None:
        self._inner = inner

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        """Run the hooks of an event."""
        verdict = await self._inner.fire(event, payload)
        if not verdict.worktree_path or verdict.worktree_path == payload.worktree_path:
            return verdict
        note = f"{verdict.worktree_path} is not used: a worker makes the worktrees of its agents"
        return replace(verdict, worktree_path="", reports=(*verdict.reports, note))
