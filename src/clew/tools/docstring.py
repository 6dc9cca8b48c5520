"""What a Google-style docstring says to a model: a description, and one per argument."""

import re
from inspect import cleandoc

from msgspec import Struct, field

_HEADING = re.compile(r"(Args|Arguments|Parameters):\s*")
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


class ParsedDocstring(Struct, frozen=True):
    """The parts of a docstring that a tool's spec shows."""

    summary: str = ""
    arguments: dict[str, str] = field(default_factory=dict)


def parse(docstring: str | None) -> ParsedDocstring:
    """Read the first paragraph and the `Args:` section; what is absent is empty."""
    lines = cleandoc(docstring or "").splitlines()
    return ParsedDocstring(_first_paragraph(lines), _arguments(lines))


def _first_paragraph(lines: list[str]) -> str:
    kept: list[str] = []
    for line in lines:
        if not line.strip() or _HEADING.fullmatch(line):
            break
        kept.append(line.strip())
    return " ".join(kept)


def _arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name, base = "", 0
    for line in _section(lines):
        indent = len(line) - len(line.lstrip())
        base = base or indent
        match = _ARGUMENT.fullmatch(line.strip())
        if indent == base and match:
            name = match[1]
            found[name] = match[2]
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _section(lines: list[str]) -> list[str]:
    start = next((at for at, line in enumerate(lines, 1) if _HEADING.fullmatch(line)), len(lines))
    section: list[str] = []
    for line in lines[start:]:
        if line and not line[0].isspace():
            break
        if line.strip():
            section.append(line)
    return section
