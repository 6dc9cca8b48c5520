"""A collection of real plugins: how many of its skills, commands and agents load.

`python -m tests.extensions.archive` prints the counts.
"""

import sys
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.agent_discovery import scan_agents
from clew.extensions.discovery import Folder, Refused, read_whole
from clew.extensions.frontmatter import read_frontmatter
from clew.extensions.skill_template import render_skill
from clew.extensions.skills import Skill, scan_commands, scan_skills

ARCHIVE = Path(__file__).parents[3] / "shared" / "data" / "plugins_skills.tar.gz"
Loaded: TypeAlias = Skill | AgentDefinition | Path


@dataclass(slots=True)
class Count:
    """How the files of one kind fared."""

    loaded: list[Loaded] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)
    refused: list[Refused] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)

    def take(self, place: Path, found: Iterable[Loaded | Refused]) -> None:
        """Count what a scan yields; an exception is a crash."""
        try:
            for each in found:
                if isinstance(each, Refused):
                    self.refused.append(each)
                else:
                    self.loaded.append(each)
                    self.problems.update(getattr(each, "problems", ()))
        except Exception as error:  # noqa: BLE001 - that it never happens is what is counted
            self.crashed.append(f"{place}: {error!r}")


def extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract an archive; Python has the filter from 3.11.4 on."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)


def unpack(folder: Path) -> Path:
    """Unpack the collection and return where it is."""
    with tarfile.open(ARCHIVE) as archive:
        extract(archive, folder)
    return folder


def survey(root: Path) -> dict[str, Count]:
    """Load all there is below `root`: skills are rendered too, and all other texts are read."""
    counts = {kind: Count() for kind in ("skills", "commands", "agents", "other texts")}
    # Fixtures are folders of skills under names of their own.
    for place in sorted({path.parent.parent for path in root.rglob("SKILL.md")}):
        counts["skills"].take(place, _rendered(scan_skills(Folder(place, root), source="plugin")))
    for place in _folders(root, "commands"):
        found = scan_commands(Folder(place, root), source="plugin")
        counts["commands"].take(place, _rendered(found))
    for place in _folders(root, "agents"):
        counts["agents"].take(place, scan_agents(Folder(place, root), source="plugin"))
    for path in sorted(root.rglob("*.md")):
        if path.name != "SKILL.md" and not {"commands", "agents"} & set(path.parts):
            counts["other texts"].take(path, _text(path, root))
    return counts


def _folders(root: Path, name: str) -> list[Path]:
    return [path for path in sorted(root.rglob(name)) if path.is_dir() and any(path.glob("*.md"))]


def _rendered(found: Iterable[Skill | Refused]) -> Iterator[Skill | Refused]:
    for each in found:
        if isinstance(each, Skill):
            assert "one" in render_skill(
                each, "one 'two three'", session_id="s", project_dir=each.folder
            )
        yield each


def _text(path: Path, tree: Path) -> Iterator[Path | Refused]:
    text = read_whole(path, tree=tree)
    if isinstance(text, Refused):
        yield text
    else:
        read_frontmatter(text)
        yield path


def lines(counts: dict[str, Count]) -> list[str]:
    """Return the counts as a table, then every reason."""
    table = [f"{'':<12}{'loaded':>8}{'of these with problems':>24}{'refused':>9}{'crashed':>9}"]
    for kind, count in counts.items():
        flawed = sum(bool(getattr(found, "problems", ())) for found in count.loaded)
        table.append(
            f"{kind:<12}{len(count.loaded):>8}{flawed:>24}"
            f"{len(count.refused):>9}{len(count.crashed):>9}"
        )
    for kind, count in counts.items():
        table += [f"{kind}, problem ({times}): {why}" for why, times in count.problems.items()]
        table += [f"{kind}, refused: {refused}" for refused in count.refused]
        table += [f"{kind}, crashed: {crash}" for crash in count.crashed]
    return table


def main() -> int:
    """Print the counts; returns 1 when there is nothing to count or something crashed."""
    if not ARCHIVE.is_file():
        sys.stderr.write(f"there is no collection at {ARCHIVE}\n")
        return 1
    with TemporaryDirectory() as folder:
        counts = survey(unpack(Path(folder)))
    sys.stdout.write("\n".join(lines(counts)) + "\n")
    return int(any(count.crashed for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
