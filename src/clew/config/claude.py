"""What Claude Code's settings say in words of their own, in ours."""

import re
from typing import Any

from clew.config.checking import Keys

_MODES = {"manual": "default", "auto": "default", "dontAsk": "default"}
_UNLIKE = frozenset({"auto", "dontAsk"})
"""Modes that there are not here. To ask is what comes nearest and risks nothing."""
_SHORT_NAME = re.compile(r"(?:default|best|haiku|sonnet|opus|opusplan)(?:\[\w+\])?|.*\[\w+\]")
"""Names of models that only Claude Code can tell the meaning of."""


def translated(data: dict[str, Any]) -> tuple[dict[str, Any], tuple[Keys, ...]]:
    """Return the settings in our words, and the ways to what has no like here."""
    odd: list[Keys] = []
    found = dict(data)
    match data.get("permissions"):
        case {"defaultMode": str(mode), **rest} if mode in _MODES:
            found["permissions"] = {**rest, "defaultMode": _MODES[mode]}
            if mode in _UNLIKE:
                odd.append(("permissions", "defaultMode"))
    match data.get("sandbox"):
        case {"enabled": bool(enabled), **rest}:
            must = rest.pop("failIfUnavailable", False) is True
            found["sandbox"] = {**rest, "mode": _mode(enabled=enabled, must=must)}
    match data.get("model"):
        case str(model) if _SHORT_NAME.fullmatch(model):
            del found["model"]
            odd.append(("model",))
    return found, tuple(odd)


def _mode(*, enabled: bool, must: bool) -> str:
    if not enabled:
        return "off"
    return "on" if must else "auto"
