"""What forgetting costs: an agent that needs what left its view has to fetch it back.

A recorded agent acts as if it still saw everything. So where its next tool calls name
something that had come up and that the view no longer shows, the simulation has it look that
up first: one more call, and the page that has the name comes back into the view.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from clew.context.items import Item
from clew.context.recall import RECALL
from clew.context.view import View
from clew.core.ids import CallId
from clew.core.messages import Message, ToolCall, assistant, tool_result
from clew.simulation.names import Names, text_of

_PAGE = 12_000
"""Characters that one look-up returns."""


class Sight:
    """Which names the view shows; following it costs what changed."""

    def __init__(self, names: Names, messages: Sequence[Message]) -> None:
        self._names = names
        self._messages = messages
        self._shown: Counter[str] = Counter()
        self._items: dict[int, Item] = {}
        self._lookups = 0

    def look_up(self, view: View, place: int) -> list[Message]:
        """Return the call and the results by which the agent sees again what it is to name.

        Empty when the view shows all that message `place` needs.
        """
        sources = self._names.sources(place)
        if not sources:
            return []
        self._follow(view)
        missing = {source: name for name, source in sources.items() if not self._shown[name]}
        if not missing:
            return []
        pages = [self._page(source, missing[source]) for source in sorted(missing)]
        calls = [self._call(source) for source in sorted(missing)]
        answers = [tool_result(call, page) for call, page in zip(calls, pages, strict=True)]
        return [assistant(*calls), *answers]

    def _follow(self, view: View) -> None:
        now = {id(item): item for item in view.items}
        for key in self._items.keys() - now.keys():
            self._shown.subtract(self._names.said(self._items[key]))
        for key in now.keys() - self._items.keys():
            self._shown.update(self._names.said(now[key]))
        self._items = now

    def _call(self, source: int) -> ToolCall:
        self._lookups += 1
        arguments = msgspec.json.encode({"entry": source}).decode()
        return ToolCall(call_id=CallId(f"lookup_{self._lookups}"), name=RECALL, arguments=arguments)

    def _page(self, source: int, name: str) -> str:
        text = text_of(self._messages[source])
        start = max(0, text.find(name)) // _PAGE * _PAGE
        return text[start : start + _PAGE]
