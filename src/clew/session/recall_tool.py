"""`Recall`: lets the model search the whole session and read any entry in full."""

from collections.abc import Sequence
from typing import Any

from clew.context.recall import RECALL, entry_text, excerpt_around, search
from clew.core.entries import Compacted, Entry, MessageAdded
from clew.core.messages import Role
from clew.core.models import ToolSpec
from clew.core.permissions import Access, Risk
from clew.tools.protocol import ToolContext, ToolOutput

RECALL_SPEC = ToolSpec(
    name=RECALL,
    description=(
        "Look up earlier parts of this session that are no longer in view: summarised turns, "
        "cleared tool results, cut output. Give `query` to search by words, or `entry` (a #number "
        "from a summary, marker or search) to read one whole, from `offset` on if it is long."
    ),
    schema={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words to look for."},
            "entry": {"type": "integer", "description": "Number of the entry to read."},
            "offset": {"type": "integer", "description": "First character to read.", "default": 0},
        },
        "additionalProperties": False,
    },
)
_MOST_HITS = 8
_PAGE = 12_000


class Recall:
    """Reads from the entries of the session, which grow while it runs."""

    spec = RECALL_SPEC
    max_output_chars: int | None = None

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """Return an access that touches only the session itself."""
        return Access(tool=RECALL, risk=Risk.INSPECT)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:  # noqa: ARG002
        """Search the entries, or read one."""
        number, query = arguments.get("entry"), arguments.get("query")
        offset = arguments.get("offset", 0)
        if isinstance(number, int) and isinstance(offset, int):
            return self._read(number, max(0, offset))
        if isinstance(query, str) and query.strip():
            return self._find(query)
        return ToolOutput(text="Error: give `query` (words) or `entry` (a number).", failed=True)

    def _read(self, number: int, offset: int) -> ToolOutput:
        entry = next((entry for entry in self._entries if entry.id == number), None)
        text = entry_text(entry) if entry is not None else ""
        if not text:
            return ToolOutput(text=f"Error: there is no text under #{number}.", failed=True)
        if offset >= len(text):
            return ToolOutput(
                text=f"Error: #{number} has {len(text):,} characters; {offset:,} is past the end.",
                failed=True,
            )
        page = text[offset : offset + _PAGE]
        end = offset + len(page)
        more = f"\n[{len(text) - end:,} more characters: offset={end}]" if end < len(text) else ""
        return ToolOutput(text=page + more)

    def _find(self, query: str) -> ToolOutput:
        found = search(self._before_this_turn(), query, limit=_MOST_HITS)
        if not found:
            return ToolOutput(text=f"Nothing in this session contains {query!r}.")
        lines = [f"#{e.id} {_kind(e)}: {excerpt_around(entry_text(e), query)}" for e in found]
        return ToolOutput(text="\n".join(lines))

    def _before_this_turn(self) -> Sequence[Entry]:
        """Return the entries before the current request, which always contains the query."""
        for place in range(len(self._entries) - 1, -1, -1):
            body = self._entries[place].body
            if isinstance(body, MessageAdded) and body.message.role is Role.USER:
                return self._entries[:place]
        return self._entries


def _kind(entry: Entry) -> str:
    match entry.body:
        case MessageAdded(message=message):
            return message.results[0].name if message.results else str(message.role)
        case Compacted():
            return "summary"
        case _:
            return "note"
