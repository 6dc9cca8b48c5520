"""Questions at the prompt: whether to trust a folder, and which session to open."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from anyio.from_thread import BlockingPortal

from clew.cli.editor import LineEditor
from clew.cli.input_loop import InputLoop
from clew.cli.paint import format_time
from clew.cli.replies import NEW
from clew.cli.screen import Screen
from clew.cli.status import SessionStatus
from clew.core.sanitize import sanitize_line
from clew.core.text import pluralize
from clew.sdk.folders import user_folder
from clew.sdk.launch import LaunchedSession
from clew.sdk.settings import LoadedSettings, ProjectSettings

_MAX_SETTINGS = 12
_MAX_SETTING = 160
_MAX_SESSIONS = 15
_MAX_HEADING = 60


def ask_to_trust(cwd: Path, screen: Screen, environ: Mapping[str, str] | None = None) -> None:
    """Ask whether the folder's own settings may apply, unless the user decided before.

    Without a terminal there is no question, and the settings stay withheld.

    Args:
        cwd: The folder.
        screen: Where to ask.
        environ: Environment variables; by default those of the process.
    """
    settings = ProjectSettings(cwd, environ)
    loaded = settings.load()
    if not loaded.withheld or not sys.stdin.isatty() or settings.is_declined(loaded):
        return
    _show_withheld(loaded, screen)
    if _ask_yes_or_no(screen):
        settings.accept(loaded)
        screen.line("accepted until one of these files changes", "dim")
    else:
        settings.decline(loaded)
        screen.line("these settings are ignored; `clew config accept` accepts them later", "dim")


def _show_withheld(loaded: LoadedSettings, screen: Screen) -> None:
    screen.say(f"The settings in {loaded.cwd} need your permission:")
    for one in loaded.withheld[:_MAX_SETTINGS]:
        name = os.path.relpath(one.path, loaded.cwd)
        screen.say(f"  {sanitize_line(f'{name}: {one.key} {one.why}', _MAX_SETTING)}")
    if len(loaded.withheld) > _MAX_SETTINGS:
        more = len(loaded.withheld) - _MAX_SETTINGS
        screen.line(f"  … {more} more; `clew config show` lists all of them")


def _ask_yes_or_no(screen: Screen) -> bool:
    # `ask` drops keys that were pressed before the question was shown.
    editor = LineEditor(user_folder() / "history", complete=lambda _: [], status=_empty_status)
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
        screen.line("answer with y or n")


def _empty_status() -> SessionStatus:
    return SessionStatus(model="", mode="")


def pick_session(
    launched: LaunchedSession,
    candidates: tuple[str, ...],
    *,
    portal: BlockingPortal,
    loop: InputLoop,
    screen: Screen,
) -> str | None:
    """List sessions and ask which one to open; returns its id, `NEW`, or None to stay."""
    found = portal.call(launched.other_sessions)
    records = [one for one in found if not candidates or one.id in candidates][:_MAX_SESSIONS]
    if not records:
        screen.line("there are no other sessions in this folder")
        return None
    for number, record in enumerate(records, start=1):
        title = sanitize_line(record.heading, _MAX_HEADING) or record.id
        facts = f"{pluralize(record.messages, 'message')}, {format_time(record.updated_at)}"
        screen.say(f"  {number:>2}  {title}  ({facts})")
    screen.say("type a number, n for a new session, or Enter to stay")
    while True:
        try:
            typed = loop.ask_line("session? ")
        except (EOFError, KeyboardInterrupt):
            return None
        match typed.strip().lower():
            case "":
                return None
            case "n":
                return NEW
            case text if text.isdecimal() and 1 <= int(text[:4]) <= len(records):
                return records[int(text[:4]) - 1].id
            case _:
                screen.line(f"type a number from 1 to {len(records)}")
