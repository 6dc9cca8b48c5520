"""What can be wrong with a log: one code for each fault."""

from enum import StrEnum

from msgspec import Struct


class Code(StrEnum):
    """The kinds of faults."""

    LINE_TORN = "LINE_TORN"
    """The last line before the end, or before the session was opened again, is not whole."""
    LINE_INVALID = "LINE_INVALID"
    """A line in the middle is not a line of a log."""
    EVENT_UNKNOWN = "EVENT_UNKNOWN"
    """A newer Clew wrote it."""
    EVENT_INVALID = "EVENT_INVALID"
    """The fields are not those of the event."""
    FORMAT_UNKNOWN = "FORMAT_UNKNOWN"
    """The whole log is of a newer format."""
    SESSION_INIT_MISSING = "SESSION_INIT_MISSING"
    SESSION_MISMATCH = "SESSION_MISMATCH"
    """A line is of another session."""
    SEQUENCE_GAP = "SEQUENCE_GAP"
    SEQUENCE_DUPLICATE = "SEQUENCE_DUPLICATE"
    """A number was used before, or stands too late."""
    PAYLOAD_REFERENCE_INVALID = "PAYLOAD_REFERENCE_INVALID"
    PAYLOAD_MISSING = "PAYLOAD_MISSING"
    PAYLOAD_SIZE_MISMATCH = "PAYLOAD_SIZE_MISMATCH"
    PAYLOAD_SHA256_MISMATCH = "PAYLOAD_SHA256_MISMATCH"
    PROVIDER_NATIVE_RAW_PAYLOAD_MISSING = "PROVIDER_NATIVE_RAW_PAYLOAD_MISSING"
    PROVIDER_RESPONSE_RAW_MISSING = "PROVIDER_RESPONSE_RAW_MISSING"
    PROVIDER_RESPONSE_NORMALIZED_MISSING = "PROVIDER_RESPONSE_NORMALIZED_MISSING"
    PROVIDER_REQUEST_MISSING = "PROVIDER_REQUEST_MISSING"
    """An answer to a call that nobody made."""
    EXECUTION_ID_DUPLICATE = "EXECUTION_ID_DUPLICATE"
    CONTENT_MISSING = "CONTENT_MISSING"
    """A request names a content that no line before it holds."""
    CONTENT_SHA256_MISMATCH = "CONTENT_SHA256_MISMATCH"
    REQUEST_BASE_INVALID = "REQUEST_BASE_INVALID"
    """A request goes on from one that is not there, or is shorter than it says."""
    REQUEST_HISTORY_MISMATCH = "REQUEST_HISTORY_MISMATCH"
    """A request is not what the history up to there leads to."""
    TOOL_RESULT_MISSING = "TOOL_RESULT_MISSING"
    TOOL_REQUEST_MISSING = "TOOL_REQUEST_MISSING"
    """A result of a call that nobody took up."""
    TOOL_MESSAGE_MISSING = "TOOL_MESSAGE_MISSING"
    """A call has a result that is not in the history."""
    TOOL_CALL_DUPLICATE = "TOOL_CALL_DUPLICATE"
    HISTORY_ENTRY_INVALID = "HISTORY_ENTRY_INVALID"
    HISTORY_ENTRY_GAP = "HISTORY_ENTRY_GAP"
    HISTORY_ENTRY_DUPLICATE = "HISTORY_ENTRY_DUPLICATE"
    HISTORY_TARGET_UNKNOWN = "HISTORY_TARGET_UNKNOWN"
    """An entry changes another one that is not there."""

    @property
    def is_tolerated(self) -> bool:
        """True for what a crash or a newer Clew leaves behind: no reason to distrust the rest."""
        return self in {Code.LINE_TORN, Code.EVENT_UNKNOWN}


class Fault(Struct, frozen=True, kw_only=True):
    """One thing that is wrong, and where."""

    code: Code
    text: str
    line: int
    """Counted from 1; the last one for what is missing altogether."""
    seq: int = 0
    """The number of the event; 0 where it has none."""

    def __str__(self) -> str:
        where = f"line {self.line}" + (f" (seq {self.seq})" if self.seq else "")
        return f"{self.code} {where}: {self.text}"
