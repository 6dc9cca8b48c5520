"""What a plugin adds, in words: shown before anything of it can run, and compared at an update."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from clew.core.redaction import redact
from clew.core.sanitize import sanitize_line
from clew.core.text import pluralize
from clew.extensions.plugins.contribution import Contribution, Plugin, PluginServer
from clew.hooks.handlers import AgentHook, CommandHook, HookHandler, HttpHook, PromptHook
from clew.hooks.settings import Hook
from clew.tools.mcp.config import find_transport, list_variables

_MAX_LINE = 600
"""Characters of a command line: enough that nothing hides at its end, as long as it is sane."""
_MAX_NAMES = 30
_OWN_VARIABLES = frozenset({"CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA", "CLAUDE_PROJECT_DIR"})
_MAX_WARNINGS = 8


class PluginSummary(Struct, frozen=True, kw_only=True):
    """What a plugin adds to a session."""

    name: str
    version: str = ""
    description: str = ""
    skills: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    """Each with its event and its command line."""
    servers: tuple[str, ...] = ()
    """Each with its name and its command line or address."""
    prompt_tokens: int = 0
    """About how many tokens it adds to every request."""
    warnings: tuple[str, ...] = ()

    @property
    def runs_programs(self) -> bool:
        """True when it has hooks or servers."""
        return bool(self.hooks or self.servers)


class SummaryChange(Struct, frozen=True, kw_only=True):
    """How a new version of a plugin differs from the installed one."""

    added: tuple[str, ...] = ()
    """Parts, such as `hook SessionStart: …`."""
    removed: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    """Files that changed and that its hooks and servers may run."""
    files: int = 0
    """How many files changed."""
    must_ask: bool = False
    """True when hooks or servers are new, or what they run has changed."""


def summarize(plugin: Plugin) -> PluginSummary:
    """Return what a plugin adds."""
    parts = plugin.contribution
    return PluginSummary(
        name=plugin.name,
        version=sanitize_line(plugin.manifest.version, 40),
        description=sanitize_line(plugin.manifest.description, 300),
        skills=_shorten(plugin.name, (one.name for one in parts.skills)),
        commands=_shorten(plugin.name, (one.name for one in parts.commands)),
        agents=_shorten(plugin.name, (one.name for one in parts.agents)),
        hooks=tuple(_describe_hook(hook) for hook in parts.hooks.hooks),
        servers=tuple(_describe_server(one) for one in parts.servers),
        prompt_tokens=parts.prompt_tokens,
        warnings=_describe_warnings(parts),
    )


def compare(old: PluginSummary, new: PluginSummary, changed: Sequence[str] = ()) -> SummaryChange:
    """Return what an update changes.

    Args:
        old: What the installed version adds.
        new: What the new version adds.
        changed: The paths of files that differ.
    """
    before, after = _list_parts(old), _list_parts(new)
    running = {*(f"hook {one}" for one in new.hooks), *(f"server {one}" for one in new.servers)}
    scripts = [path for path in changed if not path.endswith((".md", ".txt"))]
    if not new.runs_programs:
        scripts = []
    return SummaryChange(
        added=tuple(one for one in after if one not in set(before)),
        removed=tuple(one for one in before if one not in set(after)),
        scripts=tuple(sorted(scripts)),
        files=len(changed),
        must_ask=bool(scripts) or bool(running - set(before)),
    )


def format_summary(summary: PluginSummary) -> list[str]:
    """Return what a plugin adds as lines for people, sanitized."""
    lines = [f"  {summary.description}"] if summary.description else []
    for word, names in (
        ("skill", summary.skills),
        ("command", summary.commands),
        ("agent", summary.agents),
    ):
        if names:
            lines.append(f"  {pluralize(len(names), word)}: {_join(names)}")
    for word, rows in (("hook", summary.hooks), ("MCP server", summary.servers)):
        if rows:
            lines.append(f"  {pluralize(len(rows), word)}, which can run programs:")
            lines += (f"    {row}" for row in rows)
    if summary.prompt_tokens:
        lines.append(f"  about {pluralize(summary.prompt_tokens, 'token')} in every request")
    if summary.servers:
        lines.append("  the tools of its servers are known when they run")
    if len(lines) == bool(summary.description):
        lines.append("  nothing that Clew can use")
    return [*lines, *_format_warnings(summary.warnings)]


def format_change(change: SummaryChange) -> list[str]:
    """Return what an update changes as lines for people, sanitized."""
    lines = [f"  + {one}" for one in change.added]
    lines += (f"  - {one}" for one in change.removed)
    if change.scripts:
        lines.append(f"  changed files that it may run: {_join(change.scripts)}")
    if change.files:
        lines.append(f"  {pluralize(change.files, 'file')} changed")
    return lines


def _format_warnings(warnings: Sequence[str]) -> list[str]:
    lines = [f"  not used: {one}" for one in warnings[:_MAX_WARNINGS]]
    if len(warnings) > _MAX_WARNINGS:
        lines.append(f"  not used: … and {len(warnings) - _MAX_WARNINGS:,} more")
    return lines


def _join(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" … and {more:,} more" if more > 0 else "")


def _list_parts(summary: PluginSummary) -> list[str]:
    kinds = (
        ("skill", summary.skills),
        ("command", summary.commands),
        ("agent", summary.agents),
        ("hook", summary.hooks),
        ("server", summary.servers),
    )
    return [f"{kind} {one}" for kind, names in kinds for one in names]


def _shorten(plugin: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sanitize_line(name.removeprefix(f"{plugin}:"), 100) for name in names)


def _describe_hook(hook: Hook) -> str:
    return sanitize_line(f"{hook.event}: {_describe_handler(hook.handler)}", _MAX_LINE)


def _describe_handler(handler: HookHandler) -> str:
    match handler:
        case CommandHook():
            return redact(" ".join((handler.command, *(handler.args or ()))))
        case HttpHook():
            return f"sends the event to {handler.brief}"
        case PromptHook():
            return f"asks the model: {handler.prompt}"
        case AgentHook():
            return f"runs an agent: {' '.join(filter(None, (handler.agent, handler.prompt)))}"


def _describe_server(server: PluginServer) -> str:
    entry: Any = server.entry
    if find_transport(entry) == "stdio":
        does = " ".join((str(entry.get("command", "")), *map(str, entry.get("args", ()))))
    else:
        does = f"connects to {entry.get('url', '')}"
    variables = sorted(set(list_variables(entry)) - _OWN_VARIABLES)
    gets = f" (gets your {', '.join(variables)})" if variables else ""
    return sanitize_line(f"{server.short_name}{gets}: {redact(does)}", _MAX_LINE)


def _describe_warnings(parts: Contribution) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sanitize_line(str(one), 200) for one in parts.warnings))
