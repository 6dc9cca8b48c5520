"""Tool calls as text: one line with the size of the result, a diff, or all of it."""

from itertools import islice

import msgspec

from clew.core.file_change import read_file_change
from clew.core.json_text import decode_json
from clew.core.text import pluralize, replace_surrogates
from clew.core.tool_states import first_argument
from clew.tui.blocks import EXIT_PLAN_MODE, ServerToolBlock, ShellOutput, ToolCallBlock
from clew.tui.rendering.diff_text import render_diff
from clew.tui.rendering.lines import Line, Span, chop_line, count_line, truncate_line, wrap_line
from clew.tui.rendering.notes import format_seconds, split_text, wrap_text
from clew.tui.theme import Theme

_MAX_FOLDED_DIFF = 40
_FAILURE_LINES = 6
_SHELL_LINES = 30
_MAX_EXPANDED = 2_000
_SHORT_OUTPUT = 60
_SHOW_SECONDS_AFTER = 1.0
_LEAST_TITLE = 30
"""With less room than this, the title of a call takes several lines."""
_INDENT = (Span("  "),)
_AGENT = "Agent"
_NO_OUTPUT = "[no output]"
_UNTIL_THEN = "Its output until then:"


def show_call(
    block: ToolCallBlock, width: int, theme: Theme, *, expanded: bool = False
) -> list[Line]:
    """Return a call with its outcome: folded to a line, except for a diff and a failure."""
    change = read_file_change(block.data) if block.outcome == "success" else None
    lines = _title(block, width, theme)
    if change is not None:
        most = None if expanded else _MAX_FOLDED_DIFF
        diff = render_diff(change, width=width - 2, theme=theme, most=most)
        lines += [(*_INDENT, *line) for line in diff]
    elif expanded:
        lines += _show_arguments(block, width, theme)
        lines += show_output(block.text or block.display, width, theme, most=_MAX_EXPANDED)
    elif block.outcome == "denied":
        lines += _indent_note(block.display, width, theme, "error")
    elif block.outcome == "error":
        text, words = _describe_end(block)
        lines += show_end(text, width, theme, most=_FAILURE_LINES, words=words)
    if block.remedy:
        lines += _indent_note(block.remedy, width, theme, "dim")
    if block.truncated:
        lines += _indent_note(block.truncated, width, theme, "dim")
    return lines


def show_server_tool(
    block: ServerToolBlock, width: int, theme: Theme, *, expanded: bool = False
) -> list[Line]:
    """Return a call that the provider made."""
    call = ToolCallBlock(
        number=block.number,
        name=block.name,
        arguments=block.arguments,
        outcome="error" if block.failed else "success",
        display=block.text,
        seconds=block.seconds,
    )
    return show_call(call, width, theme, expanded=expanded)


def show_shell(
    block: ShellOutput, width: int, theme: Theme, *, expanded: bool = False
) -> list[Line]:
    """Return a command of the user with its output, of which a long one is folded."""
    sign = "! " if theme.is_plain else f"{theme.glyph('❯')} !"
    head: Line = (
        Span(sign, theme.sgr("prompt")),
        Span(" ".join(theme.clean(block.command).split()), theme.sgr("bold")),
    )
    title = _with_number(head, block.number, width, theme)
    if expanded:
        return [title, *show_output(block.text, width, theme, most=_MAX_EXPANDED)]
    return [title, *show_end(block.text, width, theme, most=_SHELL_LINES)]


def describe_call(name: str, arguments: str, theme: Theme) -> tuple[str, str]:
    """Return the name of a tool and its most important argument, each on one line."""
    given = replace_surrogates(arguments)
    argument = _list_jobs(given) if name == _AGENT else ""
    argument = argument or first_argument(given) or given.strip()
    if name == EXIT_PLAN_MODE:
        return "Plan", ""
    if argument in {"{}", "null"}:
        argument = ""
    return _one_line(name, theme), _one_line(argument, theme)


def _list_jobs(arguments: str) -> str:
    """Return the tasks of a call that starts several agents; empty for any other call."""
    try:
        values = decode_json(arguments)
    except msgspec.DecodeError:
        return ""
    jobs = values.get("jobs") if isinstance(values, dict) else None
    tasks = [
        str(job.get("description") or job.get("prompt") or "")
        for job in (jobs if isinstance(jobs, list) else [])
        if isinstance(job, dict)
    ]
    return f"{pluralize(len(tasks), 'task')}: {', '.join(tasks)}" if tasks else ""


def show_output(text: str, width: int, theme: Theme, *, most: int) -> list[Line]:
    """Return the first lines of an output, indented; the last line says how many are left out."""
    texts = split_text(text.rstrip("\n"), theme)
    lines = [row for one in texts[:most] for row in _output_line(one, width)]
    if len(texts) > most:
        lines.append(_more(len(texts) - most, width, theme))
    return lines


