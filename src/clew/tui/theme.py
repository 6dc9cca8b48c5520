"""Colours and characters of the terminal UI: dark, light, colour-blind safe, and plain."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from clew.core.sanitize import sanitize

_DARK = {
    "dim": "2",
    "bold": "1",
    "italic": "3",
    "strike": "9",
    "prompt": "1;36",
    "heading": "1;36",
    "code": "36",
    "link": "4;34",
    "quote": "2;3",
    "marker": "36",
    "tool": "1",
    "success": "32",
    "warning": "33",
    "error": "31",
    "added": "32",
    "removed": "31",
    "added_word": "7;32",
    "removed_word": "7;31",
    "number": "2",
    "ok": "32",
    "high": "33",
    "full": "31",
}
_LIGHT = {
    **_DARK,
    "prompt": "1;34",
    "heading": "1;34",
    "code": "35",
    "marker": "34",
    "warning": "35",
    "high": "35",
}
_COLOUR_BLIND = {
    **_DARK,
    "success": "34",
    "error": "1;33",
    "warning": "33",
    "added": "94",
    "removed": "33",
    "added_word": "7;94",
    "removed_word": "7;33",
    "ok": "94",
    "high": "33",
    "full": "1;7;33",
}
"""Blue and yellow: people who do not see red or green can tell them apart."""

THEMES: Mapping[str, tuple[Mapping[str, str], str]] = {
    "dark": (_DARK, "ansi_dark"),
    "light": (_LIGHT, "ansi_light"),
    "colour-blind": (_COLOUR_BLIND, "ansi_dark"),
}
"""The SGR parameters of each style, and the theme of code, by the name of the theme."""

_DUMB = frozenset({"", "dumb", "unknown"})
_SUBSTITUTES = str.maketrans(
    {
        **dict.fromkeys("“”„«»", '"'),
        **dict.fromkeys("‘’‚", "'"),
        **dict.fromkeys("–—‒―−─━═", "-"),
        **dict.fromkeys("│┃║▌⎿", "|"),
        **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯╔╗╚╝", "+"),
        **dict.fromkeys("•●◦▪", "*"),
        **dict.fromkeys("✓✔☑", "v"),
        **dict.fromkeys("✗✘☒", "x"),
        "…": "...",
        "→": "->",
        "←": "<-",
        "↑": "^",
        "↓": "v",
        "⇒": "=>",
        "≤": "<=",
        "≥": ">=",
        "≠": "!=",
        "❯": ">",
        "›": ">",
        "·": "-",
        "☐": "o",
        "◐": "~",
        "✻": "*",
        "█": "#",
        "░": ".",
        "×": "x",
        "€": "EUR",
        "™": "(TM)",
        "\N{NO-BREAK SPACE}": " ",
    }
)
"""Characters that a terminal may not have, and how ASCII writes them."""
_CONTROL_PICTURES = range(0x2400, 0x2422)
_PLAIN_GLYPHS = {"❯": ">", "✓": "ok:", "✗": "failed:", "✻": "*", "│": "|", "•": "-", "→": "->"}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII_SPINNER = "|/-\\"


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """How the terminal shows text. Make one with `make_theme`."""

    name: str = "dark"
    styles: Mapping[str, str]
    """The SGR parameters of each style; empty without colours."""
    code_theme: str = "ansi_dark"
    """The `rich` theme for code; empty for no colours."""
    encoding: str = "utf-8"
    is_plain: bool = False
    """True for text without colours, boxes and signs, as for a screen reader."""

    @property
    def has_colours(self) -> bool:
        """True if styles have an effect."""
        return bool(self.styles)

    @property
    def is_unicode(self) -> bool:
        """True if the terminal can show every character."""
        return self.encoding.replace("-", "").lower().startswith("utf")

    def sgr(self, style: str) -> str:
        """Return the SGR parameters of a style; empty for none."""
        return self.styles.get(style, "")

    def paint(self, text: str, style: str) -> str:
        """Return `text` in a style; it must be clean."""
        sgr = self.sgr(style)
        return f"\x1b[{sgr}m{text}\x1b[0m" if sgr and text else text

    def clean(self, text: str) -> str:
        """Return untrusted text as this terminal can show it: sanitized and encodable."""
        return self.encodable(sanitize(text))

    def encodable(self, text: str) -> str:
        """Return text with substitutes for characters that the terminal cannot show."""
        if self.is_unicode or text.isascii():
            return text
        return "".join(one if one.isascii() else _substitute(one, self.encoding) for one in text)

    def glyph(self, sign: str) -> str:
        """Return a sign such as `✓`, or what stands for it here."""
        return self.encodable(_PLAIN_GLYPHS.get(sign, sign) if self.is_plain else sign)

    def spinner(self, now: float) -> str:
        """Return the sign of work at that time."""
        frames = _SPINNER if self.is_unicode and not self.is_plain else _ASCII_SPINNER
        return frames[int(now * 10) % len(frames)]


def make_theme(
    name: str = "dark",
    *,
    plain: bool = False,
    colours: bool = True,
    encoding: str = "utf-8",
) -> Theme:
    """Return a theme by its name; an unknown name gets the dark one.

    Args:
        name: One of `THEMES`.
        plain: No colours, boxes and signs.
        colours: False for no colours; see `wants_colours`.
        encoding: The encoding of the terminal.
    """
    found = name if name in THEMES else "dark"
    styles, code_theme = THEMES[found]
    painted = colours and not plain
    return Theme(
        name=found,
        styles=styles if painted else {},
        code_theme=code_theme if painted else "",
        encoding=encoding,
        is_plain=plain,
    )


def wants_colours(environ: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Return whether to use colours: `NO_COLOR`, `FORCE_COLOR` and the kind of terminal decide."""
    if environ.get("NO_COLOR"):
        return False
    is_dumb = os.name == "posix" and environ.get("TERM", "").lower() in _DUMB
    return bool(environ.get("FORCE_COLOR")) or (is_terminal and not is_dumb)


@lru_cache(maxsize=4096)
def _substitute(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except LookupError:
        pass
    except UnicodeEncodeError:
        if ord(character) in _CONTROL_PICTURES:
            return f"<{ord(character) - 0x2400:02X}>"
    else:
        return character
    written = character.translate(_SUBSTITUTES)
    return written if written.isascii() else "?"
