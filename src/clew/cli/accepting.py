"""Asking once whether a folder's own settings shall count."""

import os
import sys
from pathlib import Path

from clew.cli.editor import LineEditor
from clew.cli.sanitize import one_line
from clew.cli.screen import Screen
from clew.cli.status import Standing
from clew.config.settings import LoadedSettings
from clew.sdk.folders import Homes, user_folder
from clew.sdk.project_scan import load_project_settings, trust_record

_MOST = 12
_SHOWN = 160


def ask_to_accept(cwd: Path, screen: Screen) -> None:
    """Ask about settings that came with a folder, if nobody has answered for just these.

    Without a terminal nobody can be asked: then they do not count.
    """
    homes = Homes.of(os.environ)
    loaded = load_project_settings(cwd, homes, os.environ)
    trust = trust_record(homes)
    if not loaded.withheld or not sys.stdin.isatty() or trust.is_declined(cwd, loaded.fingerprint):
        return
    _show(loaded, screen)
    if _answered_yes(screen):
        trust.accept(cwd, loaded.fingerprint)
        screen.line("accepted, until one of these files changes", "dim")
    else:
        trust.decline(cwd, loaded.fingerprint)
        screen.line("they do not count; `clew config accept` accepts them later", "dim")


def _show(loaded: LoadedSettings, screen: Screen) -> None:
    screen.say(f"The settings in {loaded.cwd} ask for more than a folder may without you:")
    for one in loaded.withheld[:_MOST]:
        name = os.path.relpath(one.path, loaded.cwd)
        screen.say(f"  {one_line(f'{name}: {one.key} {one.why}', _SHOWN)}")
    if len(loaded.withheld) > _MOST:
        screen.line(f"  … {len(loaded.withheld) - _MOST} more; `clew config show` lists all")


def _answered_yes(screen: Screen) -> bool:
    # The editor takes no keys for an answer that were pressed before the question was there.
    editor = LineEditor(user_folder() / "history", complete=lambda _: [], status=_no_standing)
    screen.say("Do you trust this folder? [y]es, [n]o")
    while True:
        screen.check()
        try:
            typed = editor.ask("trust? ").strip().lower()
        except EOFError:
            screen.line()
            return False
        if typed in ("y", "yes", "n", "no"):
            return typed.startswith("y")
        screen.line("please answer with y or n")


def _no_standing() -> Standing:
    return Standing(model="", mode="")
