"""Tools that come and go while a session runs, such as those of MCP servers.

Requests declare the tools that a source offers before the first model call of a session. What
changes later reaches the model as a note in the conversation, so that the beginning of requests,
which providers cache, stays as it is.
"""

from collections.abc import Iterator, Mapping

from clew.session.plan_mode import offer_tools
from clew.session.state import SessionState
from clew.tools.protocol import Tool, ToolSource


class LiveTools(Mapping[str, Tool]):
    """A session's own tools, and those that its source has at the moment."""

    def __init__(self, own: Mapping[str, Tool], source: ToolSource) -> None:
        self._own, self._source = own, source

    def __getitem__(self, name: str) -> Tool:
        found = self._own.get(name) or self._source.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (name for name in self._source.list_names() if name not in self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def connect_source(state: SessionState, source: ToolSource) -> None:
    """Make the tools of a source callable.

    Requests declare them as the stored session did, until they are known again.
    """
    stored = state.journal.view.setup.tools
    known = (spec for spec in stored if source.owns(spec.name))
    state.all_specs = (*state.all_specs, *known)
    state.tools = LiveTools(state.tools, source)


async def follow_source(state: SessionState, source: ToolSource) -> list[str]:
    """Declare the tools of a source before the first model call, and return later changes."""
    await source.wait_ready()
    if state.source_declared:
        news = source.take_news()
        return [news] if news else []
    state.source_declared = True
    window = state.journal.view.setup.model.window
    own = [spec for spec in state.all_specs if not source.owns(spec.name)]
    state.all_specs = (*own, *source.choose_specs(window))
    await offer_tools(state)
    return []
