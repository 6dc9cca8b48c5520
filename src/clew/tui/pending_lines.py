"""Lines that were handed to the session, and the runs that they started, until they end."""

from dataclasses import dataclass

from clew.core.ids import RunId
from clew.core.results import ExecutionResult


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    result: ExecutionResult | None = None
    """None after a failure."""
    error_type: str = ""
    """The class of the error after a failure."""


@dataclass(frozen=True, slots=True)
class AcceptedLine:
    """A line that started a run."""

    line: str
    is_skill: bool


class PendingLines:
    """Follows lines from the moment they are sent to the end of their runs.

    The end of a run may arrive before the session has reported that it accepted the line.
    """

    def __init__(self) -> None:
        self._prompts: set[int] = set()
        """Lines that need a turn, by number."""
        self._commands: set[int] = set()
        self._number = 0
        self._runs: dict[RunId, AcceptedLine] = {}
        """The lines whose runs have not ended."""
        self._ended: dict[RunId, Ending] = {}
        """Runs that ended before their line was accepted."""
        self.is_working = False
        """True while the session works, also on a prompt of another client."""

    @property
    def is_busy(self) -> bool:
        """True while something runs, or was sent and has not started yet."""
        return bool(self._prompts or self._runs or self.is_working)

    @property
    def is_active(self) -> bool:
        """True while something runs, or a command is carried out."""
        return self.is_busy or bool(self._commands)

    def add(self, line: str) -> int:
        """Note that a line is handed over; returns its number."""
        self._number += 1
        (self._commands if line.startswith("/") else self._prompts).add(self._number)
        return self._number

    def remove(self, number: int) -> None:
        """Note that the session has taken a line, or refused it."""
        self._prompts.discard(number)
        self._commands.discard(number)

    def accept(self, run_id: RunId, accepted: AcceptedLine) -> Ending | None:
        """Note that a line started a run; returns the ending of a run that is over already."""
        ending = self._ended.pop(run_id, None)
        if ending is None:
            self._runs[run_id] = accepted
        return ending

    def end(self, run_id: RunId, ending: Ending) -> AcceptedLine | None:
        """Note that a run has ended; returns the line that started it, if it is known."""
        accepted = self._runs.pop(run_id, None)
        if accepted is None and (self._prompts or self._commands):
            self._ended[run_id] = ending
        return accepted
