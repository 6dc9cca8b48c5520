"""The settings of a folder: load, show, check and change them, and decide whether to trust them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.config.display import list_values, locate_problem, redact_settings
from clew.config.layers import get_value
from clew.config.providers import find_mistakes
from clew.config.schema_info import json_schema
from clew.config.session_options import build_session_options
from clew.config.settings import LoadedSettings, load_settings, load_sound, load_trusted
from clew.config.trust import Trust, format_withheld
from clew.config.updates import TARGETS, find_key, find_target, set_value, unset_value
from clew.core.errors import ConfigError
from clew.sdk.folders import Homes

__all__ = [
    "TARGETS",
    "LoadedSettings",
    "ProjectSettings",
    "SettingChange",
    "describe_settings",
    "format_withheld",
    "json_schema",
    "list_values",
    "load_project_settings",
    "trust_record",
]


class SettingChange(Struct, frozen=True, kw_only=True):
    """A settings file that was changed."""

    file: str
    """The file, as `clew config show` names it."""
    withheld: bool
    """True when part of that file has no effect until the user accepts the folder."""


class ProjectSettings:
    """The settings that apply in one folder. All methods block.

    Args:
        cwd: The folder.
        environ: Environment variables; those of the process by default.
    """

    def __init__(self, cwd: Path, environ: Mapping[str, str] | None = None) -> None:
        self.cwd = cwd
        self._environ = os.environ if environ is None else environ
        self._homes = Homes.of(self._environ)
        self._trust = trust_record(self._homes)

    def load(self) -> LoadedSettings:
        """Read all settings files; the folder's own apply in full only if the user accepted them.

        Raises:
            ConfigError: A settings file is wrong.
        """
        return load_project_settings(self.cwd, self._homes, self._environ)

    def find_problems(self) -> list[str]:
        """Return everything that is wrong, one sentence each, as if the folder were accepted.

        Each has its file and line; a file with mistakes does not hide those of the others.
        """
        loaded, problems = load_sound(
            self.cwd,
            user_home=self._homes.user,
            clew_home=self._homes.clew,
            environ=self._environ,
        )
        try:
            build_session_options(loaded.settings)
        except ConfigError as error:
            problems.append(locate_problem(loaded, str(error)))
        for mistake in find_mistakes(loaded.settings, loaded.environ):
            problems.append(locate_problem(loaded, mistake))
        return problems

    def get(self, key: str) -> Any:
        """Return one value, without secrets; None when it is not set.

        Raises:
            ConfigError: There is no such key, or a settings file is wrong.
        """
        path, _ = find_key(key)
        return get_value(redact_settings(self.load()), path)

    def set(self, key: str, text: str, *, target: str = "user") -> SettingChange:
        """Write one value into a settings file.

        Args:
            key: The key, such as `context.strategy`.
            text: The value as JSON, or plain text where the key takes a string.
            target: `user`, `project` or `local`.

        Raises:
            ConfigError: The key does not exist or cannot have that value, or the file cannot be
                written.
        """
        loaded = self.load()
        place = find_target(loaded, target)
        set_value(loaded, place, key, text, trust=self._trust)
        withheld = any(one.path == place.path for one in self.load().withheld)
        return SettingChange(file=place.label, withheld=withheld)

    def unset(self, key: str, *, target: str = "user") -> SettingChange:
        """Remove one value from a settings file.

        Raises:
            ConfigError: The key does not exist, the file does not set it, or it cannot be written.
        """
        loaded = self.load()
        place = find_target(loaded, target)
        unset_value(loaded, place, key, trust=self._trust)
        withheld = any(one.path == place.path for one in self.load().withheld)
        return SettingChange(file=place.label, withheld=withheld)

    def accept(self, loaded: LoadedSettings) -> None:
        """Let the folder's own settings apply in full, until one of its files changes."""
        self._trust.accept(self.cwd, loaded.fingerprint)

    def decline(self, loaded: LoadedSettings) -> None:
        """Remember that the user does not trust these settings."""
        self._trust.decline(self.cwd, loaded.fingerprint)

    def is_declined(self, loaded: LoadedSettings) -> bool:
        """Return whether the user declined exactly these settings."""
        return self._trust.is_declined(self.cwd, loaded.fingerprint)

    def revoke(self) -> bool:
        """Forget what the user decided about the folder; returns whether there was a decision."""
        return self._trust.forget(self.cwd)


def describe_settings(loaded: LoadedSettings) -> dict[str, Any]:
    """Return the settings, their files and what is withheld as data for JSON, without secrets."""
    return {
        "settings": redact_settings(loaded),
        "origins": {key: labels for key, _, labels in list_values(loaded)},
        "accepted": loaded.accepted,
        "fingerprint": loaded.fingerprint,
        "withheld": [
            {"path": str(each.path), "key": each.key, "why": each.why} for each in loaded.withheld
        ],
        "unused": [{"file": each.label, "key": each.key} for each in loaded.settings.unused],
        "problems": list(loaded.settings.hooks.problems),
    }


def trust_record(homes: Homes) -> Trust:
    """Return the record of the folders that the user trusts."""
    return Trust(homes.clew / "trust.json")


def load_project_settings(
    cwd: Path, homes: Homes, environ: Mapping[str, str], *, accepted: bool | None = None
) -> LoadedSettings:
    """Read the settings of a folder; its own apply only as far as the user trusts it.

    In a worktree of Clew, these are the settings of the project that it was made for.

    Args:
        cwd: The project's folder.
        homes: The user's folders.
        environ: Environment variables.
        accepted: Whether to trust the folder; None for what the user once decided.

    Raises:
        ConfigError: A settings file is wrong.
    """
    user, clew = homes.user, homes.clew
    cwd = homes.find_settings_folder(cwd)
    if accepted is None:
        return load_trusted(
            cwd, user_home=user, clew_home=clew, environ=environ, trust=trust_record(homes)
        )
    return load_settings(cwd, user_home=user, clew_home=clew, environ=environ, accepted=accepted)
