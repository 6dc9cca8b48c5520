"""The modes and options of a session as editors offer them. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from clew.acp.content import (
    AvailableCommand,
    CommandInput,
    CommandsUpdate,
    ConfigChoice,
    ConfigOption,
)
from clew.acp.messages import Mode, ModeState
from clew.core.permissions import PermissionMode
from clew.sdk.client import CommandInfo, SessionSnapshot
from clew.sdk.session_spec import EFFORTS

MODE: Final = "mode"
MODEL: Final = "model"
EFFORT: Final = "effort"
DEFAULT_EFFORT: Final = "default"
_MODES: Mapping[PermissionMode, tuple[str, str]] = {
    PermissionMode.DEFAULT: ("Default", "Ask before changes and commands"),
    PermissionMode.ACCEPT_EDITS: ("Accept edits", "Change files without asking"),
    PermissionMode.PLAN: ("Plan", "Read only, then present a plan"),
    PermissionMode.BYPASS: ("Bypass permissions", "Run everything without asking"),
}
_NOT_IN_EDITORS = frozenset({"copy", "export", "reset", "resume", "theme"})
"""Commands that change what the terminal shows; editors have their own ways."""


def list_modes(current: str) -> ModeState:
    """Return the permission modes, and which one is set."""
    modes = [Mode(id=mode, name=name, description=words) for mode, (name, words) in _MODES.items()]
    return ModeState(current_mode_id=current, available_modes=tuple(modes))


def list_options(
    snapshot: SessionSnapshot, commands: Iterable[CommandInfo]
) -> tuple[ConfigOption, ...]:
    """Return mode, model and effort with their values.

    The models are those that the server of the session offers; before it has answered, only the
    one that is set.
    """
    offered = [model.name for one in commands if one.name == "model" for model in one.subcommands]
    models = dict.fromkeys([snapshot.model, *offered])
    return (
        ConfigOption(
            id=MODE,
            name="Mode",
            category="mode",
            current_value=snapshot.mode,
            options=tuple(
                ConfigChoice(value=mode, name=name, description=words)
                for mode, (name, words) in _MODES.items()
            ),
        ),
        ConfigOption(
            id=MODEL,
            name="Model",
            category="model",
            current_value=snapshot.model,
            options=tuple(ConfigChoice(value=name, name=name) for name in models),
        ),
        ConfigOption(
            id=EFFORT,
            name="Reasoning effort",
            category="thought_level",
            current_value=snapshot.effort or DEFAULT_EFFORT,
            options=tuple(
                ConfigChoice(value=value, name=value.capitalize())
                for value in (DEFAULT_EFFORT, *EFFORTS)
            ),
        ),
    )


def list_commands(commands: Iterable[CommandInfo]) -> CommandsUpdate:
    """Return the commands that make sense in an editor."""
    return CommandsUpdate(
        tuple(
            AvailableCommand(
                name=one.name,
                description=one.description,
                input=CommandInput(one.argument_hint) if one.argument_hint else None,
            )
            for one in commands
            if one.name not in _NOT_IN_EDITORS
        )
    )
