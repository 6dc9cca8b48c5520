"""The results file: one section per table, replaced when its benchmark runs again."""

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "RESULTS.md"
HEADER = "# Results\n\nWritten by `python -m benchmarks`; each section says when and where."


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one benchmark found."""

    title: str
    """Names the section; a section of the same title is replaced."""
    command: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]


def publish(section: Section) -> None:
    """Print a section, and replace it in the results file."""
    write(section)
    rows = (" | ".join(row) for row in (section.columns, *section.rows))
    print(f"== {section.title}", *rows, *section.notes, "", sep="\n")


def write(section: Section, path: Path = RESULTS) -> None:
    """Put `section` into the file, leaving the other sections as they are."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(merge(old, section.title, render(section)), encoding="utf-8")


def merge(old: str, title: str, body: str) -> str:
    """Return the file's text with the section `title` replaced, or added at the end."""
    kept = re.split(r"^## ", old, flags=re.MULTILINE)[1:]
    sections = {text.partition("\n")[0]: text.partition("\n")[2].strip() for text in kept}
    sections[title] = body
    parts = (f"## {name}\n\n{text}" for name, text in sections.items())
    return "\n\n".join([HEADER, *parts]) + "\n"


def render(section: Section) -> str:
    """Return the Markdown beneath a section's title."""
    facts = [f"- measured: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC", f"- machine: {machine()}"]
    facts.append(f"- command: `{section.command}`")
    notes = [f"- {note}" for note in section.notes]
    return "\n\n".join("\n".join(part) for part in (facts, _table(section), notes))


def machine() -> str:
    """Return the facts about this machine that a number depends on."""
    cores = os.cpu_count() or 1
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{cores} cores, {python}, {platform.platform()}"


def judge(met: bool) -> str:  # noqa: FBT001 - the only thing it judges
    """Return the word that stands beside a target."""
    return "met" if met else "**missed**"


def _table(section: Section) -> list[str]:
    numbers = ["---:"] * (len(section.columns) - 1)
    return [_line(row) for row in (section.columns, ["---", *numbers], *section.rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
