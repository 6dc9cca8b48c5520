"""Key bindings of the line editor, in addition to the Emacs keys of prompt_toolkit; typeahead.

Before the editor reads, the terminal collects lines and turns Enter into a line break, which
is another key in the editor: Ctrl-J. So typeahead is read in the old mode and converted to keys.
"""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, get_common_complete_suffix
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys

from clew.cli.editor_protocol import LineDropped


def answer_keys(buffer: Buffer) -> KeyBindings:
    """Return the keys that send, interrupt and leave."""
    keys = KeyBindings()
    here = has_focus(buffer)
    touched = False

    def touch(_: Buffer) -> None:
        nonlocal touched
        touched = True

    buffer.on_text_changed += touch

    @keys.add("enter", filter=here)
    def _send(event: KeyPressEvent) -> None:
        event.app.exit(result=buffer.text)

    @keys.add("c-c", filter=here)
    @keys.add("<sigint>")
    def _interrupt(event: KeyPressEvent) -> None:
        error = LineDropped if touched else KeyboardInterrupt
        event.app.exit(exception=error, style="class:aborting")

    @keys.add("c-d", filter=here)
    def _leave(event: KeyPressEvent) -> None:
        if buffer.text:
            buffer.delete()
        else:
            event.app.exit(exception=EOFError, style="class:exiting")

    @keys.add("c-z", filter=Condition(lambda: os.name == "posix"))
    def _suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    return keys


def line_keys(buffer: Buffer) -> KeyBindings:
    """Return the keys for a prompt: those for an answer, line breaks, and the menu."""
    keys = answer_keys(buffer)
    here = has_focus(buffer)

    @keys.add("enter", filter=here)
    def _take_or_send(event: KeyPressEvent) -> None:
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
            return
        if buffer.text.strip():
            buffer.append_to_history()
        event.app.exit(result=buffer.text)

    @keys.add("escape", "enter", filter=here)
    @keys.add("escape", "c-j", filter=here)
    @keys.add("c-j", filter=here)
    def _begin_line(_: KeyPressEvent) -> None:
        buffer.insert_text("\n")

    @keys.add("tab", filter=here)
    def _complete(_: KeyPressEvent) -> None:
        complete(buffer)

    @keys.add("escape", filter=here & has_completions)
    def _close_menu(_: KeyPressEvent) -> None:
        buffer.cancel_completion()

    return keys


def complete(buffer: Buffer) -> None:
    """Insert the common start of all completions; if there is none, select the next one."""
    if buffer.complete_state and buffer.complete_state.current_completion:
        buffer.complete_next()
        return
    request = CompleteEvent(completion_requested=True)
    choices = list(buffer.completer.get_completions(buffer.document, request))
    if len(choices) == 1:
        buffer.apply_completion(choices[0])
    elif common := get_common_complete_suffix(buffer.document, choices):
        buffer.insert_text(common)
    elif buffer.complete_state:
        buffer.complete_next()
    elif choices:
        buffer.start_completion(select_first=True)


_BLOCK = 4_096

if sys.platform == "win32":
    FAILURES: tuple[type[Exception], ...] = (OSError, ValueError)

    @contextmanager
    def read_typeahead() -> Iterator[list[KeyPress]]:
        """Yield nothing: the console delivers keys unchanged."""
        yield []

    def drop_typeahead() -> None:
        """Do nothing: the console keeps the keys for the next reader."""

else:
    import termios

    FAILURES = (OSError, ValueError, termios.error)
    """The errors of a terminal that cannot be used."""

    @contextmanager
    def read_typeahead() -> Iterator[list[KeyPress]]:
        """Yield the keys that were pressed so far; restores the terminal mode at the end.

        Inside the block, the terminal does not translate Enter.
        """
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
        # Read again: a copy would share the inner list.
        plain = termios.tcgetattr(terminal)
        plain[0] &= ~termios.ICRNL
        termios.tcsetattr(terminal, termios.TCSANOW, plain)
        try:
            yield _read_keys(terminal)
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, before)

    def drop_typeahead() -> None:
        """Drop the keys that were pressed so far."""
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def _read_keys(terminal: int) -> list[KeyPress]:
        keys: list[KeyPress] = []
        parser = Vt100Parser(keys.append)
        while select.select([terminal], [], [], 0)[0]:
            text = os.read(terminal, _BLOCK).decode(errors="replace")
            if not text:
                return [*keys, KeyPress(Keys.ControlD)]
            parser.feed(text.replace("\n", "\r"))
        parser.flush()
        return keys
