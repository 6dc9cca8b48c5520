"""How a new version of a plugin differs from the installed one, and whether the user must agree.

Hooks and servers are compared by all of their settings, not by the words that people read.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from clew.core.text import pluralize
from clew.extensions.plugins.content import FileChanges, show
from clew.extensions.plugins.contribution import Plugin, PluginServer
from clew.extensions.plugins.summary import (
    describe_hook,
    describe_server,
    join_names,
    list_allowed,
    summarize,
)
from clew.hooks.settings import Hook


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
    """True when its skills or commands do more without asking, or when it runs programs, and
    anything but the text of its skills, commands and agents has changed."""


def compare(old: Plugin, new: Plugin, files: FileChanges) -> SummaryChange:
    """Return what an update changes.

    Args:
        old: The installed version.
        new: The new version.
        files: The files that differ.
    """
    before, after = _list_programs(old), _list_programs(new)
    scripts = _find_scripts(old, new, files, after) if after else []
    added, removed = _list_texts(new, old), _list_texts(old, new)
    for key, line in after.items():
        if key not in before:
            same = line in before.values()
            added.append(f"{line} (with other settings)" if same else line)
    removed += [
        line for key, line in before.items() if key not in after and line not in after.values()
    ]
    allowed = [one for one in list_allowed(new) if one not in list_allowed(old)]
    added += (f"without asking, while you run it: {one}" for one in allowed)
    if old.name != new.name:
        added.append(f"the name {new.name}, instead of {old.name}")
    unexplained = files.differ and not files.paths
    asks = before.keys() != after.keys() or bool(scripts) or unexplained
    return SummaryChange(
        added=tuple(added),
        removed=tuple(removed),
        scripts=tuple(map(show, scripts)),
        files=len(files.paths),
        must_ask=old.name != new.name or bool(allowed) or (bool(after) and asks),
    )


def format_change(change: SummaryChange) -> list[str]:
    """Return what an update changes as lines for people, sanitized."""
    lines = [f"  + {one}" for one in change.added]
    lines += (f"  - {one}" for one in change.removed)
    if change.scripts:
        lines.append(f"  changed files that it may run: {join_names(change.scripts)}")
    if change.files:
        lines.append(f"  {pluralize(change.files, 'file')} changed")
    return lines or ["  its description, or what its marketplace says about it"]


def _find_scripts(
    old: Plugin, new: Plugin, files: FileChanges, programs: Iterable[str]
) -> list[str]:
    """Return the changed files that programs may run, those that their command lines name first.

    All count, except Markdown files that are read as text wherever they are.
    """
    lines = "\n".join(programs)
    before, after = _list_markdown(old), _list_markdown(new)
    texts = {
        *(path for path in files.added if path in after),
        *(path for path in files.removed if path in before),
        *(path for path in files.changed if path in before and path in after),
    }
    if ".md" in lines.lower():
        texts = set()
    found = [path for path in files.paths if path not in texts]
    return sorted(found, key=lambda path: (path.rpartition("/")[2] not in lines, path))


def _list_markdown(plugin: Plugin) -> set[str]:
    """Return the paths of Markdown files that are read as skills, commands and agents."""
    parts = plugin.contribution
    paths = [*(one.path for one in parts.callable_skills), *(one.path for one in parts.agents)]
    return {
        path.relative_to(plugin.root).as_posix()
        for path in paths
        if path is not None and path.suffix == ".md" and path.is_relative_to(plugin.root)
    }


def _list_texts(plugin: Plugin, other: Plugin) -> list[str]:
    """Return the skills, commands and agents that only the first plugin has."""
    mine, others = summarize(plugin), summarize(other)
    kinds = (
        ("skill", mine.skills, others.skills),
        ("command", mine.commands, others.commands),
        ("agent", mine.agents, others.agents),
    )
    return [f"{kind} {one}" for kind, names, known in kinds for one in names if one not in known]


def _list_programs(plugin: Plugin) -> dict[str, str]:
    """Return what runs programs: all settings of each hook and server, and the words for it."""
    parts = plugin.contribution
    return {
        **{_encode_hook(one): f"hook {describe_hook(one)}" for one in parts.hooks.hooks},
        **{_encode_server(one): f"server {describe_server(one)}" for one in parts.servers},
    }


def _encode_hook(hook: Hook) -> str:
    names, pattern = hook.matcher.names, hook.matcher.pattern
    only = sorted(names) if names is not None else pattern and pattern.pattern
    handler = type(hook.handler).__name__, hook.handler
    return _encode(("hook", hook.event, only, handler, dict(hook.env)))


def _encode_server(server: PluginServer) -> str:
    return _encode(("server", server.short_name, dict(server.entry)))


def _encode(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
