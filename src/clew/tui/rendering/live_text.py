"""The unfinished block as lines for the live area."""

from collections.abc import Sequence

from clew.core.text import pluralize
from clew.tui.blocks import Answer, LiveBlock, RetryWait, RunningTaskBlock, RunningTool
from clew.tui.rendering.block_text import MIN_WIDTH, render_lines
from clew.tui.rendering.lines import Line, Span, truncate_line, write_line
from clew.tui.rendering.notes import format_seconds, indent_text, list_todos
from clew.tui.rendering.tool_text import describe_call
from clew.tui.theme import Theme

_THINKING_LINES = 3
_MAX_THINKING = 2_000
"""Only the end of the reasoning is shown, so only that much of it is wrapped."""
_MAX_ANSWER = 8_000
"""The most characters of an unfinished answer that are rendered."""
_SHOW_SECONDS_AFTER = 1.0
_MAX_TASKS = 4


def render_live(live: LiveBlock, *, width: int, rows: int, theme: Theme, now: float) -> list[str]:
    """Return the unfinished block as ANSI lines, without line breaks.

    Args:
        live: The block.
        width: The columns of the terminal; no line is wider.
        rows: The maximum number of lines; the newest are kept.
        theme: Colours and characters.
        now: The time in seconds since the epoch.
    """
    width = max(width, MIN_WIDTH)
    lines: list[Line] = [
        *([()] if (live.thinking or live.answer).strip() else []),  # As the finished block has it.
        *_show_thinking(live, width, theme, now),
        *_show_answer(live, width, rows, theme),
        *(line for tool in live.tools for line in _show_tool(tool, width, theme, now)),
        *_show_tasks(live.tasks, width, theme, now),
        *list_todos(live.todos, width, theme),
        *_show_work(live, width, theme, now),
    ]
    return [write_line(line) for line in lines[max(0, len(lines) - rows) :]] if rows > 0 else []


def describe_retry(retry: RetryWait, now: float) -> str:
    """Return a pause before a request is sent again, such as `retrying in 12 s (2 of 5)`."""
    seconds = max(0, round(retry.until - now))
    when = f"retrying in {seconds} s" if seconds else "retrying"
    return f"{retry.reason}, {when} ({retry.attempt} of {retry.attempts})"


def _show_thinking(live: LiveBlock, width: int, theme: Theme, now: float) -> list[Line]:
    if not live.thinking.strip():
        return []
    took = format_seconds(now - live.thinking_since)
    head = _title(f"{theme.glyph('✻')} thinking {theme.glyph('·')} {took}", width, theme)
    end = live.thinking[-_MAX_THINKING:].strip()
    return [head, *indent_text(end, width, theme, "dim")[-_THINKING_LINES:]]


def _show_answer(live: LiveBlock, width: int, rows: int, theme: Theme) -> list[Line]:
    if not live.answer.strip():
        return []
    part = Answer(text=_cut_answer(live.answer, rows), part=live.answer_part)
    return render_lines(part, width=width, theme=theme)


def _cut_answer(text: str, rows: int) -> str:
    """Return the end of an unfinished answer, more of it than the live area can show."""
    lines = text.split("\n")
    if len(lines) <= 3 * rows:
        return text[-_MAX_ANSWER:]
    end = "\n".join(lines[-2 * rows :])[-_MAX_ANSWER:]
    return f"{lines[0]}\n{end}" if lines[0].lstrip().startswith(("```", "~~~")) else end


def _show_tool(tool: RunningTool, width: int, theme: Theme, now: float) -> list[Line]:
    name, argument = describe_call(tool.name, tool.arguments, theme)
    state = "waits for your answer" if tool.is_asking else format_seconds(now - tool.since)
    end = f" {theme.glyph('·')} {state}"
    head: Line = (
        Span(f"{theme.spinner(now)} ", theme.sgr("marker")),
        Span(name, theme.sgr("tool")),
        Span(f" {argument}" if argument else ""),
    )
    start = truncate_line(head, max(MIN_WIDTH, width - len(end)), theme.glyph("…"))
    title = truncate_line((*start, Span(end, theme.sgr("dim"))), width, theme.glyph("…"))
    output = " ".join(theme.clean(tool.line).split())
    return [title, _title(f"  {output}", width, theme)] if output else [title]


def _show_tasks(
    tasks: Sequence[RunningTaskBlock], width: int, theme: Theme, now: float
) -> list[Line]:
    """Return one line for each task; those that ask come first."""
    ordered = sorted(tasks, key=lambda task: (not task.is_asking, task.is_queued))
    lines = [_show_task(task, width, theme, now) for task in ordered[:_MAX_TASKS]]
    if len(tasks) > _MAX_TASKS:
        more = f"  +{len(tasks) - _MAX_TASKS} more {theme.glyph('·')} /background lists them"
        lines.append(_title(more, width, theme))
    return lines


def _show_task(task: RunningTaskBlock, width: int, theme: Theme, now: float) -> Line:
    name = " ".join(theme.clean(task.name).split())
    facts = [format_seconds(now - task.since)]
    if task.is_agent:
        facts.insert(0, pluralize(task.calls, "tool call"))
    if task.percentage is not None:
        facts.append(f"context {task.percentage:.0f}%")
    if task.is_asking:
        facts = ["waits for your answer"]
    elif task.is_queued:
        facts = ["waits for its turn"]
    line = " ".join(theme.clean(task.line).split())
    mark = "?" if task.is_asking else theme.glyph("·") if task.is_queued else theme.spinner(now)
    text = f"{mark} {name} {theme.glyph('·')} {', '.join(facts)}"
    shown = f"{text} {theme.glyph('→')} {line}" if line and not task.is_asking else text
    return _title(shown, width, theme, "warning" if task.is_asking else "dim")


def _show_work(live: LiveBlock, width: int, theme: Theme, now: float) -> list[Line]:
    spinner = theme.spinner(now)
    if live.retry is not None:
        text = " ".join(theme.clean(describe_retry(live.retry, now)).split())
        return [_title(f"{spinner} {text}", width, theme, "warning")]
    took = f"{theme.glyph('·')} {format_seconds(now - live.since)}"
    if live.compaction:
        return [_title(f"{spinner} {theme.clean(live.compaction)} {took}", width, theme, "warning")]
    is_waiting = live.tools or any(not task.is_background for task in live.tasks)
    if not live.is_running or is_waiting or live.thinking or live.answer:
        return []
    return [_title(f"{spinner} working {took}", width, theme)]


def _title(text: str, width: int, theme: Theme, style: str = "dim") -> Line:
    return truncate_line((Span(text, theme.sgr(style)),), width, theme.glyph("…"))
