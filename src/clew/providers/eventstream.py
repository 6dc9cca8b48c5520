"""A parser for AWS event streams that works on any chunk boundaries.

botocore decodes the frames; the extra `bedrock` installs it, and it is imported on first use.
"""

from importlib import import_module
from typing import Any

import msgspec

from clew.core.errors import MissingExtra, StreamBroken
from clew.providers.sse import ServerEvent

EXCEPTION = "exception/"
"""The prefix of the names of error events."""


class EventStream:
    """Parses the bytes of one response into events, named by their type.

    Raises:
        MissingExtra: botocore is not installed.
    """

    def __init__(self, provider: str) -> None:
        frames = import_botocore("eventstream")
        self._provider = provider
        self._buffer = frames.EventStreamBuffer()
        self._unreadable: type[Exception] = frames.ParserError
        self._broken: Exception | None = None

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Add the next bytes and return the events that they complete.

        Raises:
            StreamBroken: The bytes are not valid frames.
        """
        self._buffer.add_data(chunk)
        events: list[ServerEvent] = []
        try:
            while self._broken is None and (event := self._next()):
                events.append(event)
        except self._unreadable as error:
            # The events before the damage are returned first.
            self._broken = error
        if self._broken is not None and not events:
            raise self._make_error() from self._broken
        return events

    def close(self) -> list[ServerEvent]:
        """Return no events: an incomplete frame is unusable.

        Raises:
            StreamBroken: The last bytes were not valid frames.
        """
        if self._broken is not None:
            raise self._make_error() from self._broken
        return []

    def _next(self) -> ServerEvent | None:
        frame = next(self._buffer, None)
        return None if frame is None else _event(frame.headers, frame.payload)

    def _make_error(self) -> StreamBroken:
        return StreamBroken(
            f"{self._provider} sent an invalid event stream ({self._broken})."
            " The partial response is kept; send the message again to continue.",
            provider=self._provider,
        )


def import_botocore(module: str) -> Any:
    """Import a module of botocore.

    Raises:
        MissingExtra: botocore is not installed.
    """
    try:
        return import_module(f"botocore.{module}")
    except ModuleNotFoundError as error:
        raise MissingExtra("AWS Bedrock needs botocore.", extra="bedrock") from error


def _event(headers: dict[str, Any], payload: bytes) -> ServerEvent:
    data = payload.decode(errors="replace")
    match headers.get(":message-type"):
        case "exception":
            return ServerEvent(data, f"{EXCEPTION}{headers.get(':exception-type', '')}")
        case "error":
            said = {"message": str(headers.get(":error-message", ""))}
            text = data or msgspec.json.encode(said).decode()
            return ServerEvent(text, f"{EXCEPTION}{headers.get(':error-code', '')}")
        case _:
            return ServerEvent(data, str(headers.get(":event-type", "")))
