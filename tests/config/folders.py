"""A home, a project, and settings in them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clew.config.settings import LoadedSettings, load_settings, load_trusted
from clew.config.trust import Trust


@dataclass(frozen=True, slots=True)
class Folders:
    """Everything in which settings may be, below one folder."""

    root: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def clew_home(self) -> Path:
        return self.home / ".clew"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def trust(self) -> Trust:
        return Trust(self.clew_home / "trust.json")

    def put(self, name: str, content: Mapping[str, Any] | str | bytes) -> Path:
        """Write a file; `~/` in its name is the home, all else is in the project."""
        path = self.home / name[2:] if name.startswith("~/") else self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            path.write_text(text, encoding="utf-8")
        return path

    def load(self, *, accepted: bool = False) -> LoadedSettings:
        self.project.mkdir(parents=True, exist_ok=True)
        return load_settings(
            self.project,
            user_home=self.home,
            clew_home=self.clew_home,
            environ=self.environ,
            accepted=accepted,
        )

    def load_trusted(self) -> LoadedSettings:
        return load_trusted(
            self.project,
            user_home=self.home,
            clew_home=self.clew_home,
            environ=self.environ,
            trust=self.trust,
        )
