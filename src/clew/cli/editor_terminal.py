"""The line editor for terminals, built with prompt_toolkit."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.completion import Completion as Choice
from prompt_toolkit.document import Document
from prompt_toolkit.filters import has_completions, is_done
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import clear_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindingsBase
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.containers import AnyContainer
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import (
    HighlightIncrementalSearchProcessor,
    HighlightSelectionProcessor,
)
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth
from prompt_toolkit.widgets import SearchToolbar

from clew.cli.editor_keys import FAILURES, answer_keys, drop_typeahead, line_keys, read_typeahead
from clew.cli.editor_protocol import (
    Complete,
    EditorFailed,
    complete_mention,
    find_mention,
)
from clew.cli.screen import wrap_line
from clew.cli.status import SessionStatus, status_line
from clew.core.sanitize import sanitize_line
from clew.sdk.prompt_history import PromptHistory

_MENU_ROWS = 8
_MIN_PROMPT = 2
_MAX_META = 80
_COLOURS = {"green": "ansigreen", "yellow": "ansiyellow", "red": "ansired", "dim": "dim"}
_STYLE = Style(
    [
        ("completion-menu", "noinherit"),
        ("completion-menu.completion", "noinherit"),
        ("completion-menu.completion.current", "noinherit reverse"),
        ("completion-menu.meta.completion", "noinherit dim"),
        ("completion-menu.meta.completion.current", "noinherit reverse"),
        ("scrollbar.background", "noinherit"),
        ("scrollbar.button", "noinherit reverse"),
        ("aborting", "noinherit dim"),
        ("exiting", "noinherit dim"),
    ]
)


class TerminalEditor:
    """Reads lines from the terminal at standard input and output."""

    def __init__(self, history: PromptHistory, *, complete: Complete, folder: Path | None) -> None:
        """Open the terminal.

        Raises:
            EditorFailed: The terminal cannot be used.
        """
        with _translate_errors():
            self._input = create_input(sys.stdin)
            self._output = _output()
        self._running: Application[str] | None = None
        self._history = _History(history)
        self._completer = _Completer(complete, folder)
        self._depth = ColorDepth.DEPTH_1_BIT if "NO_COLOR" in os.environ else None

    def read(self, prompt: str, status: Callable[[], SessionStatus]) -> str:
        """Read a line with history, menu and status line."""
        buffer = Buffer(
            completer=self._completer,
            complete_while_typing=True,
            history=self._history,
            multiline=True,
        )
        search = SearchToolbar(backward_search_prompt="search: ", ignore_case=True)
        below: list[AnyContainer] = [
            search,
            _menu(buffer),
            ConditionalContainer(_status_window(status(), self._output), filter=~is_done),
        ]
        with _translate_errors(), read_typeahead() as keys:
            layout = _layout(buffer, self._fit_prompt(prompt), below, search=search)
            store_typeahead(self._input, keys)
            return self._run(layout, line_keys(buffer))

    def ask(self, prompt: str) -> str:
        """Read an answer; drops what was typed before."""
        clear_typeahead(self._input)
        buffer = Buffer(multiline=False)
        with _translate_errors():
            drop_typeahead()
            layout = _layout(buffer, self._fit_prompt(prompt), [])
            return self._run(layout, answer_keys(buffer))

    def leave(self) -> None:
        """End the read in progress like Ctrl-D; restores the terminal."""
        application = self._running
        if application is not None and application.loop is not None:
            application.loop.call_soon_threadsafe(_exit, application)

    def _fit_prompt(self, prompt: str) -> str:
        """Return a prompt that leaves room to type; a longer one is written above the line.

        prompt_toolkit would show a prompt as wide as the window as empty lines.
        """
        width = self._output.get_size().columns
        if get_cwidth(prompt) <= max(_MIN_PROMPT, width // 2):
            return prompt
        self._output.write("".join(f"{row}\n" for row in wrap_line(prompt.rstrip(), width)))
        self._output.flush()
        return ""

    def _run(self, layout: Layout, keys: KeyBindingsBase) -> str:
        application: Application[str] = Application(
            layout=layout,
            key_bindings=keys,
            style=_STYLE,
            include_default_pygments_style=False,
            color_depth=self._depth,
            input=self._input,
            output=self._output,
        )
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGINT)
        self._running = application
        try:
            return application.run(handle_sigint=is_main)
        finally:
            self._running = None
            if is_main and before is not None:
                signal.signal(signal.SIGINT, before)


def _exit(application: Application[str]) -> None:
    if application.is_running and not application.is_done:
        application.exit(exception=EOFError())


class _History(History):
    """The history of prompt_toolkit, stored in a `PromptHistory`."""

    def __init__(self, file: PromptHistory) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._file.entries())

    def store_string(self, string: str) -> None:
        self._file.add(string)


class _Completer(Completer):
    """Completes commands in a line that starts with a slash, and files after an `@`."""

    def __init__(self, complete: Complete, folder: Path | None) -> None:
        self._complete = complete
        self._folder = folder

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterator[Choice]:
        before = document.text_before_cursor
        if typed := find_mention(before):
            for text, name in complete_mention(typed, self._folder or Path()):
                yield Choice(text, start_position=-len(typed), display=name)
        elif before.startswith("/") and "\n" not in before:
            last = before.rpartition(" ")[2]
            for one in self._complete(before):
                yield Choice(
                    one.text,
                    start_position=-len(last),
                    display=sanitize_line(one.display or one.text, _MAX_META),
                    display_meta=sanitize_line(one.meta, _MAX_META),
                )


def _layout(
    buffer: Buffer, prompt: str, below: list[AnyContainer], *, search: SearchToolbar | None = None
) -> Layout:
    """Put the edited text first, and everything else right below it."""
    indent = " " * get_cwidth(prompt)
    control = BufferControl(
        buffer,
        input_processors=[HighlightIncrementalSearchProcessor(), HighlightSelectionProcessor()],
        include_default_input_processors=False,
        search_buffer_control=search.control if search else None,
        preview_search=True,
    )
    text = Window(
        control,
        wrap_lines=True,
        dont_extend_height=True,
        get_line_prefix=lambda line, wrap_line: indent if line or wrap_line else prompt,
    )
    return Layout(HSplit([text, *below]), focused_element=text)


def _menu(buffer: Buffer) -> AnyContainer:
    """Return the menu with the least height that it needs, so the status line follows it."""

    def height() -> Dimension:
        state = buffer.complete_state
        rows = min(_MENU_ROWS, len(state.completions)) if state else 0
        return Dimension(min=min(1, rows), preferred=rows, max=rows)

    menu = CompletionsMenu(max_height=_MENU_ROWS, scroll_offset=1)
    return ConditionalContainer(HSplit([menu], height=height), filter=has_completions & ~is_done)


def _status_window(status: SessionStatus, output: Output) -> Window:
    def render() -> StyleAndTextTuples:
        width = output.get_size().columns
        return [(_COLOURS[piece.style], piece.text) for piece in status_line(status, width)]

    return Window(FormattedTextControl(render), height=1)


def _output() -> Output:
    if sys.platform == "win32":
        return create_output(sys.stdout)
    # No cursor position request: over a slow line the answer may come late, and would be printed
    # or read as keys.
    probe = Vt100_Output.from_pty(sys.stdout)
    return Vt100_Output(
        sys.stdout, probe.get_size, term=os.environ.get("TERM"), enable_bell=False, enable_cpr=False
    )


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except FAILURES as error:
        raise EditorFailed(f"the terminal cannot be used: {error}") from error
