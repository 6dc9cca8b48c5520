"""Settings files of other programs, translated to the names and values of Clew.

What Clew cannot use is not a mistake: it is returned separately and reported as unused.
"""

import re
from typing import Any

from clew.config.documents import KeyPath, find_mistakes
from clew.config.schema import McpServerSection

_CLAUDE_MODES = {"manual": "default", "auto": "default", "dontAsk": "default"}
_WITHOUT_EQUIVALENT = frozenset({"auto", "dontAsk"})
"""Modes that Clew does not have; asking is the safe replacement."""
_CLAUDE_ALIAS = re.compile(r"(?:default|best|haiku|sonnet|opus|opusplan)(?:\[\w+\])?|.*\[\w+\]")
"""Model names that only Claude Code can resolve."""


def translate_mcp(data: dict[str, Any]) -> tuple[dict[str, Any], tuple[KeyPath, ...]]:
    """Keep the servers that Clew can start: one that it cannot should not stop a session."""
    servers, unused = data.get("mcpServers"), [(key,) for key in data if key != "mcpServers"]
    if not isinstance(servers, dict):
        return ({} if servers is None else {"mcpServers": servers}), tuple(unused)
    found: dict[str, Any] = {}
    wrong: list[KeyPath] = []
    for name, server in servers.items():
        is_server = isinstance(server, dict)
        if is_server and not find_mistakes(server, McpServerSection, tolerant=True):
            found[name] = server
        else:
            wrong.append(("mcpServers", name))
    return {"mcpServers": found}, (*unused, *wrong)


def translate_claude(data: dict[str, Any]) -> tuple[dict[str, Any], tuple[KeyPath, ...]]:
    """Translate Claude Code's values to Clew's; also return the paths without an equivalent."""
    unused: list[KeyPath] = []
    found = dict(data)
    match data.get("permissions"):
        case {"defaultMode": str(mode), **rest} if mode in _CLAUDE_MODES:
            found["permissions"] = {**rest, "defaultMode": _CLAUDE_MODES[mode]}
            if mode in _WITHOUT_EQUIVALENT:
                unused.append(("permissions", "defaultMode"))
    match data.get("sandbox"):
        case {"enabled": bool(enabled), **rest}:
            required = rest.pop("failIfUnavailable", False) is True
            mode = ("on" if required else "auto") if enabled else "off"
            found["sandbox"] = {**rest, "mode": mode}
    match data.get("model"):
        case str(model) if _CLAUDE_ALIAS.fullmatch(model):
            del found["model"]
            unused.append(("model",))
    unused += _translate_plugins(found)
    return found, tuple(unused)


def _translate_plugins(found: dict[str, Any]) -> list[KeyPath]:
    """Keep what Clew understands of plugins; returns the rest."""
    unused: list[KeyPath] = []
    for key, translate in (
        ("enabledPlugins", _translate_state),
        ("extraKnownMarketplaces", _translate_marketplace),
    ):
        entries = found.pop(key, {})
        if not isinstance(entries, dict):
            unused.append((key,))
            continue
        new = {name: translate(entry) for name, entry in entries.items()}
        unused += ((key, name) for name, entry in new.items() if entry is None)
        if kept := {name: entry for name, entry in new.items() if entry is not None}:
            found[key] = kept
    return unused


def _translate_state(state: object) -> bool | None:
    """Return whether a plugin is on; a list has the versions that may be used."""
    return bool(state) if isinstance(state, bool | list) else None


def _translate_marketplace(entry: object) -> dict[str, Any] | None:
    match entry:
        case {"source": dict(source)}:
            return {"source": source}
        case _:
            return None
