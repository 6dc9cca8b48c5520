"""Lines that were handed to the session, and the runs that they started, until they end."""

from clew.core.ids import RunId
from clew.core.results import ExecutionResult


class PendingLines:
    """Follows lines from the moment they are sent to the end of their runs.

    The end of a run may arrive before the session has reported that it accepted the line.
    """

    def __init__(self) -> None:
        self._prompts: set[int] = set()
        """Lines that need a turn, by number."""
        self._commands: set[int] = set()
        self._number = 0
        self._runs: dict[RunId, bool] = {}
        """Accepted runs that have not ended, and whether each is a skill."""
        self._ended: dict[RunId, ExecutionResult | None] = {}
        self.is_working = False
        """The session works, whoever started it."""

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

    def accept(self, run_id: RunId, *, is_skill: bool) -> ExecutionResult | None:
        """Note that a line started a run; returns the result of a skill that has ended already."""
        if run_id not in self._ended:
            self._runs[run_id] = is_skill
            return None
        result = self._ended.pop(run_id)
        return result if is_skill else None

    def end(self, run_id: RunId, result: ExecutionResult | None) -> ExecutionResult | None:
        """Note that a run has ended; returns the result of a skill."""
        if run_id in self._runs:
            return result if self._runs.pop(run_id) else None
        if self._prompts or self._commands:
            self._ended[run_id] = result
        return None
