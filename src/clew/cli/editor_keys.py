"""What keys do in the line editor, beside what prompt_toolkit binds as Emacs does."""

import os

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, get_common_complete_suffix
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from clew.cli.editor_protocol import LineDropped


def answer_keys(buffer: Buffer) -> KeyBindings:
    """Return the keys that send, break off and leave."""
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
    def _break_off(event: KeyPressEvent) -> None:
        broken = LineDropped if touched else KeyboardInterrupt
        event.app.exit(exception=broken, style="class:aborting")

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
    """Return the keys for a prompt: those of an answer, line breaks, and the menu."""
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
    """Write what is certain; where nothing is, choose the next line of the menu."""
    if buffer.complete_state and buffer.complete_state.current_completion:
        buffer.complete_next()
        return
    wish = CompleteEvent(completion_requested=True)
    choices = list(buffer.completer.get_completions(buffer.document, wish))
    if len(choices) == 1:
        buffer.apply_completion(choices[0])
    elif certain := get_common_complete_suffix(buffer.document, choices):
        buffer.insert_text(certain)
    elif buffer.complete_state:
        buffer.complete_next()
    elif choices:
        buffer.start_completion(select_first=True)
