"""The parameters of the methods of `ContextClient`, as they go over the wire."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from clew.core.ids import EntryId
from clew.sdk.context_client import ENTRIES_LIMIT, RECALL_LIMIT, START, TIMELINE_LIMIT

Limit: TypeAlias = Annotated[int, Meta(ge=1, le=10_000)]
"""How many items a page has at most."""
Position: TypeAlias = Annotated[EntryId, Meta(ge=0)]
"""An entry after which a page begins; 0 is the beginning."""
Tokens: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class TimelineParams(Struct, frozen=True, kw_only=True):
    """Parameters of `context.timeline`."""

    after: Position = START
    limit: Limit = TIMELINE_LIMIT


class EntriesParams(Struct, frozen=True, kw_only=True):
    """Parameters of `context.entries`."""

    after: Position = START
    limit: Limit = ENTRIES_LIMIT


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
    limit: Limit = RECALL_LIMIT


class SimulateParams(Struct, frozen=True, kw_only=True):
    """Parameters of `context.simulate`."""

    strategies: tuple[str, ...] = ()
    window: Tokens | None = None
    max_tokens: Tokens | None = None
    lookups: bool = True
