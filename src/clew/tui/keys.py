"""Key bindings, in addition to those of prompt_toolkit for Emacs or vi; typeahead.

Before the application reads, the terminal collects lines and turns Enter into a line break,
which is another key in the application: Ctrl-J. So typeahead is read in the old mode and
converted to keys.
"""

import os
import select
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, get_common_complete_suffix
from prompt_toolkit.filters import (
    Condition,
    has_completions,
    has_focus,
    is_searching,
    vi_insert_mode,
)
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys

from clew.tui.actions import Actions
from clew.tui.input import InputArea
from clew.tui.question_actions import QuestionActions
from clew.tui.questions import QuestionList
from clew.tui.terminal_state import TerminalState

DEFAULT_KEYS: Final[Mapping[str, str]] = {
    "cycle-mode": "s-tab",
    "expand": "c-o",
    "external-editor": "c-g",
    "interrupt": "",
    "newline": "c-j",
    "paste-image": "c-v",
    "redraw": "c-l",
}
"""The actions whose keys the settings can change, and their keys. `interrupt` is Esc as well."""
_WHILE_ASKED: Final = ("cycle-mode", "expand", "interrupt", "redraw")
"""The actions whose keys also work while a question is open."""
_ON_INPUT: Final = ("external-editor", "paste-image")
"""The actions that change the input; their keys do nothing while a reply is written."""
_KEYS_HELP: Final = (
    ("Alt-Enter", "", "start a new line"),
    ("Esc", "", "interrupt the run; twice: edit the previous prompt"),
    ("Shift-Tab", "cycle-mode", "switch the permission mode"),
    ("Ctrl-O", "expand", "show the newest folded block in full"),
    ("Ctrl-G", "external-editor", "edit the input in your editor"),
    ("Ctrl-R", "", "search what you typed before"),
    ("Tab", "", "complete a command, or a file after @, which attaches it"),
)
"""Keys with what they do, and the action with which the settings can give it another key."""


def describe_keys(chosen: Mapping[str, str]) -> str:
    """Return lines about the most useful keys, for the help; without those that are changed.

    Args:
        chosen: Keys of the settings, by action.
    """
    rows = [(key, words) for key, action, words in _KEYS_HELP if action not in chosen]
    return "\n".join(f"  {key:<15} {words}" for key, words in rows)


def make_keys(
    actions: Actions, answers: QuestionActions, parts: TerminalState, chosen: Mapping[str, str]
) -> tuple[KeyBindings, list[str]]:
    """Return the key bindings of the application, and what is wrong with the chosen ones.

    Args:
        actions: What keys do.
        answers: What they do while a question is open.
        parts: The state of the application.
        chosen: Keys of the settings, by action: `c-o`, or `escape o` for one after the other.
    """
    keys = KeyBindings()
    _bind_input(keys, actions, parts)
    _bind_pastes(keys, parts.input)
    problems = _bind_chosen(keys, actions, parts, chosen)
    _bind_everywhere(keys, actions, parts.questions)
    _bind_reply(keys, answers, parts.input.reply)
    # Last: the newest binding of a key counts.
    _bind_answers(keys, answers, parts)
    _bind_asked(keys, actions, answers, parts.questions)
    return keys, problems


def _bind_chosen(
    keys: KeyBindings, actions: Actions, parts: TerminalState, chosen: Mapping[str, str]
) -> list[str]:
    """Bind the actions whose keys can be chosen; returns what is wrong with the choice."""
    handlers: dict[str, Callable[[], None]] = {
        "cycle-mode": actions.cycle_mode,
        "expand": actions.expand,
        "external-editor": actions.open_editor,
        "interrupt": actions.interrupt,
        "newline": lambda: get_app().current_buffer.insert_text("\n"),
        "paste-image": actions.paste_image,
        "redraw": actions.redraw,
    }
    known = ", ".join(handlers)
    problems = [
        f"terminal.keyBindings: there is no action {name}; the actions are {known}"
        for name in chosen
        if name not in handlers
    ]
    for name, handler in handlers.items():
        wanted = chosen.get(name, DEFAULT_KEYS[name])
        try:
            _bind(keys, wanted, handler, parts, action=name)
        except ValueError:
            problems.append(f"terminal.keyBindings: {name}: there is no key {wanted}")
            _bind(keys, DEFAULT_KEYS[name], handler, parts, action=name)
    return problems


def _bind(
    keys: KeyBindings, names: str, handler: Callable[[], None], parts: TerminalState, *, action: str
) -> None:
    if not names.strip():
        return
    if action in _WHILE_ASKED:
        asked = _is_asked(parts.questions)
        add = keys.add(*names.split(), filter=asked | ~is_searching, eager=asked)
    elif action in _ON_INPUT:
        add = keys.add(*names.split(), filter=has_focus(parts.input.buffer))
    else:
        add = keys.add(*names.split(), filter=~is_searching)
    add(lambda _: handler())


