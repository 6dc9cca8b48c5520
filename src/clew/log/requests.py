"""Writing down model calls one after the other, each as what is new in it."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from clew.core.messages import Message
from clew.log.calls import CallLog, Place, request_event
from clew.log.events import LogLevel, Outline
from clew.log.lines import Lines
from clew.log.native import NativeCall, NativeChains
from clew.log.outline import Chain, Contents
from clew.log.telling import Teller
from clew.providers.protocol import Provider, Request
from clew.providers.recorded_calls import extra_fields

TURN = "turn"
_FEW = 32
"""A first request of so many messages is spelt out; a longer one is what the history leads to."""


@runtime_checkable
class _ShowsWire(Protocol):
    """A provider that lets others look on; see `clew.providers.transport_tap`."""

    def watched(self, watch: NativeCall) -> Provider:
        """Return a twin that shows all it sends and gets."""
        ...


class Requests:
    """Knows what the log holds of earlier requests."""

    def __init__(self, lines: Lines, level: LogLevel, teller: Teller) -> None:
        self._lines = lines
        self._level = level
        self._teller = teller
        self.contents = Contents(lines.redaction.value)
        self._native = NativeChains(self.contents)
        self._turns: Chain[Message] = Chain()

    def start_anew(self) -> None:
        """Suppose nothing of what the log holds but the history."""
        self.contents.forget()
        self._native.forget()
        self._turns = Chain()

    def begin(
        self,
        provider: Provider,
        request: Request,
        *,
        purpose: str,
        history: Sequence[Message],
        name_of: Callable[[Message], str],
    ) -> tuple[CallLog, Provider]:
        """Write down a request; returns who takes note of the answer, and whom to ask."""
        is_turn = purpose == TURN
        self._teller.round += is_turn
        place = Place(
            execution_id=f"x{self._lines.next_seq}",
            run=self._teller.run,
            round=self._teller.round,
            purpose=purpose,
        )
        if is_turn:
            self._teller.execution_id = place.execution_id
        native = None
        if self._level is LogLevel.RAW and isinstance(provider, _ShowsWire):
            native = NativeCall(self._lines, self._native, place.execution_id)
        call = CallLog(
            self._lines,
            place,
            provider=provider.name,
            is_raw=self._level is LogLevel.RAW,
            native=native,
        )
        event = request_event(
            request,
            place,
            provider=provider.name,
            messages=self._outline(request, place, history=history, name_of=name_of),
            system=self.contents.name_in("system", request.system) if request.system else "",
            tools=self.contents.name_in("tools", request.tools) if request.tools else "",
            head=self._lines.redaction.value(extra_fields(request)),
            content=self.contents.take(),
            native=native is not None,
        )
        self._lines.write(event, is_clean=True)
        if native is not None and isinstance(provider, _ShowsWire):
            return call, provider.watched(native)
        return call, provider

    def _outline(
        self,
        request: Request,
        place: Place,
        *,
        history: Sequence[Message],
        name_of: Callable[[Message], str],
    ) -> Outline:
        messages = request.messages
        if place.purpose != TURN:
            return Outline(new=tuple(name_of(message) for message in messages))
        if self._turns.is_new and len(messages) > _FEW and messages == tuple(history):
            return self._turns.from_history(messages, place.execution_id)
        return self._turns.outline(messages, name_of, place.execution_id)
