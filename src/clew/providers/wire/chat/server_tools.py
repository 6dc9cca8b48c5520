"""What a host did by itself while it answered: searches it ran, code it executed.

None of it can be sent back in this API, so it is only reported.
"""

from clew.providers.protocol import ServerToolChunk
from clew.providers.wire.chat.answers import Delta, Executed, Payload

_SEARCH = "web_search"
_NAMES = {"search": _SEARCH}


class ServerTools:
    """Follows the host's own tools through one answer."""

    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._ended: set[str] = set()
        self._sources: dict[str, str] = {}

    def used(self, delta: Delta) -> list[ServerToolChunk]:
        """Return what a piece of the answer shows of tools that are new, or ended."""
        found = [chunk for tool in delta.executed_tools or () for chunk in self._executed(tool)]
        for note in delta.annotations or ():
            self._add(note.get("url_citation"))
        return found + self._searched()

    def cited(self, payload: Payload) -> list[ServerToolChunk]:
        """Return what stands beside the answer about a search."""
        for result in payload.search_results or ():
            self._add(result)
        for address in payload.citations or ():
            self._add({"url": address})
        return self._searched()

    def end(self) -> list[ServerToolChunk]:
        """Return the end of the search, with all its sources."""
        if _SEARCH not in self._begun or _SEARCH in self._ended:
            return []
        self._ended.add(_SEARCH)
        lines = (f"{title} {url}".strip() for url, title in self._sources.items())
        return [ServerToolChunk(call_id=_SEARCH, name=_SEARCH, text="\n".join(lines), ended=True)]

    def _executed(self, tool: Executed) -> list[ServerToolChunk]:
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

    def _searched(self) -> list[ServerToolChunk]:
        """Return a beginning when the first source has turned up."""
        if not self._sources or _SEARCH in self._begun:
            return []
        self._begun.add(_SEARCH)
        return [ServerToolChunk(call_id=_SEARCH, name=_SEARCH)]

    def _add(self, source: object) -> None:
        if isinstance(source, dict) and isinstance(url := source.get("url"), str):
            self._sources[url] = str(source.get("title") or self._sources.get(url, ""))
