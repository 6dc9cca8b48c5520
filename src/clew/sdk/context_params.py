"""The parameters of the methods of `ContextClient`, as they go over the wire."""

from msgspec import Struct

from clew.core.ids import EntryId
from clew.sdk.context_client import ENTRIES_LIMIT, RECALL_LIMIT, START, TIMELINE_LIMIT


class TimelineParams(Struct, frozen=True, kw_only=True):
    """Parameters of `context.timeline`."""

    after: EntryId = START
    limit: int = TIMELINE_LIMIT


class EntriesParams(Struct, frozen=True, kw_only=True):
    """Parameters of `context.entries`."""

    after: EntryId = START
    limit: int = ENTRIES_LIMIT


class EntryParams(Struct, frozen=True, kw_only=True):
    """Parameters of `context.compaction`, `context.pin` and `context.unpin`."""

    entry_id: EntryId


class PreviewParams(Struct, frozen=True, kw_only=True):
    """Parameters of `context.preview`."""

    strategy: str = ""


class CompactParams(Struct, frozen=True, kw_only=True):
    """Parameters of `context.compact`."""

    instructions: str = ""
    force: bool = False


class UndoParams(Struct, frozen=True, kw_only=True):
    """Parameters of `context.undo`."""

    entry_id: EntryId | None = None


class RecallParams(Struct, frozen=True, kw_only=True):
    """Parameters of `context.recall`."""

    query: str
    limit: int = RECALL_LIMIT


class SimulateParams(Struct, frozen=True, kw_only=True):
    """Parameters of `context.simulate`."""

    strategies: tuple[str, ...] = ()
    window: int | None = None
    max_tokens: int | None = None
    lookups: bool = True
