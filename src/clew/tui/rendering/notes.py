"""Blocks of a few lines: prompts, thinking, notices, compactions, subagents, todo lists."""

import re
from collections.abc import Sequence

from clew.core.context_state import Basis, ContextState, Status
from clew.core.text import pluralize
from clew.core.todos import TodoItem, TodoStatus, format_todos
from clew.sdk.entries import format_cleared_results, format_loss_report
from clew.tui.blocks import (
    ClearedBlock,
    CommandReply,
    Compaction,
    Notice,
    TaskNote,
    ThinkingBlock,
    Todos,
    UserPrompt,
)
from clew.tui.rendering.lines import (
    TAB_STOPS,
    Line,
    Span,
    chop_line,
    count_line,
    truncate_line,
    wrap_line,
)
from clew.tui.theme import Theme

_FIRST_COLUMN = re.compile(r" *+(?:\S++(?: \S++)*+ {2,}+(?=\S))?")
"""The indentation of a line, with the first column where it is a row of a table."""
_LEVEL_STYLES = {"info": "dim", "warning": "warning", "error": "error"}
_STATUS_STYLES = {Status.OK: "ok", Status.WARNING: "high", Status.CRITICAL: "full"}
_TODO_STYLES = {
    TodoStatus.PENDING: "",
    TodoStatus.IN_PROGRESS: "bold",
    TodoStatus.COMPLETED: "dim",
    TodoStatus.CANCELLED: "dim",
}
_DIFF_STYLES = {"+": "added", "-": "removed", "@": "dim"}
_FILE_HEADS = ("--- ", "+++ ")
_GAUGE_CELLS = 20
_MAX_PROMPT = 50
"""The most lines of a prompt: the user has just pasted it."""
_MAX_NAME = 80


def note_prompt(block: UserPrompt, width: int, theme: Theme) -> list[Line]:
    """Return a prompt, behind a sign."""
    sign = theme.glyph("❯")
    first = (Span(f"{sign} ", theme.sgr("prompt")),)
    indent = (Span("  "),)
    texts = split_text(block.text, theme)
    lines: list[Line] = []
    for text in texts[:_MAX_PROMPT]:
        begin = indent if lines else first
        lines += wrap_line((Span(text, theme.sgr("bold")),), width, first=begin, rest=indent)
    if len(texts) > _MAX_PROMPT:
        more = f"{theme.glyph('…')} {pluralize(len(texts) - _MAX_PROMPT, 'more line')}"
        lines.append(truncate_line((*indent, Span(more, theme.sgr("dim"))), width))
    return lines


def note_thinking(
    block: ThinkingBlock, width: int, theme: Theme, *, expanded: bool = False
) -> list[Line]:
    """Return the model's reasoning: its duration or, expanded, all of it."""
    took = "" if block.seconds is None else f" for {format_seconds(block.seconds)}"
    title = f"{theme.glyph('✻')} thought{took}"
    head = title_line(title, block.number, width, theme)
    return [head, *indent_text(block.text, width, theme, "dim")] if expanded else [head]


def note_plain(block: Notice, width: int, theme: Theme) -> list[Line]:
    """Return a notice; its level gives the colour and, without colours, the first word."""
    word = {"info": "", "warning": "note: ", "error": "error: "}[block.level]
    return wrap_text(f"{word}{block.text}", width, theme, _LEVEL_STYLES[block.level])


def note_reply(block: CommandReply, width: int, theme: Theme) -> list[Line]:
    """Return the reply of a command; rows of tables keep their columns."""
    if block.style == "diff":
        return _colour_diff(block.text, width, theme)
    return wrap_text(block.text, width, theme, "error" if block.failed else "")


def _colour_diff(text: str, width: int, theme: Theme) -> list[Line]:
    """Return a unified diff in colours."""
    lines: list[Line] = []
    for line in split_text(text, theme):
        style = "bold" if line.startswith(_FILE_HEADS) else _DIFF_STYLES.get(line[:1], "")
        lines += chop_line((Span(line, theme.sgr(style)),), width)
    return lines


def note_task(block: TaskNote, width: int, theme: Theme, *, expanded: bool = False) -> list[Line]:
    """Return lines about a background task and, expanded, its answer."""
    name = " ".join(theme.clean(block.name).split())[:_MAX_NAME]
    if block.task_id:
        name = f"{name} ({block.task_id})"
    text, dot = " ".join(theme.clean(block.text).split()), theme.glyph("·")
    facts = format_seconds(block.seconds)
    if block.is_agent:
        facts = f"{pluralize(block.calls, 'tool call')}, {facts}"
    match block.stage:
        case "started":
            where = " runs in the background" if block.task_id else ""
            task = f": {text}" if text else ""
            head = title_line(f"{theme.glyph('→')} {name}{where}{task}", 0, width, theme)
        case "asks":
            return [title_line(f"? {name} asks: {text}", 0, width, theme, style="warning")]
        case "completed":
            said = f"{theme.glyph('✓')} {name} is done {dot} {facts}"
            head = title_line(said, block.number, width, theme)
        case "failed":
            said = f"{theme.glyph('✗')} {name} failed: {block.text}"
            lines = wrap_text(said, width, theme, "error")
            return [*lines, *_show_way(block, "", width, theme)]
        case "cancelled":
            return [title_line(f"{theme.glyph('✗')} {name} was cancelled", 0, width, theme)]
    if expanded:
        return [head, *indent_text(block.text, width, theme)]
    return [head, *(_show_way(block, _first_line(text_of=block.text), width, theme))]


