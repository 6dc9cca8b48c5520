"""What a plugin adds, in words: shown before anything of it can run.

The words are those of an author whom the user may not know, so nothing in them is left out or
replaced without a note.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from clew.core.sanitize import sanitize, sanitize_line
from clew.core.text import pluralize
from clew.extensions.plugins.contribution import Contribution, Plugin, PluginServer
from clew.hooks.handlers import AgentHook, CommandHook, HookHandler, HttpHook, PromptHook
from clew.hooks.settings import Hook
from clew.tools.mcp.config import find_transport, list_variables

_MAX_LINE = 1_000
"""Characters of a command line that are shown."""
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
    allows: tuple[str, ...] = ()
    """Calls that a skill or command makes without asking while the user runs it."""
    prompt_tokens: int = 0
    """About how many tokens it adds to every request."""
    warnings: tuple[str, ...] = ()

    @property
    def runs_programs(self) -> bool:
        """True when it has hooks or servers."""
        return bool(self.hooks or self.servers)


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
        hooks=tuple(describe_hook(hook) for hook in parts.hooks.hooks),
        servers=tuple(describe_server(one) for one in parts.servers),
        allows=list_allowed(plugin),
        prompt_tokens=parts.prompt_tokens,
        warnings=_describe_warnings(parts),
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
            lines.append(f"  {pluralize(len(names), word)}: {join_names(names)}")
    for word, rows in (("hook", summary.hooks), ("MCP server", summary.servers)):
        if rows:
            lines.append(f"  {pluralize(len(rows), word)}, which can run programs:")
            lines += (f"    {row}" for row in rows)
    if summary.allows:
        lines.append("  while you run them, these do not ask:")
        lines += (f"    {row}" for row in summary.allows)
    if summary.prompt_tokens:
        lines.append(f"  about {pluralize(summary.prompt_tokens, 'token')} in every request")
    if summary.servers:
        lines.append("  the tools of its servers are known when they run")
    if len(lines) == bool(summary.description):
        lines.append("  nothing that Clew can use")
    return [*lines, *_format_warnings(summary.warnings)]


def _format_warnings(warnings: Sequence[str]) -> list[str]:
    lines = [f"  not used: {one}" for one in warnings[:_MAX_WARNINGS]]
    if len(warnings) > _MAX_WARNINGS:
        lines.append(f"  not used: … and {len(warnings) - _MAX_WARNINGS:,} more")
    return lines


def join_names(names: Sequence[str]) -> str:
    """Return a list of names, and how many are left out."""
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" … and {more:,} more" if more > 0 else "")


def _shorten(plugin: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sanitize_line(name.removeprefix(f"{plugin}:"), 100) for name in names)


def list_allowed(plugin: Plugin) -> tuple[str, ...]:
    """Return what each skill and command may do without a question: its `allowed-tools`.

    The folder of the plugin has another path in every version, so it is named by its variable.
    """
    root = str(plugin.root)
    return tuple(
        _cut(f"/{one.name}: {', '.join(one.allowed_tools)}".replace(root, "${CLAUDE_PLUGIN_ROOT}"))
        for one in plugin.contribution.callable_skills
        if one.allowed_tools and one.user_invocable
    )


def describe_hook(hook: Hook) -> str:
    """Return what a hook runs, and when."""
    names, pattern = hook.matcher.names, hook.matcher.pattern
    only = ", ".join(sorted(names)) if names is not None else pattern.pattern if pattern else ""
    when = f"{hook.event}({only})" if only else str(hook.event)
    gets = hook.handler.allowed_env_vars if isinstance(hook.handler, HttpHook) else ()
    return _cut(f"{when}{_describe_use(gets, hook.env)}: {_describe_handler(hook.handler)}")


def _describe_handler(handler: HookHandler) -> str:
    match handler:
        case CommandHook():
            return " ".join((handler.command, *(handler.args or ())))
        case HttpHook():
            return f"sends the event to {handler.url}{_describe_headers(handler.headers)}"
        case PromptHook():
            return f"asks the model: {handler.prompt}"
        case AgentHook():
            return f"runs an agent: {' '.join(filter(None, (handler.agent, handler.prompt)))}"


def describe_server(server: PluginServer) -> str:
    """Return what a server runs, or where it is, and what it gets."""
    entry: Any = server.entry
    if find_transport(entry) == "stdio":
        does = " ".join((str(entry.get("command", "")), *map(str, entry.get("args", ()))))
        does += f" (in the folder {entry['cwd']})" if entry.get("cwd") else ""
    else:
        does = f"connects to {entry.get('url', '')}{_describe_headers(entry.get('headers') or {})}"
    gets = sorted(set(list_variables(entry)) - _OWN_VARIABLES)
    return _cut(f"{server.short_name}{_describe_use(gets, entry.get('env') or {})}: {does}")


def _describe_use(gets: Sequence[str], sets: Mapping[str, Any]) -> str:
    said = [f"gets your {', '.join(gets)}"] if gets else []
    said += [f"sets {', '.join(f'{name}={value}' for name, value in sets.items())}"] if sets else []
    return f" ({'; '.join(said)})" if said else ""


def _describe_headers(headers: Mapping[str, Any]) -> str:
    return f" (with the headers {', '.join(headers)})" if headers else ""


def _cut(text: str) -> str:
    line = " ".join(text.split())
    more = len(line) - _MAX_LINE
    shown = sanitize(line[:_MAX_LINE])
    return f"{shown} … and {pluralize(more, 'more character')}" if more > 0 else shown


def _describe_warnings(parts: Contribution) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sanitize_line(str(one), 200) for one in parts.warnings))
