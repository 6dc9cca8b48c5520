"""`Recall`: lets the model search the whole session and read any entry in full."""

from typing import TYPE_CHECKING, Any

from clew.context.policy import ContextPolicy
from clew.context.recall import RECALL
from clew.core.entries import Entry
from clew.core.models import ToolSpec
from clew.core.permissions import Access, Risk
from clew.session.journal import Journal
from clew.stores.protocol import Store
from clew.tools.protocol import ToolContext, ToolOutput

if TYPE_CHECKING:
    from clew.session.recall import RecallAnswer, RecallRequest

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
            "session": {"type": "string", "description": "Id of another session: its digest."},
        },
        "additionalProperties": False,
    },
)
_PAGE = 12_000
_LEAST_PAGE = 200
_MARGIN = 400
"""Characters for headings and hints."""


class Recall:
    """Searches the session in its store, and reads its entries, which grow while it runs."""

    spec = RECALL_SPEC
    max_output_chars: int | None = None

    def __init__(self, store: Store, journal: Journal, policy: ContextPolicy) -> None:
        self._store, self._journal, self._policy = store, journal, policy

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """Return an access that touches only the sessions of this project."""
        return Access(tool=RECALL, risk=Risk.INSPECT)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:  # noqa: ARG002
        """Search the entries, or read some."""
        # Searching is slow to import, and most sessions never do it.
        from clew.session.recall import answer_call  # noqa: PLC0415

        return await answer_call(self._store, self._journal, arguments, page=self._page())

    def _page(self) -> int:
        """Return the characters that an answer may have without being truncated."""
        limit = self._policy.output_limit(self._journal.view.setup.model.window)
        return max(_LEAST_PAGE, min(_PAGE, limit) - _MARGIN)


async def answer_request(
    store: Store, journal: Journal, request: "RecallRequest | str"
) -> "RecallAnswer":
    """Search the session of a journal, or read entries, for a person."""
    from clew.session.recall import answer_person  # noqa: PLC0415 - see `Recall.run`

    return await answer_person(store, journal, request)


def find_entries(journal: Journal, query: str) -> list[Entry]:
    """Return the entries of a journal that match best, without the index of its store."""
    from clew.session.recall import search_journal  # noqa: PLC0415 - see `Recall.run`

    return search_journal(journal, query)
