"""What a compaction did to each entry of the view."""

from msgspec import Struct

from clew.core.ids import EntryId


class LossReport(Struct, frozen=True, kw_only=True):
    """Where every entry of the view went: each is in exactly one of the four lists.

    None of them is gone: all stay in the journal, can be searched, and come back with
    an undo.
    """

    kept: tuple[EntryId, ...]
    """Sent on word for word."""
    summarised: tuple[EntryId, ...]
    """Left the view; the summary speaks for them."""
    cleared: tuple[EntryId, ...]
    """Still in the view, shortened to a marker or an excerpt."""
    archived: tuple[EntryId, ...]
    """Left the view with no word of them in the summary."""
    tokens_before: int
    tokens_after: int
    author: str
    """Who wrote the summary: `model` or `rules`."""
    why: str
    """One sentence: what set the compaction off, and how the way was chosen."""
