"""What the prompt and print mode show after a line: messages, output, and what to do next."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from clew.cli.paint import stop_note
from clew.core.errors import SessionError
from clew.core.results import ExecutionResult
from clew.sdk.client import (
    CommandOutcome,
    NewSession,
    OpenSession,
    PickSession,
)

ABORTED: Final = "aborted; the partial answer is saved"
NEW: Final = ""
"""In place of a session's id: start a new one."""
_QUIT_HELP = f"  /{'quit, /exit':<14} exit; you can resume later"
_RAW_OUTPUT = frozenset({"memory", "recall"})
"""Commands whose message is shown unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReply:
    """The result of a line."""

    lines: tuple[str, ...] = ()
    """Messages."""
    output: str = ""
    """Text that is shown unchanged, such as the output of a shell command."""
    answer: str = ""
    """An answer that was not streamed."""
    data: Mapping[str, object] | None = None
    """The result of a command as data."""
    is_shown: bool = False
    """True when events have shown `lines` already."""
    gauge: bool | None = None
    """Whether to draw the context gauge; None to draw it when the state has changed."""
    pick: tuple[str, ...] | None = None
    """Let the user choose a session: one of these, or any if it is empty."""
    open: str | None = None
    """Open this session, or a new one; None to stay."""


def is_quit(line: str) -> bool:
    """Return True for a line that leaves the prompt."""
    return line.lower().split(maxsplit=1)[:1] in (["/quit"], ["/exit"])


def make_reply(outcome: CommandOutcome, result: ExecutionResult | None, line: str) -> LineReply:
    """Return what to show for a line that was carried out.

    Raises:
        SessionError: The command failed.
    """
    if result is not None:
        return _show_result(result, whole=outcome.kind == "skill")
    if outcome.kind == "shell":
        return LineReply(output=outcome.message, gauge=True)
    if not outcome.success:
        raise SessionError(outcome.message)
    return _show_command(outcome, line)


def _show_result(result: ExecutionResult, *, whole: bool) -> LineReply:
    if result.interrupted:
        return LineReply(lines=(ABORTED,))
    empty = not result.response.strip() and not stop_note(result.stop_reason)
    lines = ("the answer is empty",) if empty else ()
    streamed = result.last_call is not None or not whole
    return LineReply(gauge=True, answer="" if streamed else result.response, lines=lines)


def _show_command(outcome: CommandOutcome, line: str) -> LineReply:
    lines: tuple[str, ...] = (outcome.message,)
    data = outcome.data
    match outcome.effect:
        case NewSession():
            return LineReply(lines=lines, data=data, open=NEW)
        case OpenSession(session_id):
            return LineReply(lines=lines, data=data, open=session_id)
        case PickSession(candidates):
            return LineReply(data=data, pick=candidates)
        case _:
            pass
    match data:
        case {"agent": str()}:
            return LineReply(answer=outcome.message, data=data)
        case {"deferred": False}:
            return LineReply(lines=lines, data=data, is_shown=True, gauge=False)
        case _:
            pass
    if outcome.name in _RAW_OUTPUT:
        return LineReply(output=outcome.message, data=data)
    if outcome.name == "help" and not line.strip().partition(" ")[2]:
        lines = (*lines, _QUIT_HELP)
    return LineReply(lines=lines, data=data, gauge=False if outcome.name == "context" else None)
