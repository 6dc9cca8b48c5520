"""`Recall`: lets the model search the whole session and read any entry in full."""

from typing import Any

from msgspec.structs import replace

from clew.context.policy import ContextPolicy
from clew.context.recall.answer import Hints
from clew.context.recall.entry_text import RECALL
from clew.context.recall.query import parse_query
from clew.context.recall.word_index import search_entries
from clew.core.entries import Entry, MessageAdded
from clew.core.errors import SessionError, StoreError
from clew.core.ids import EntryId
from clew.core.messages import Role
from clew.core.models import ToolSpec
from clew.core.permissions import Access, Risk
from clew.session.journal import Journal
from clew.session.recall import RecallAnswer, RecallRequest, SessionRecall
from clew.stores.protocol import Store
from clew.tools.protocol import ToolContext, ToolOutput

RECALL_SPEC = ToolSpec(
    name=RECALL,
    description=(
        "Find anything said or done in this session, also what is no longer in view (summarised "
        "turns, cleared or cut output). Put the names, numbers or error words that the answer "
        'contains into `query`, not a question; "…" finds an exact phrase. Filters: role:user '
        "tool:Bash file:a.py since:2h until:2026-01-31. The passages it shows are often enough; "
        "`entry` (a #number) or `range` reads in full."
    ),
    schema={
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "entry": {"type": "integer"},
            "range": {"type": "string", "description": "Such as 382-390, or #27 #65."},
            "offset": {"type": "integer", "description": "First character of the entry."},
            "latest_file": {
                "type": "string",
                "description": "Path: returns the last known content, edits included.",
            },
            "all_sessions": {"type": "boolean", "description": "Search the whole project."},
        },
        "additionalProperties": False,
    },
)
_PAGE = 12_000
_LEAST_PAGE = 200
_MARGIN = 400
"""Characters for headings and hints."""
RECALL_HINTS = Hints(
    read="read an entry in full with entry={id} (offset={offset} for the passage)",
    around="range={first}-{last} shows what came before and after",
)
_COMMAND_HINTS = Hints(
    read="read an entry in full with /recall #{id}",
    around="/recall {first}-{last} shows what came before and after",
)
"""For people who type `/recall`."""


class Recall:
    """Searches the session in its store, and reads its entries, which grow while it runs."""

    spec = RECALL_SPEC
    max_output_chars: int | None = None

    def __init__(self, store: Store, journal: Journal, policy: ContextPolicy) -> None:
        self._journal, self._policy = journal, policy
        self._recall = make_recall(store, journal, hints=RECALL_HINTS)

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """Return an access that touches only the sessions of this project."""
        return Access(tool=RECALL, risk=Risk.INSPECT)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:  # noqa: ARG002
        """Search the entries, or read some."""
        request = parse_arguments(arguments)
        if request is None:
            return ToolOutput(
                text="Error: give `query` (words), `entry` (a number), `range` or `latest_file`.",
                failed=True,
            )
        try:
            answer = await self._recall.answer(
                replace(request, skip=self._find_own_question(), page=self._page())
            )
        except (SessionError, StoreError) as error:
            return ToolOutput(text=f"Error: {error}.", failed=True)
        return ToolOutput(text=answer.text)

    def _page(self) -> int:
        """Return the characters that an answer may have without being truncated."""
        limit = self._policy.output_limit(self._journal.view.setup.model.window)
        return max(_LEAST_PAGE, min(_PAGE, limit) - _MARGIN)

    def _find_own_question(self) -> tuple[int, ...]:
        """Return the current request and the message with this call: both contain the query."""
        found: dict[Role, int] = {}
        for entry in reversed(self._journal.entries):
            if isinstance(entry.body, MessageAdded):
                found.setdefault(entry.body.message.role, entry.id)
                if entry.body.message.role is Role.USER:
                    break
        found.pop(Role.TOOL, None)
        return tuple(found.values())


def make_recall(store: Store, journal: Journal, *, hints: Hints) -> SessionRecall:
    """Return what searches the session of a journal."""
    record = journal.record
    return SessionRecall(
        store,
        record.id,
        cwd=record.cwd,
        read=lambda number: journal.entry(EntryId(number)),
        hints=hints,
    )


async def answer_request(
    store: Store, journal: Journal, request: RecallRequest | str
) -> RecallAnswer:
    """Search the session of a journal, or read entries, for a person."""
    asked = RecallRequest(text=request) if isinstance(request, str) else request
    return await make_recall(store, journal, hints=_COMMAND_HINTS).answer(asked)


def find_entries(journal: Journal, query: str) -> list[Entry]:
    """Return the entries of a journal that match best, without the index of its store."""
    found = search_entries(journal.entries, parse_query(query))
    entries = (journal.entry(hit.unit.entry_id) for hit in found.hits)
    return [entry for entry in entries if entry is not None]


def parse_arguments(arguments: dict[str, Any]) -> RecallRequest | None:
    """Return what a call of `Recall` asks for; None when that is unclear."""
    match arguments:
        case {"entry": int(number)}:
            text = f"#{number}"
        case {"range": str(text)} if text.strip():
            pass
        case {"latest_file": str(path)} if path.strip():
            text = f"latest:{path}"
        case {"query": str(text)} if text.strip():
            pass
        case _:
            return None
    return RecallRequest(
        text=text,
        offset=_positive(arguments.get("offset")),
        all_sessions=arguments.get("all_sessions") is True,
    )


def _positive(value: object) -> int:
    return max(0, value) if isinstance(value, int) else 0
