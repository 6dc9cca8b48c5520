"""The line editor of the prompt: with prompt_toolkit on a terminal, else plain input."""

import contextlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from clew.cli.editor_protocol import Complete, Editor, EditorFailed
from clew.cli.paint import is_dumb
from clew.cli.status import SessionStatus
from clew.sdk.prompt_history import PromptHistory

logger = logging.getLogger(__name__)


class LineEditor:
    """Reads lines on the main thread, while event loops run on other threads.

    Enter sends; Alt-Enter and Ctrl-J insert a line break; line breaks in a paste do not send it.
    Up and Ctrl-R search the history, Tab completes commands after `/` and files after `@`.
    Between two calls the terminal and the signal handlers are as before.
    """

    def __init__(
        self,
        history_file: Path,
        *,
        complete: Complete,
        status: Callable[[], SessionStatus],
        folder: Path | None = None,
    ) -> None:
        """Store the arguments; the first read loads the editor.

        Args:
            history_file: The history; created with mode 0600.
            complete: Completes commands.
            status: Called once for each line; shown below it.
            folder: The folder for `@`; the working folder by default.
        """
        self._history = PromptHistory(history_file)
        self._complete = complete
        self._status = status
        self._folder = folder
        self._editor: Editor | None = None

    def read(self, prompt: str) -> str:
        """Read a prompt of one or more lines.

        A line that was typed before the prompt was shown is accepted, as `input` does.

        Raises:
            KeyboardInterrupt: On Ctrl-C; `LineDropped` if the line was not empty.
            EOFError: On Ctrl-D in an empty line.
        """
        try:
            return self._get_editor().read(prompt, self._status)
        except EditorFailed as error:
            return self._fall_back(error).read(prompt, self._status)

    def ask(self, prompt: str) -> str:
        """Read an answer, without history, menu and status line.

        On a terminal, keys that were pressed before the question was shown are dropped. Raises
        as `read` does.
        """
        try:
            return self._get_editor().ask(prompt)
        except EditorFailed as error:
            return self._fall_back(error).ask(prompt)

    def leave(self) -> None:
        """Let the read in progress end with `EOFError`; called by a signal handler."""
        self._get_editor().leave()

    def _get_editor(self) -> Editor:
        if self._editor is None:
            self._editor = self._create()
        return self._editor

    def _create(self) -> Editor:
        if not _can_edit():
            return PlainEditor()
        try:
            from clew.cli.editor_terminal import TerminalEditor  # noqa: PLC0415 - slow to load
        except ImportError as error:
            return self._fall_back(error)
        return TerminalEditor(self._history, complete=self._complete, folder=self._folder)

    def _fall_back(self, error: Exception) -> Editor:
        logger.debug("falling back to plain input: %s", error)
        self._editor = PlainEditor()
        return self._editor


class PlainEditor:
    """Reads with `input`: from pipes, and from dumb terminals."""

    def __init__(self) -> None:
        if sys.stdin.isatty():
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401, PLC0415 - gives `input` line editing

    def read(self, prompt: str, _status: Callable[[], SessionStatus]) -> str:
        """Read a line."""
        return input(prompt)

    def ask(self, prompt: str) -> str:
        """Read a line."""
        return input(prompt)

    def leave(self) -> None:
        """Interrupt `input`: it raises what a signal handler raises."""
        raise EOFError


def _can_edit() -> bool:
    terminals = sys.stdin.isatty() and sys.stdout.isatty()
    return terminals and not is_dumb()
