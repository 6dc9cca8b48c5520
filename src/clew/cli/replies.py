"""What print mode shows for a line that was a command, a skill or a shell command."""

from collections.abc import Mapping
from dataclasses import dataclass

from clew.core.errors import SessionError
from clew.core.results import ExecutionResult
from clew.sdk.client import (
    CommandOutcome,
    CopyText,
    NewSession,
    OpenSession,
    PickSession,
    SetTheme,
)

_ABORTED = "aborted; the partial answer is saved"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReply:
    """The result of a line."""

    text: str = ""
    """Empty when events have shown it already."""
    data: Mapping[str, object] | None = None
    """The result of a command as data."""


def make_reply(outcome: CommandOutcome, result: ExecutionResult | None) -> LineReply:
    """Return what to show for a line that was carried out.

    Raises:
        SessionError: The command failed, or has no effect without a terminal.
    """
    if result is not None:
        return _show_result(result, whole=outcome.kind == "skill")
    if outcome.kind == "shell":
        return LineReply(text=outcome.message)
    if not outcome.success:
        raise SessionError(outcome.message)
    match outcome.effect:
        case NewSession() | OpenSession() | PickSession():
            raise SessionError(
                f"/{outcome.name} works only at the interactive prompt; choose the session with"
                " --continue, --resume ID or --fork ID, or start a new one without them"
            )
        case SetTheme():
            raise SessionError(f"/{outcome.name} works only at the interactive prompt")
        case CopyText(text):
            # There is no clipboard to copy to, but a pipe.
            return LineReply(text=text, data=outcome.data)
        case _:
            return LineReply(text=outcome.message, data=outcome.data)


def _show_result(result: ExecutionResult, *, whole: bool) -> LineReply:
    if result.interrupted:
        return LineReply(text=_ABORTED)
    streamed = result.last_call is not None or not whole
    return LineReply(text="" if streamed else result.response)
