"""Finished blocks as text."""

from clew.core.file_change import read_file_change
from clew.tui.blocks import (
    Answer,
    Block,
    ClearedBlock,
    CommandReply,
    Compaction,
    Notice,
    Plan,
    ServerToolBlock,
    ShellOutput,
    TaskNote,
    ThinkingBlock,
    Todos,
    ToolCallBlock,
    UserPrompt,
)
from clew.tui.rendering.lines import Line, fit_lines, write_lines
from clew.tui.rendering.notes import (
    note_cleared,
    note_compaction,
    note_plain,
    note_prompt,
    note_reply,
    note_task,
    note_thinking,
    note_todos,
)
from clew.tui.rendering.tool_text import show_call, show_server_tool, show_shell
from clew.tui.theme import Theme

MIN_WIDTH = 8
"""Narrower terminals wrap lines themselves."""
_ONE_LINERS = (ThinkingBlock, ServerToolBlock, TaskNote, Notice, ClearedBlock, Todos)


def render_block(
    block: Block,
    *,
    width: int,
    theme: Theme,
    expanded: bool = False,
    after: Block | None = None,
) -> str:
    """Return a finished block as ANSI text that ends with a line break.

    Args:
        block: The block.
        width: The columns of the terminal; no line is wider.
        theme: Colours and characters.
        expanded: Show all of a block that is folded otherwise.
        after: The block that was printed before it. A blank line separates them, except two
            that take one line each.
    """
    lines = render_lines(block, width=max(width, MIN_WIDTH), theme=theme, expanded=expanded)
    if not lines:
        return ""
    gap = "" if after is None or (_is_short(block) and _is_short(after)) else "\n"
    return gap + write_lines(lines)


def render_lines(block: Block, *, width: int, theme: Theme, expanded: bool = False) -> list[Line]:
    """Return a finished block as lines."""
    return list(fit_lines(_render(block, width, theme, expanded=expanded), width))


def _is_short(block: Block) -> bool:
    """Return whether a block takes one line: a call that failed or changed a file takes more."""
    if isinstance(block, ToolCallBlock):
        return block.outcome == "success" and read_file_change(block.data) is None
    return isinstance(block, _ONE_LINERS)


def _render(block: Block, width: int, theme: Theme, *, expanded: bool) -> list[Line]:
    match block:
        case Answer(text=text):
            return _render_markdown(text, width, theme)
        case UserPrompt():
            return note_prompt(block, width, theme)
        case ThinkingBlock():
            return note_thinking(block, width, theme, expanded=expanded)
        case ToolCallBlock():
            return show_call(block, width, theme, expanded=expanded)
        case ServerToolBlock():
            return show_server_tool(block, width, theme, expanded=expanded)
        case ShellOutput():
            return show_shell(block, width, theme, expanded=expanded)
        case _:
            return _render_note(block, width, theme, expanded=expanded)


def _render_note(
    block: TaskNote | Notice | Compaction | ClearedBlock | CommandReply | Plan | Todos,
    width: int,
    theme: Theme,
    *,
    expanded: bool,
) -> list[Line]:
    match block:
        case TaskNote():
            return note_task(block, width, theme, expanded=expanded)
        case Notice():
            return note_plain(block, width, theme)
        case Compaction():
            return note_compaction(block, width, theme, expanded=expanded)
        case ClearedBlock():
            return note_cleared(block, width, theme)
        case CommandReply(style="markdown", text=text) | Plan(text=text):
            return _render_markdown(text, width, theme)
        case CommandReply():
            return note_reply(block, width, theme)
        case Todos():
            return note_todos(block, width, theme)


def _render_markdown(text: str, width: int, theme: Theme) -> list[Line]:
    # Importing rich is slow, and only an answer needs it.
    from clew.tui.rendering.markdown import render_markdown  # noqa: PLC0415

    return render_markdown(text, width=width, theme=theme)