def _show_way(block: TaskNote, first: str, width: int, theme: Theme) -> list[Line]:
    """Return the first line of a result in the background, and how to read all of it."""
    if not block.task_id or block.stage == "started":
        return []
    way = f"  /background read {block.task_id}"
    if not first:
        return [title_line(way, 0, width, theme)]
    shown = theme.clean(first)
    head: Line = (Span(f"  {shown}"),)
    line = truncate_line(head, max(1, width - len(way) - 2), theme.glyph("…"))
    if width < 2 * len(way):
        return [truncate_line(head, width, theme.glyph("…")), title_line(way, 0, width, theme)]
    return [(*line, Span(way, theme.sgr("dim")))]


def _first_line(text_of: str) -> str:
    return next((line.strip() for line in text_of.splitlines() if line.strip()), "")


def note_compaction(
    block: Compaction, width: int, theme: Theme, *, expanded: bool = False
) -> list[Line]:
    """Return the loss report of a compaction and, expanded, the summary."""
    head = title_line(f"compacted ({block.trigger})", block.number, width, theme, style="warning")
    report = "\n".join(f"  {line}" for line in format_loss_report(block.report))
    lines = [head, *wrap_text(report, width, theme), *draw_gauge(block.after, width, theme)]
    return [*lines, (), *indent_text(block.summary, width, theme)] if expanded else lines


def note_cleared(block: ClearedBlock, width: int, theme: Theme) -> list[Line]:
    """Return the line about tool results that left the context."""
    return wrap_text(format_cleared_results(block.report, block.trigger), width, theme, "warning")


def note_todos(block: Todos, width: int, theme: Theme) -> list[Line]:
    """Return how far a todo list is, on one line; the live area has the list."""
    done = sum(item.status is TodoStatus.COMPLETED for item in block.items)
    text = f"todo list: {done} of {len(block.items)} done" if block.items else "todo list: empty"
    active = [item for item in block.items if item.status is TodoStatus.IN_PROGRESS]
    for line in format_todos(active)[:1]:
        text += f" {theme.glyph('·')} now: {' '.join(theme.clean(line).split()[1:])}"
    return [title_line(f"{theme.glyph('✻')} {text}", 0, width, theme)]


def list_todos(items: Sequence[TodoItem], width: int, theme: Theme) -> list[Line]:
    """Return a todo list, one line or more for each item."""
    lines: list[Line] = []
    for item, line in zip(items, format_todos(items), strict=True):
        sgr = theme.sgr(_TODO_STYLES[item.status])
        text = " ".join(theme.clean(line).replace("[ ]", "[_]", 1).split())
        mark, _, words = text.partition(" ")
        begin = (Span(f"  {mark.replace('_', ' ')} ", sgr),)
        rest = (Span(" " * count_line(begin)),)
        lines += wrap_line((Span(words, sgr),), width, first=begin, rest=rest)
    return lines


def draw_gauge(state: ContextState, width: int, theme: Theme) -> list[Line]:
    """Return how full the context window is, in the colour of its status."""
    share = min(1.0, state.used_tokens / state.max_tokens)
    filled = round(share * _GAUGE_CELLS)
    bar = "█" * filled + "░" * (_GAUGE_CELLS - filled)
    about = "" if state.basis is Basis.EXACT else "~"
    facts = (
        f"{state.used_percentage:.0f}%  {about}{state.used_tokens:,} of {state.max_tokens:,} tokens"
    )
    style = theme.sgr(_STATUS_STYLES[state.status])
    drawn = "" if theme.is_plain else f"[{theme.encodable(bar)}] "
    return wrap_line((Span(f"  context {drawn}", style), Span(facts, style)), width)


def title_line(text: str, number: int, width: int, theme: Theme, *, style: str = "dim") -> Line:
    """Return the first line of a block, truncated, with its number at the end."""
    mark = f"  #{number}" if number else ""
    room = max(1, width - len(mark))
    shown = truncate_line((Span(text, theme.sgr(style)),), room, theme.glyph("…"))
    return (*shown, Span(mark, theme.sgr("dim"))) if len(mark) < width else shown


def wrap_text(text: str, width: int, theme: Theme, style: str = "") -> list[Line]:
    """Return untrusted text as lines; continuation lines are indented like their first one."""
    lines: list[Line] = []
    for line in split_text(text, theme):
        found = _FIRST_COLUMN.match(line)
        indent = len(found[0]) if found else 0
        if indent > width // 2:
            indent = len(line) - len(line.lstrip(" "))
        rest = (Span(" " * min(indent, width // 2)),)
        lines += wrap_line((Span(line, theme.sgr(style)),), width, rest=rest)
    return lines


def indent_text(text: str, width: int, theme: Theme, style: str = "") -> list[Line]:
    """Return untrusted text as lines that are indented."""
    indent = (Span("  "),)
    lines: list[Line] = []
    for line in split_text(text.strip("\n"), theme):
        lines += wrap_line((Span(line, theme.sgr(style)),), width, first=indent, rest=indent)
    return lines


def split_text(text: str, theme: Theme) -> list[str]:
    """Return the lines of untrusted text, clean and without tabs."""
    return [line.expandtabs(TAB_STOPS) for line in theme.clean(text).split("\n")]


def format_seconds(seconds: float) -> str:
    """Return a duration: `0.4 s`, `12 s`, `3 min 5 s`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"
