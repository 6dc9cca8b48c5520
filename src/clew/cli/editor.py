"""Reading what a person types: with an editor where there is a terminal, else a plain line.

The editor for terminals is `clew.cli.editor_terminal`. It is loaded with the first line that
is read, so that scripts never pay for it.
"""

import contextlib
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clew.cli.editor_history import HistoryFile
from clew.cli.editor_protocol import Complete, Completion, Editor, EditorFailed, LineDropped
from clew.cli.paint import is_dumb
from clew.cli.status import Standing

__all__ = [
    "Complete",
    "Completion",
    "LineDropped",
    "LineEditor",
    "Offer",
    "PlainEditor",
    "offered",
]

logger = logging.getLogger(__name__)


class LineEditor:
    """Reads lines on the main thread, whatever runs in event loops on other threads.

    Enter sends; Alt-Enter and Ctrl-J begin another line; a paste is never sent by a line
    break in it. Up and Ctrl-R find what was typed before, Tab completes commands after `/` and
    files after `@`. Between two calls the terminal and the handling of signals are as they
    were.
    """

    def __init__(
        self,
        history_file: Path,
        *,
        complete: Complete,
        status: Callable[[], Standing],
        folder: Path | None = None,
    ) -> None:
        """Prepare reading; nothing is loaded or opened yet.

        Args:
            history_file: Where lines are kept; made with mode 0600.
            complete: Finds commands.
            status: Asked once before each line that is edited; shown below it.
            folder: Where `@` looks for files; the working folder if not given.
        """
        self._history = HistoryFile(history_file)
        self._complete = complete
        self._status = status
        self._folder = folder
        self._editor: Editor | None = None

    def read(self, prompt: str) -> str:
        """Read a line, or several.

        A line that was finished before the prompt was shown is taken as it is, as `input` does.

        Raises:
            KeyboardInterrupt: On Ctrl-C; `LineDropped` if something had been typed.
            EOFError: On Ctrl-D in an empty line.
        """
        try:
            return self._prepared().read(prompt, self._status)
        except EditorFailed as error:
            return self._plain(error).read(prompt, self._status)

    def ask(self, prompt: str) -> str:
        """Read an answer: without history, menu and status line.

        On a terminal, what was typed before the question was shown does not answer it. Raises
        as `read` does.
        """
        try:
            return self._prepared().ask(prompt)
        except EditorFailed as error:
            return self._plain(error).ask(prompt)

    def leave(self) -> None:
        """Have the reading end with `EOFError`; called by a signal's handler while it reads."""
        self._prepared().leave()

    def _prepared(self) -> Editor:
        if self._editor is None:
            self._editor = self._make()
        return self._editor

    def _make(self) -> Editor:
        if not _can_edit():
            return PlainEditor()
        try:
            from clew.cli.editor_terminal import TerminalEditor  # noqa: PLC0415 - see above
        except ImportError as error:
            return self._plain(error)
        return TerminalEditor(self._history, complete=self._complete, folder=self._folder)

    def _plain(self, error: Exception) -> Editor:
        logger.debug("lines are read without an editor: %s", error)
        self._editor = PlainEditor()
        return self._editor


class PlainEditor:
    """Reads with `input`: from pipes, and from terminals that can do nothing else."""

    def __init__(self) -> None:
        if sys.stdin.isatty():
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401, PLC0415 - all that it takes to edit with `input`

    def read(self, prompt: str, _status: Callable[[], Standing]) -> str:
        """Read a line."""
        return input(prompt)

    def ask(self, prompt: str) -> str:
        """Read a line."""
        return input(prompt)

    def leave(self) -> None:
        """End the reading: what a handler raises breaks `input` off."""
        raise EOFError


@dataclass(frozen=True, slots=True)
class Offer:
    """A command for the menu, and what may follow it."""

    name: str
    meta: str = ""
    below: tuple["Offer", ...] = ()


def offered(line: str, offers: Sequence[Offer]) -> list[Completion]:
    """Return what may stand in place of the last word of `line`, which begins with a slash.

    The first word is a command, each further one is below the one before it.
    """
    *before, last = line.removeprefix("/").split(" ")
    slash = "" if before else "/"
    for word in filter(None, before):
        found = next((offer for offer in offers if offer.name == word.lower()), None)
        offers = found.below if found else ()
    return [
        Completion(f"{slash}{offer.name}", meta=offer.meta)
        for offer in offers
        if offer.name.startswith(last.lower())
    ]


def _can_edit() -> bool:
    terminals = sys.stdin.isatty() and sys.stdout.isatty()
    return terminals and not is_dumb()
