"""Glob patterns over relative paths, as Glob and Grep take them."""

from clew.tools.builtin.files import Unusable
from clew.tools.builtin.scan import translate

MAGIC = frozenset("*?[{")
TYPES = {
    "c": "*.{c,h}",
    "cpp": "*.{cc,cpp,cxx,h,hh,hpp,hxx,inl}",
    "cs": "*.cs",
    "css": "*.{css,scss,sass,less}",
    "go": "*.go",
    "html": "*.{html,htm}",
    "java": "*.java",
    "js": "*.{js,jsx,mjs,cjs,vue}",
    "json": "*.json",
    "kotlin": "*.{kt,kts}",
    "lua": "*.lua",
    "md": "*.{md,markdown,mdx}",
    "php": "*.php",
    "py": "*.{py,pyi}",
    "ruby": "*.{rb,gemspec}",
    "rust": "*.rs",
    "sh": "*.{sh,bash,zsh}",
    "sql": "*.sql",
    "swift": "*.swift",
    "toml": "*.toml",
    "ts": "*.{ts,tsx,mts,cts}",
    "xml": "*.xml",
    "yaml": "*.{yaml,yml}",
}
"""The most used of ripgrep's file types, for machines without it."""


def translate_filter(pattern: str) -> str:
    """Return the regular expression of a glob that, without a slash, holds in every folder."""
    if not pattern:
        return ""
    return translate(pattern.lstrip("/") if "/" in pattern else f"**/{pattern}")


def type_filter(kind: str) -> str:
    """Return the regular expression of the files of one type.

    Raises:
        Unusable: The type is not known; the message lists those that are.
    """
    if kind not in TYPES:
        raise Unusable(f"unrecognized file type: {kind}. Known here: {', '.join(TYPES)}.")
    return translate_filter(TYPES[kind])


def refuse_escape(pattern: str) -> None:
    """Make sure that a pattern stays below the folder it is looked for in.

    Raises:
        Unusable: It is absolute or climbs; rules about paths would not see where to.
    """
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        raise Unusable(f"The pattern {pattern} leaves the folder. Give the folder as `path`.")
