"""What keys do: send, interrupt, edit the queue, expand a block, leave."""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from prompt_toolkit.application import get_app, run_in_terminal

from clew.sdk.clipboard import NoImage, save_clipboard_image
from clew.tui.conversation import ConversationTerminal, is_quit
from clew.tui.external_editor import edit_text, find_editor
from clew.tui.terminal_state import TerminalState
from clew.tui.transcript import find_shown

_TWICE_WITHIN: Final = 2.0
"""Seconds in which a key counts as pressed twice."""
_INTERRUPTING: Final = "interrupting …"


class Actions:
    """The actions of one application; `clew.tui.keys` binds them.

    Args:
        parts: The application's state.
        terminal: Runs what takes long outside of the terminal's thread.
        leave: Ends the application.
    """

    def __init__(
        self, parts: TerminalState, terminal: ConversationTerminal, *, leave: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._terminal = terminal
        self._leave = leave
        self._quit_offered = 0.0
        self._keys = 0
        """How many keys were pressed."""
        self._escape_pressed = (0, 0.0)
        """Which key was the last Esc, and when."""
        self._edit_after_abort = False

    def note_key(self) -> None:
        """Count a key, and take back the hint about the previous one."""
        self._keys += 1
        self._parts.hint = ""

    # The input.

    def send(self) -> None:
        """Send the input, or queue it while something runs."""
        parts = self._parts
        text = parts.input.take().strip()
        editing, parts.editing = parts.editing, None
        self._edit_after_abort = False
        if is_quit(text):
            self._leave()
        elif (block := find_shown(parts.transcript, text)) is not None:
            parts.printer.add(block, expanded=True)
        elif not text:
            parts.conversation.release()
        elif editing is not None and not text.startswith(("/", "!")):
            parts.conversation.resubmit(text, editing)
        else:
            parts.conversation.submit(text)
        parts.feed.wake()

    def edit_queue(self) -> None:
        """Take the newest of the queued prompts back into the input."""
        self._parts.input.replace(self._parts.conversation.take_queue())

    def clear_or_quit(self) -> None:
        """Clear the input; if it is empty, interrupt the run; else offer to quit."""
        parts, now = self._parts, time.monotonic()
        if parts.input.buffer.text:
            parts.input.buffer.reset()
            parts.editing = None
        elif parts.conversation.is_active or parts.questions:
            self.interrupt()
        elif now - self._quit_offered < _TWICE_WITHIN:
            self._leave()
        else:
            self._quit_offered = now
            parts.hint = "press Ctrl-C again to exit"

    def delete_or_quit(self) -> None:
        """Delete the character under the cursor; in an empty input, leave."""
        if self._parts.input.buffer.text:
            self._parts.input.buffer.delete()
        else:
            self._leave()

    def open_editor(self) -> None:
        """Edit the input in the user's own editor."""
        editor = find_editor(os.environ)
        if not editor:
            self._parts.hint = "set VISUAL or EDITOR to the editor that you want to use"
            return
        before = self._parts.input.text

        def edit() -> None:
            text = edit_text(before, editor)
            if text is None:
                self._parts.hint = f"{editor[0]} failed; the input is unchanged"
            else:
                self._parts.feed.run(lambda: self._parts.input.replace(text))

        run_in_terminal(edit, in_executor=True)

    def paste_image(self) -> None:
        """Insert the path of the image on the clipboard; a prompt that names it attaches it."""

        def finish(future: "Future[str | NoImage]") -> None:
            found = future.result()
            if isinstance(found, NoImage):
                self._parts.hint = found.text
            else:
                before = self._parts.input.buffer.document.current_line_before_cursor
                gap = " " if before and not before.endswith(" ") else ""
                self._parts.input.buffer.insert_text(f"{gap}{found} ")
            self._parts.feed.wake()

        self._terminal.call(save_clipboard_image, finish)

    # Runs.

    def interrupt(self) -> None:
        """Abort the run; the queued prompts stay."""
        self._parts.conversation.abort()
        self._parts.hint = _INTERRUPTING

    def escape(self) -> None:
        """Interrupt the run; pressed twice, edit the previous prompt."""
        parts, now = self._parts, time.monotonic()
        key, at = self._escape_pressed
        is_second = key == self._keys - 1 and now - at < _TWICE_WITHIN
        self._escape_pressed = (0, 0.0) if is_second else (self._keys, now)
        if parts.editing is not None:
            parts.editing = None
            parts.input.buffer.reset()
        elif is_second and parts.conversation.is_active:
            # A queued prompt must not start first, and one that just did ends as well.
            parts.conversation.hold()
            self.interrupt()
            self._edit_after_abort = True
        elif is_second:
            self.edit_previous()
        elif parts.conversation.is_active:
            self.interrupt()
        elif not parts.input.buffer.text and parts.conversation.previous is not None:
            parts.hint = "press Esc again to edit the previous prompt"

    def follow_up(self) -> None:
        """Do what waited for the end of a run."""
        if self._parts.hint == _INTERRUPTING and not self._parts.conversation.is_active:
            self._parts.hint = ""
        if self._edit_after_abort and not self._parts.conversation.is_active:
            self._edit_after_abort = False
            self.edit_previous()

    def edit_previous(self) -> None:
        """Put the previous prompt into the input; sending it replaces that prompt."""
        parts = self._parts
        if parts.conversation.previous is None or parts.input.buffer.text.strip():
            return
        text, parts.editing = parts.conversation.previous
        parts.input.replace(text)
        parts.hint = "Enter replaces the previous prompt and what followed it; Esc keeps it"

    def cycle_mode(self) -> None:
        """Switch to the next permission mode."""
        self._parts.conversation.cycle_mode(self._parts.status.status.mode)

    # Blocks.

    def expand(self) -> None:
        """Print the newest folded block in full."""
        newest = self._parts.transcript.newest
        if newest is None:
            self._parts.hint = "there is no folded block yet"
        else:
            self._parts.printer.add(newest, expanded=True)

    def redraw(self) -> None:
        """Draw the live area again."""
        get_app().renderer.erase()
