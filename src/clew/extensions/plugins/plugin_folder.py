"""The folder of a plugin: paths in it that are safe to read, and what in it is not used."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.extensions.discovery import Refused, read_whole
from clew.extensions.plugins.manifest import MANIFEST, PluginManifest, PluginProblem, ProblemKind


def resolve_path(root: Path, text: str) -> Path | PluginProblem:
    """Return a path of a manifest below the real path `root`, or why it is not used."""
    words = text.replace("\\", "/").split("/")
    shown = f"{text!r:.200}"
    if not text or "\0" in text or Path(text).is_absolute() or text.startswith("~"):
        why = "is not a path in the plugin; write it as ./folder"
        return PluginProblem(kind="outside", where=shown, why=why)
    path = root / text
    try:
        real = Path(os.path.realpath(path))
        if ".." in words or not real.is_relative_to(root):
            why = "leads out of the plugin's folder"
            return PluginProblem(kind="outside", where=shown, why=why)
        if not real.exists():
            return PluginProblem(kind="missing", where=shown, why="does not exist")
    except (OSError, ValueError) as error:
        why = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        return PluginProblem(kind="unreadable", where=shown, why=why)
    return path


class PluginFolder:
    """Reads from the folder of one plugin and collects what cannot be used."""

    def __init__(self, root: Path, manifest: PluginManifest) -> None:
        self.root = root
        """The real path."""
        self.manifest = manifest
        self.prefix = f"{manifest.name}:"
        """What the names of its parts begin with."""
        self.problems: list[PluginProblem] = []

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that the plugin's files may refer to."""
        return {"CLAUDE_PLUGIN_ROOT": str(self.root)}

    def expand(self, text: str) -> str:
        """Replace references to the plugin's folders in a text."""
        for name, value in self.variables.items():
            text = text.replace(f"${{{name}}}", value)
        return text

    def resolve(self, texts: Iterable[str]) -> Iterator[Path]:
        """Yield the paths that can be used; the others are reported."""
        for text in texts:
            found = resolve_path(self.root, text)
            if isinstance(found, PluginProblem):
                self.problems.append(found)
            else:
                yield found

    def read_sections(
        self, default: str, given: Sequence[str | dict[str, Any]]
    ) -> Iterator[tuple[str, str | dict[str, Any]]]:
        """Yield the text of the default file and of each path, and each section, with its place."""
        seen: set[str] = set()
        paths = [default] if os.path.lexists(self.root / default) else []
        for one in (*paths, *given):
            if isinstance(one, dict):
                yield MANIFEST.as_posix(), one
                continue
            for path in self.resolve((one,)):
                real = os.path.realpath(path)
                if real in seen:
                    continue
                seen.add(real)
                text = read_whole(path, tree=self.root)
                if isinstance(text, Refused):
                    self.refuse(text)
                else:
                    yield self.shorten(path), text.removeprefix("\ufeff")

    def report(self, kind: ProblemKind, where: str, why: str) -> None:
        """Add a problem."""
        self.problems.append(PluginProblem(kind=kind, where=where, why=why))

    def refuse(self, one: Refused) -> None:
        """Add a file that was not read."""
        leaves = one.why.startswith("leads out of")
        self.report("outside" if leaves else "unreadable", self.shorten(one.path), one.why)

    def shorten(self, path: Path) -> str:
        """Return a path as the plugin's author would write it."""
        inside = path.is_relative_to(self.root)
        return path.relative_to(self.root).as_posix() if inside else str(path)
