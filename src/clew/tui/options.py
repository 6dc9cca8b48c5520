"""The options of the terminal UI, from the settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from clew.sdk.settings import ProjectSettings

Notify: TypeAlias = Literal["off", "bell", "osc9", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalOptions:
    """How the terminal looks and behaves."""

    theme: str = "dark"
    vi: bool = False
    title: bool = True
    """Show the session in the window title."""
    notify: Notify = "both"
    notify_after: float = 10.0
    """Seconds without a key before the user is told that a run has ended or asks."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """The keys of actions that differ from the default."""
    status_command: str = ""
    """A shell command whose output is the status line; empty for none."""
    status_padding: int = 0


def load_options(cwd: Path, environ: Mapping[str, str] | None) -> TerminalOptions:
    """Read the settings of a folder.

    Raises:
        ConfigError: A settings file is wrong.
    """
    settings = ProjectSettings(cwd, environ).load().settings
    terminal, status = settings.terminal, settings.status_line
    return TerminalOptions(
        theme=_value(terminal.theme, "dark"),
        vi=_value(terminal.vi_mode, False),  # noqa: FBT003
        title=_value(terminal.title, True),  # noqa: FBT003
        notify=_value(terminal.notify, "both"),
        notify_after=_value(terminal.notify_after, 10),
        keys=terminal.key_bindings,
        status_command=status.command if status else "",
        status_padding=_value(status.padding, 0) if status else 0,
    )


def _value(value: Any | UnsetType, default: Any) -> Any:
    return default if value is UNSET else value