def show_end(text: str, width: int, theme: Theme, *, most: int, words: bool = False) -> list[Line]:
    """Return the last lines of an output, indented; the first line says how many are left out.

    Args:
        text: The output.
        width: The columns of the terminal.
        theme: Colours and characters.
        most: The most lines of the output.
        words: Wrap lines between words, as sentences need it.
    """
    texts = split_text(text.rstrip("\n"), theme) if text.strip() else []
    hidden = max(0, len(texts) - most)
    lines = [_more(hidden, width, theme)] if hidden else []
    for one in islice(texts, hidden, None):
        lines += _output_line(one, width, words=words)
    return lines


def _describe_end(block: ToolCallBlock) -> tuple[str, bool]:
    """Return what a failed call has left, and whether it is a sentence of Clew about it."""
    first, _, output = block.display.partition("\n")
    if block.error_code and output and first.endswith(_UNTIL_THEN):
        return output, False  # The title says that it was interrupted.
    return block.display, bool(block.error_code) or "\n" not in block.display


def _title(block: ToolCallBlock, width: int, theme: Theme) -> list[Line]:
    name, argument = describe_call(block.name, block.arguments, theme)
    good = block.outcome == "success"
    sign = Span(f"{theme.glyph('✓' if good else '✗')} ", theme.sgr("success" if good else "error"))
    dot = f" {theme.glyph('·')} "
    end = Span("".join(f"{dot}{fact}" for fact in _facts(block, theme)), theme.sgr("dim"))
    head = (sign, Span(name, theme.sgr("tool")), Span(f" {argument}" if argument else ""))
    mark = Span(f"  #{block.number}" if block.number else "", theme.sgr("dim"))
    room = width - count_line((end, mark))
    if room < _LEAST_TITLE:
        start = truncate_line(head, 2 * width, theme.glyph("…"))
        return wrap_line((*start, end, mark), width, rest=_INDENT)
    return [(*truncate_line(head, room, theme.glyph("…")), end, mark)]


def _facts(block: ToolCallBlock, theme: Theme) -> list[str]:
    change = read_file_change(block.data)
    facts = []
    if block.outcome == "denied":
        facts.append("denied")
    elif block.outcome == "error":
        facts.append(_describe_failure(block))
    elif change is not None:
        facts.append(f"{'new, ' if change.created else ''}+{change.added:,} -{change.removed:,}")
    else:
        facts.append(_describe_size(block, theme))
    if block.seconds >= _SHOW_SECONDS_AFTER:
        facts.append(format_seconds(block.seconds))
    return [fact for fact in facts if fact]


def _describe_failure(block: ToolCallBlock) -> str:
    match block.data:
        case {"timed_out": True}:
            return "timed out"
        case {"exit_code": int(code)} if code > 0:
            return f"exit code {code}"
        case _:
            return block.error_code.replace("_", " ") or "failed"


def _describe_size(block: ToolCallBlock, theme: Theme) -> str:
    lines = block.display.strip("\n").split("\n")
    if len(lines) > 1:
        return pluralize(len(lines), "line")
    _, argument = describe_call(block.name, block.arguments, theme)
    text = _one_line(lines[0], theme)
    if text == _NO_OUTPUT or text.startswith(f"[{argument}: "):
        text = text[1:-1]
    # A pattern may end with a space.
    text = text.removeprefix(f"{argument}: ").removeprefix(f"{argument} : ")
    return text if len(text) <= _SHORT_OUTPUT else pluralize(len(text), "character")


def _show_arguments(block: ToolCallBlock, width: int, theme: Theme) -> list[Line]:
    text = block.arguments.strip()
    if text in {"", "{}"} or len(text) < width:
        return []
    return [
        (*_INDENT, Span(line[0].text, theme.sgr("dim")))
        for line in chop_line((Span(_one_line(text, theme)),), width - 2)
    ]


def _indent_note(text: str, width: int, theme: Theme, style: str) -> list[Line]:
    return [(*_INDENT, *line) for line in wrap_text(text.strip(), width - 2, theme, style)]


def _output_line(text: str, width: int, *, words: bool = False) -> list[Line]:
    split = wrap_line if words else chop_line
    return [(*_INDENT, *line) for line in split((Span(text),), width - 2)]


def _more(count: int, width: int, theme: Theme) -> Line:
    text = f"{theme.glyph('…')} {pluralize(count, 'more line')}"
    return truncate_line((*_INDENT, Span(text, theme.sgr("dim"))), width, theme.glyph("…"))


def _with_number(line: Line, number: int, width: int, theme: Theme) -> Line:
    mark = f"  #{number}" if number else ""
    shown = truncate_line(line, max(1, width - len(mark)), theme.glyph("…"))
    if count_line(shown) + len(mark) > width:
        return shown
    return (*shown, Span(mark, theme.sgr("dim")))


def _one_line(text: str, theme: Theme) -> str:
    return " ".join(theme.clean(text).split())
