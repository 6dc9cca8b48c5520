"""Telling the tool calls of one answer apart, whatever the server counts."""

import msgspec

from clew.core.ids import CallId
from clew.providers.protocol import CallChunk
from clew.providers.wire.chat.answers import Call, Function

_json = msgspec.json.Encoder()


class Calls:
    """Gives every tool call of an answer its own index."""

    def __init__(self) -> None:
        self.count = 0
        self._by_wire: dict[int, tuple[int, str]] = {}
        self._named: set[int] = set()
        self._last = 0
        self._ended = 0

    def chunk(self, call: Call) -> CallChunk:
        """Return the chunk for one delta; id and name go out once per call."""
        index, fresh = self._place(call)
        function = call.function or Function()
        name = "" if index in self._named else function.name or ""
        if name:
            self._named.add(index)
        arguments = function.arguments or ""
        if isinstance(arguments, dict):
            arguments = _json.encode(arguments).decode()
        private = {"extra_content": call.extra_content} if call.extra_content else None
        return CallChunk(
            index=index,
            call_id=CallId(call.id) if fresh and call.id else None,
            name=name,
            arguments=arguments,
            extra=_json.encode(private).decode() if private else "",
        )

    def written(self, name: str, arguments: str) -> CallChunk:
        """Return the chunk for a call that the model wrote into its words."""
        index, self.count = self.count, self.count + 1
        return CallChunk(index=index, name=name, arguments=arguments, complete=True)

    def end(self) -> list[CallChunk]:
        """Return the chunks that say that the calls so far are complete."""
        ended, self._ended = self._ended, self.count
        return [CallChunk(index=index, complete=True) for index in range(ended, self.count)]

    def _place(self, call: Call) -> tuple[int, bool]:
        wire = call.index
        if wire is None:
            wire = self.count if call.id else self._last
        known = self._by_wire.get(wire)
        # Gemini's endpoint gives parallel calls one index and tells them apart by id.
        named = call.function is not None and bool(call.function.name)
        if known is not None and not (call.id and known[1] not in {"", call.id} and named):
            self._last = wire
            late = bool(call.id) and not known[1]
            if late:
                self._by_wire[wire] = (known[0], call.id or "")
            return known[0], late
        index, self.count, self._last = self.count, self.count + 1, wire
        self._by_wire[wire] = (index, call.id or "")
        return index, True
