"""The interactive prompt: asks whether to trust the folder, then runs the terminal UI."""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio

from clew.cli.arguments import session_spec
from clew.cli.environment import own_environment
from clew.core.sanitize import sanitize_line
from clew.sdk.folders import working_folder
from clew.sdk.opened_session import OpenedSession, open_local
from clew.sdk.resume import list_resumable
from clew.sdk.settings import LoadedSettings, ProjectSettings
from clew.tui.blocks import Notice
from clew.tui.picker import Row, can_draw, pick
from clew.tui.program import (
    MAX_SESSIONS,
    ProgramOptions,
    choose_session,
    line_width,
    run,
    terminal_theme,
)
from clew.tui.rendering import render_block
from clew.tui.signals import exit_on_signals
from clew.tui.standard_output import write_out

_MAX_SETTINGS = 12
_MAX_SETTING = 160


def run_prompt(arguments: Namespace) -> int:
    """Read and execute lines until the user exits.

    Raises:
        SystemExit: A signal ended the program before a session was open.
    """
    with exit_on_signals():
        return _run_prompt(arguments)


def _run_prompt(arguments: Namespace) -> int:
    environ = own_environment(arguments)
    plain = bool(arguments.plain)
    if arguments.connect:
        return _run_remote(arguments, ProgramOptions(environ=environ, plain=plain))
    ask_to_trust(working_folder(), plain=plain, environ=environ)

    def open_session(session_id: str, *, again: bool) -> AbstractAsyncContextManager[OpenedSession]:
        if again:
            arguments.resume = arguments.fork = None
            arguments.latest = False
        return open_local(session_spec(arguments, resume=session_id), environ)

    options = ProgramOptions(environ=environ, plain=plain)
    if arguments.resume == "":
        find = partial(list_resumable, working_folder(), environ, limit=MAX_SESSIONS)
        arguments.resume = choose_session(anyio.run(find), options)
        if arguments.resume is None:
            return 0
    return run(open_session, replace(options, first=_first_line(arguments)))


def _run_remote(arguments: Namespace, options: ProgramOptions) -> int:
    from clew.cli.remote import connect, list_remote, remote_choice  # noqa: PLC0415 - seldom needed
    from clew.sdk.remote.opened import RemoteChoice, open_remote  # noqa: PLC0415

    def open_session(session_id: str, *, again: bool) -> AbstractAsyncContextManager[OpenedSession]:
        choice = remote_choice(arguments)
        if again:
            choice = RemoteChoice(resume=session_id, request=choice.request)
        return open_remote(connect(arguments), choice)

    if arguments.resume == "":
        arguments.resume = choose_session(anyio.run(list_remote, connect(arguments)), options)
        if arguments.resume is None:
            return 0
    return run(open_session, replace(options, first=_first_line(arguments)))


def _first_line(arguments: Namespace) -> str:
    return (arguments.start or "").strip()


def ask_to_trust(
    cwd: Path, *, plain: bool = False, environ: Mapping[str, str] | None = None
) -> None:
    """Ask whether the folder's own settings may apply, unless the user decided before.

    Without a terminal there is no question, and the settings stay withheld.

    Args:
        cwd: The folder.
        plain: Ask without drawing.
        environ: Environment variables; by default those of the process.

    Raises:
        KeyboardInterrupt: The user leaves the question without an answer.
    """
    settings = ProjectSettings(cwd, environ)
    loaded = settings.load()
    if not loaded.withheld or not sys.stdin.isatty() or settings.is_declined(loaded):
        return
    live = not plain and can_draw(os.environ.get("TERM", ""))
    theme = terminal_theme(plain=not live)
    for line in _list_withheld(loaded):
        write_out(render_block(Notice(line), width=line_width(), theme=theme))
    rows = [Row("yes, I trust this folder", key="y"), Row("no, ignore these settings", key="n")]
    choice = pick("Do you trust this folder?", rows, theme=theme, live=live)
    if choice is None:
        raise KeyboardInterrupt
    if choice == 0:
        settings.accept(loaded)
        write_out("accepted until one of these files changes\n")
    else:
        settings.decline(loaded)
        write_out("these settings are ignored; `clew config accept` accepts them later\n")


def _list_withheld(loaded: LoadedSettings) -> list[str]:
    lines = [f"The settings in {loaded.cwd} need your permission:"]
    for one in loaded.withheld[:_MAX_SETTINGS]:
        name = os.path.relpath(one.path, loaded.cwd)
        lines.append(f"  {sanitize_line(f'{name}: {one.key} {one.why}', _MAX_SETTING)}")
    if len(loaded.withheld) > _MAX_SETTINGS:
        more = len(loaded.withheld) - _MAX_SETTINGS
        lines.append(f"  … {more} more; `clew config show` lists all of them")
    return lines
