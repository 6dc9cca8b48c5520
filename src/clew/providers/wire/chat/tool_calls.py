"""Track the tool calls of one response, and the tools that the host ran itself."""

import msgspec

from clew.core.ids import CallId
from clew.providers.protocol import CallChunk, ServerToolChunk
from clew.providers.wire.chat.response import (
    ChatDelta,
    ChatPayload,
    ExecutedTool,
    FunctionCall,
    ToolCallDelta,
)

_json = msgspec.json.Encoder()
_NO_FUNCTION = FunctionCall()


class ToolCallTracker:
    """Gives every tool call of a response its own index, whatever the server counts."""

    def __init__(self) -> None:
        self.count = 0
        self._by_wire: dict[int, tuple[int, str]] = {}
        self._named: set[int] = set()
        self._last = 0
        self._ended = 0

    def chunk(self, call: ToolCallDelta) -> CallChunk:
        """Return the chunk for one delta; id and name are sent once per call."""
        index, fresh = self._place(call)
        function = call.function or _NO_FUNCTION
        name, arguments = function.name or "", function.arguments or ""
        if name:
            name = "" if index in self._named else name
            self._named.add(index)
        if isinstance(arguments, dict):
            arguments = _json.encode(arguments).decode()
        extra = ""
        if call.extra_content:
            extra = _json.encode({"extra_content": call.extra_content}).decode()
        return CallChunk(
            index=index,
            call_id=CallId(call.id) if fresh and call.id else None,
            name=name,
            arguments=arguments,
            extra=extra,
        )

    def text_call(self, name: str, arguments: str) -> CallChunk:
        """Return the chunk for a tool call that the model wrote as text."""
        index, self.count = self.count, self.count + 1
        return CallChunk(index=index, name=name, arguments=arguments, complete=True)

    def end(self) -> list[CallChunk]:
        """Return the chunks that complete the calls so far."""
        ended, self._ended = self._ended, self.count
        return [CallChunk(index=index, complete=True) for index in range(ended, self.count)]

    def _place(self, call: ToolCallDelta) -> tuple[int, bool]:
        wire = call.index
        if wire is None:
            wire = self.count if call.id else self._last
        known = self._by_wire.get(wire)
        if known is not None and not call.id:
            self._last = wire
            return known[0], False
        # Gemini's endpoint gives parallel calls the same index but different ids.
        named = call.function is not None and bool(call.function.name)
        if known is not None and not (call.id and known[1] not in {"", call.id} and named):
            self._last = wire
            late = not known[1]
            if late:
                self._by_wire[wire] = (known[0], call.id or "")
            return known[0], late
        index, self.count, self._last = self.count, self.count + 1, wire
        self._by_wire[wire] = (index, call.id or "")
        return index, True


_SEARCH = "web_search"
_NAMES = {"search": _SEARCH}


class HostToolTracker:
    """Reports searches and code that the host ran; this API cannot send them back."""

    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._ended: set[str] = set()
        self._sources: dict[str, str] = {}

    def read_delta(self, delta: ChatDelta) -> list[ServerToolChunk]:
        """Return the tools that a delta starts or ends."""
        found = [
            chunk for tool in delta.executed_tools or () for chunk in self._track_executed(tool)
        ]
        for note in delta.annotations or ():
            self._add(note.get("url_citation"))
        return found + self._start_search()

    def read_citations(self, payload: ChatPayload) -> list[ServerToolChunk]:
        """Return the search that a response's citations imply."""
        for result in payload.search_results or ():
            self._add(result)
        for address in payload.citations or ():
            self._add({"url": address})
        return self._start_search()

    def end(self) -> list[ServerToolChunk]:
        """Return the end of the search, with all its sources."""
        if _SEARCH not in self._begun or _SEARCH in self._ended:
            return []
        self._ended.add(_SEARCH)
        lines = (f"{title} {url}".strip() for url, title in self._sources.items())
        return [ServerToolChunk(call_id=_SEARCH, name=_SEARCH, text="\n".join(lines), ended=True)]

    def _track_executed(self, tool: ExecutedTool) -> list[ServerToolChunk]:
        call_id = f"executed-{tool.index or 0}"
        name = _NAMES.get(tool.type or "", tool.type or "tool")
        found: list[ServerToolChunk] = []
        if call_id not in self._begun:
            self._begun.add(call_id)
            found.append(ServerToolChunk(call_id=call_id, name=name, text=tool.arguments or ""))
        if tool.output is not None and call_id not in self._ended:
            self._ended.add(call_id)
            found.append(ServerToolChunk(call_id=call_id, name=name, text=tool.output, ended=True))
        return found

    def _start_search(self) -> list[ServerToolChunk]:
        """Return the start of a search when its first source arrives."""
        if not self._sources or _SEARCH in self._begun:
            return []
        self._begun.add(_SEARCH)
        return [ServerToolChunk(call_id=_SEARCH, name=_SEARCH)]

    def _add(self, source: object) -> None:
        if isinstance(source, dict) and isinstance(url := source.get("url"), str):
            self._sources[url] = str(source.get("title") or self._sources.get(url, ""))
