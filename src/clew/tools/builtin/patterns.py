"""Glob patterns over relative paths, as Glob and Grep take them."""

import re

from clew.tools.builtin.files import Unusable

_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|\{[^{}]*\}|.", re.DOTALL)


def translate(pattern: str) -> str:
    """Return the regular expression of a glob, to be matched against a whole path.

    `*` and `?` stay within a folder, `**` crosses folders, `[…]` and `{a,b}` choose.
    """
    return "".join(_piece(token) for token in _TOKEN.findall(pattern.removeprefix("./")))


def translate_filter(pattern: str) -> str:
    """Like `translate`, but a pattern without a slash holds in every folder."""
    return translate(pattern if "/" in pattern else f"**/{pattern}")


def refuse_escape(pattern: str) -> None:
    """Make sure that a pattern stays below the folder it is looked for in.

    Raises:
        Unusable: It is absolute or climbs; rules about paths would not see where to.
    """
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        raise Unusable(f"The pattern {pattern} leaves the folder. Give the folder as `path`.")


def _piece(token: str) -> str:
    match token:
        case "**/":
            return "(?:[^/]+/)*"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if len(token) > 1 and token[0] == "[":
        inside = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"[^/{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
    if len(token) > 1:
        return "(?:" + "|".join(translate(part) for part in token[1:-1].split(",")) + ")"
    return re.escape(token)