def _bind_input(keys: KeyBindings, actions: Actions, parts: TerminalState) -> None:
    buffer = parts.input.buffer
    here = has_focus(buffer)
    can_edit_queue = Condition(lambda: not buffer.text and bool(parts.list_queue()))

    @keys.add("enter", filter=here)
    def _take_or_send(_: KeyPressEvent) -> None:
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
            return
        actions.send()

    @keys.add("escape", "enter", filter=here)
    @keys.add("escape", "c-j", filter=here)
    def _begin_line(_: KeyPressEvent) -> None:
        buffer.insert_text("\n")

    @keys.add("tab", filter=here)
    def _complete(_: KeyPressEvent) -> None:
        complete(buffer)

    @keys.add("up", filter=here & can_edit_queue)
    def _edit_queue(_: KeyPressEvent) -> None:
        actions.edit_queue()

    can_escape = here & ~has_completions & ~vi_insert_mode & ~is_searching

    @keys.add("escape", filter=can_escape)
    def _escape(_: KeyPressEvent) -> None:
        actions.escape()

    # The second one can arrive before it is certain that the first one starts no sequence.
    @keys.add("escape", "escape", filter=can_escape)
    def _escape_twice(_: KeyPressEvent) -> None:
        actions.escape()
        actions.note_key()
        actions.escape()

    @keys.add("escape", filter=here & has_completions)
    def _close_menu(_: KeyPressEvent) -> None:
        buffer.cancel_completion()

    @keys.add("c-d", filter=here, eager=_is_asked(parts.questions))
    def _leave(_: KeyPressEvent) -> None:
        actions.delete_or_quit()


def _bind_pastes(keys: KeyBindings, area: InputArea) -> None:
    here = has_focus(area.buffer)

    @keys.add(Keys.BracketedPaste, filter=here)
    def _paste(event: KeyPressEvent) -> None:
        area.paste(event.data)

    @keys.add("backspace", filter=here & Condition(lambda: bool(area.find_paste())))
    def _delete_paste(_: KeyPressEvent) -> None:
        area.buffer.delete_before_cursor(len(area.find_paste()))


def _bind_everywhere(keys: KeyBindings, actions: Actions, questions: QuestionList) -> None:
    on_posix = Condition(lambda: os.name == "posix")

    @keys.add("c-c", filter=~is_searching)
    @keys.add("<sigint>")
    def _clear(_: KeyPressEvent) -> None:
        actions.clear_or_quit()

    @keys.add("c-z", filter=on_posix, eager=_is_asked(questions))
    def _suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()


def _bind_reply(keys: KeyBindings, answers: QuestionActions, reply: Buffer) -> None:
    here = has_focus(reply)

    @keys.add("enter", filter=here)
    def _send(_: KeyPressEvent) -> None:
        answers.send_reply()

    @keys.add("escape", "enter", filter=here)
    @keys.add("escape", "c-j", filter=here)
    def _begin_line(_: KeyPressEvent) -> None:
        reply.insert_text("\n")

    @keys.add("escape", filter=here)
    @keys.add("c-c", filter=here)
    def _cancel(_: KeyPressEvent) -> None:
        answers.cancel_reply()


def _is_asked(questions: QuestionList) -> Condition:
    return Condition(lambda: questions.is_armed and not questions.is_writing)


def _bind_answers(keys: KeyBindings, answers: QuestionActions, parts: TerminalState) -> None:
    questions = parts.questions
    asked = _is_asked(questions)

    @keys.add(Keys.Any, filter=asked & ~_starts_sequence(keys), eager=True)
    def _press(event: KeyPressEvent) -> None:
        key = event.key_sequence[0].key
        if key == "v":
            answers.view()
        else:
            answers.press(str(key))

    @keys.add(Keys.BracketedPaste, filter=asked, eager=True)
    def _paste(event: KeyPressEvent) -> None:
        parts.input.paste(event.data)

    @keys.add("enter", filter=asked, eager=True)
    def _confirm(_: KeyPressEvent) -> None:
        answers.press("")

    for name, step in (("up", -1), ("down", 1)):
        keys.add(name, filter=asked, eager=True)(lambda _, step=step: questions.select(step))
    for name, step in (("left", -1), ("right", 1)):
        keys.add(name, filter=asked, eager=True)(lambda _, step=step: questions.switch(step))


def _starts_sequence(keys: KeyBindings) -> Condition:
    """Return whether the pressed keys start a sequence that works while a question is open."""

    def check() -> bool:
        pressed = tuple(one.key for one in get_app().key_processor.key_buffer)
        return any(one.eager() for one in keys.get_bindings_starting_with_keys(pressed))

    return Condition(check)


def _bind_asked(
    keys: KeyBindings, actions: Actions, answers: QuestionActions, questions: QuestionList
) -> None:
    """Bind the keys that interrupt while a question is open."""
    asked = _is_asked(questions)

    @keys.add("escape", filter=asked, eager=True)
    @keys.add("c-c", filter=asked, eager=True)
    @keys.add("<sigint>", filter=asked, eager=True)
    def _interrupt(_: KeyPressEvent) -> None:
        actions.interrupt()
        # Alt and a key arrive as Esc and that key: it is no answer.
        answers.disarm()


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

    @contextmanager
    def read_typeahead() -> Iterator[list[KeyPress]]:
        """Yield nothing: the console delivers keys unchanged."""
        yield []

    def drop_typeahead() -> None:
        """Do nothing: the console keeps the keys for the next reader."""

else:
    import termios

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
