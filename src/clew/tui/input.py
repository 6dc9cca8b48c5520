"""The input: a buffer with history, completion and search, which stays active during a run."""

import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, ThreadedCompleter
from prompt_toolkit.completion import Completion as Choice
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.history import History
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    HSplit,
    Window,
)
from prompt_toolkit.layout.containers import AnyContainer
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import (
    HighlightIncrementalSearchProcessor,
    HighlightSelectionProcessor,
)
from prompt_toolkit.widgets import SearchToolbar

from clew.core.sanitize import sanitize_line
from clew.core.text import pluralize
from clew.sdk.client import PathMatch
from clew.sdk.prompt_history import PromptHistory
from clew.tui.completion import CommandItem, complete_command, find_mention

PROMPT = "> "
_MENU_ROWS = 8
_PASTE_LINES, _PASTE_CHARS = 10, 2_000
"""A longer pasted text is shown as a placeholder."""
_PASTED = re.compile(r"\[pasted text #\d+, [\d,]+ \w+\]")
_MAX_META = 80
_LEAST_ROWS = 6
"""A lower window shows no menu."""


class InputArea:
    """The input line, its menu and its search, as parts of the layout.

    Args:
        history: The prompts that were sent before.
        commands: Returns the commands for the menu.
        paths: Completes what stands behind an `@`; may block for a moment.
    """

    def __init__(
        self,
        history: PromptHistory,
        *,
        commands: Callable[[], list[CommandItem]],
        paths: Callable[[str], list[PathMatch]],
    ) -> None:
        self.buffer = Buffer(
            completer=ThreadedCompleter(_InputCompleter(commands, paths)),
            complete_while_typing=True,
            history=_History(history),
            multiline=True,
            name="input",
        )
        self.reply = Buffer(multiline=True, name="reply")
        """Where the user writes what the model should do instead."""
        self.search = SearchToolbar(backward_search_prompt="search: ", ignore_case=True)
        self.window = _make_window(self.buffer, PROMPT, search=self.search)
        self.reply_window = _make_window(self.reply, "… ")
        self.menu = _make_menu(self.buffer)
        self._pastes: dict[str, str] = {}
        """Long pasted texts by the placeholders that the buffer has for them."""

    @property
    def text(self) -> str:
        """The text of the input, with all that was pasted."""
        return _PASTED.sub(lambda match: self._pastes.get(match[0], match[0]), self.buffer.text)

    def take(self) -> str:
        """Return the text and empty the input; adds it to the history."""
        text = self.text
        if text.strip():
            self.replace(text)
            self.buffer.append_to_history()
        self.buffer.reset()
        self._pastes.clear()
        return text

    def paste(self, text: str) -> None:
        """Insert a pasted text; for a long one, a placeholder is shown."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.rstrip("\n").count("\n") + 1
        if lines > _PASTE_LINES or len(text) > _PASTE_CHARS:
            size = pluralize(lines, "line") if lines > 1 else pluralize(len(text), "character")
            mark = f"[pasted text #{len(self._pastes) + 1}, {size}]"
            self._pastes[mark] = text
            text = mark
        self.buffer.insert_text(text)

    def find_paste(self) -> str:
        """Return the placeholder before the cursor; empty if there is none."""
        before = self.buffer.document.text_before_cursor
        return next(filter(before.endswith, self._pastes), "")

    def replace(self, text: str) -> None:
        """Put a text into the input, with the cursor at its end."""
        self.buffer.reset(Document(text))


class _History(History):
    """The history of prompt_toolkit, stored in a `PromptHistory`."""

    def __init__(self, file: PromptHistory) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._file.entries())

    def store_string(self, string: str) -> None:
        self._file.add(string)


class _InputCompleter(Completer):
    """Completes commands in a line that starts with a slash, and files after an `@`."""

    def __init__(
        self,
        commands: Callable[[], list[CommandItem]],
        paths: Callable[[str], list[PathMatch]],
    ) -> None:
        self._commands = commands
        self._paths = paths

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterator[Choice]:
        before = document.text_before_cursor
        if typed := find_mention(before):
            for match in self._paths(typed.removeprefix("@")):
                # A file is complete; what stands in a folder is completed next.
                end = "" if match.is_folder or match.text.endswith(":") else " "
                yield Choice(
                    f"@{match.text}{end}",
                    start_position=-len(typed),
                    display=sanitize_line(match.text, _MAX_META),
                    display_meta=sanitize_line(match.detail, _MAX_META),
                )
        elif before.startswith("/") and "\n" not in before:
            last = before.rpartition(" ")[2]
            for one in complete_command(before, self._commands()):
                yield Choice(
                    one.text,
                    start_position=-len(last),
                    display=sanitize_line(one.display or one.text, _MAX_META),
                    display_meta=sanitize_line(one.meta, _MAX_META),
                )


def _make_window(buffer: Buffer, prompt: str, *, search: SearchToolbar | None = None) -> Window:
    indent = " " * len(prompt)
    control = BufferControl(
        buffer,
        input_processors=[HighlightIncrementalSearchProcessor(), HighlightSelectionProcessor()],
        include_default_input_processors=False,
        search_buffer_control=search.control if search else None,
        preview_search=True,
    )

    def prefix(line: int, wrapped: int) -> str:
        # prompt_toolkit would show a prefix as wide as the window as empty lines.
        if get_app().output.get_size().columns <= 2 * len(prompt):
            return ""
        return indent if line or wrapped else prompt

    return Window(
        control,
        wrap_lines=True,
        height=_input_height,
        dont_extend_height=True,
        get_line_prefix=prefix,
    )


def _input_height() -> Dimension:
    return Dimension(min=1, max=max(1, get_app().output.get_size().rows // 2))


def _make_menu(buffer: Buffer) -> AnyContainer:
    """Return the menu with the least height that it needs, so the status line follows it."""

    def height() -> Dimension:
        state = buffer.complete_state
        rows = min(_MENU_ROWS, len(state.completions)) if state else 0
        return Dimension(min=min(1, rows), preferred=rows, max=rows)

    has_room = Condition(lambda: get_app().output.get_size().rows >= _LEAST_ROWS)
    menu = CompletionsMenu(max_height=_MENU_ROWS, scroll_offset=1)
    return ConditionalContainer(HSplit([menu], height=height), filter=has_completions & has_room)
