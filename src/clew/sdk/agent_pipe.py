"""What a session and an agent in another process tell each other, as lines of JSON.

The parent writes the values below to the standard input of the process: first `StartAgent`, then
what comes up. The process writes `Envelope`s to its standard output: every event of the agent.
"""

from typing import TypeAlias

from msgspec import Struct

from clew.core.json_text import JsonDecoder
from clew.core.permissions import PermissionAnswer, PermissionMode
from clew.permissions.policy import Grant
from clew.runtime.protocol import TaskRequest
from clew.sdk.session_spec import SessionSpec


class StartAgent(Struct, frozen=True, kw_only=True, tag="start"):
    """What to run. Keys are not part of it: the process has the environment of its parent."""

    spec: SessionSpec
    request: TaskRequest
    grants: tuple[Grant, ...] = ()
    """What the user has allowed for the rest of the session."""
    budget: float | None = None
    """US dollars that the agent may cost from now on; None for no limit."""


class AnswerQuestion(Struct, frozen=True, kw_only=True, tag="answer"):
    """The answer to a `permission_request` of the agent."""

    request_id: str
    answer: PermissionAnswer


class SendText(Struct, frozen=True, kw_only=True, tag="send"):
    """A message for the agent."""

    text: str


class ChangeMode(Struct, frozen=True, kw_only=True, tag="mode"):
    """The permission mode of the parent has changed."""

    mode: PermissionMode


class ChangeBudget(Struct, frozen=True, kw_only=True, tag="budget"):
    """What the agent may cost since its start, after what others have spent."""

    budget: float | None


class FinishAgent(Struct, frozen=True, tag="finish"):
    """Nothing more follows; end when all is done."""


ToAgent: TypeAlias = (
    StartAgent | AnswerQuestion | SendText | ChangeMode | ChangeBudget | FinishAgent
)
decode_line = JsonDecoder(ToAgent).decode
"""Read a line that was written for an agent."""


class LineBuffer:
    """Puts the pieces that a pipe delivers together to lines."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are complete now, without their ends."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return lines
