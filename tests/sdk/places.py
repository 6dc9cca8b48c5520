"""A project, a home, and interactive sessions in them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

from clew.core.events import Envelope
from clew.providers.scripted import ScriptedProvider, ScriptedReply
from clew.sdk.options import InteractiveOptions
from clew.sdk.session import InteractiveSession


@dataclass
class Place:
    """Folders of a user who works on a project."""

    root: Path
    provider: ScriptedProvider = field(default_factory=lambda: ScriptedProvider([]))

    def __post_init__(self) -> None:
        self.project.mkdir(parents=True, exist_ok=True)

    @property
    def project(self) -> Path:
        return self.root / "home" / "project"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def clew_home(self) -> Path:
        return self.home / ".clew"

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def skill(self, name: str, head: str, body: str) -> Path:
        """Write a skill of the project."""
        text = f"---\nname: {name}\ndescription: does {name}\n{head}---\n{body}\n"
        return self.write(f".claude/skills/{name}/SKILL.md", text)

    def session(
        self, replies: Iterable[ScriptedReply] = (), **options: Unpack[InteractiveOptions]
    ) -> InteractiveSession:
        """Make a session; the provider answers with `replies`."""
        self.provider = ScriptedProvider(replies)
        merged: InteractiveOptions = {
            "cwd": self.project,
            "model": "m",
            "user_home": self.home,
            "clew_home": self.clew_home,
            "environ": {},
            **options,
        }
        return InteractiveSession(provider=self.provider, **merged)


@dataclass
class Heard:
    """Everything that a client heard, in order."""

    envelopes: list[Envelope] = field(default_factory=list)

    def __call__(self, envelope: Envelope) -> None:
        self.envelopes.append(envelope)

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.envelopes if not one.task_id and one.name != "entry"]

    def of(self, name: str) -> list[Any]:
        """Return the session's own events of one kind."""
        return [one.event for one in self.envelopes if one.name == name and not one.task_id]
