"""Where an entry stands: the number of its session and its own, in one integer.

Entries of one session stand together in the table and in the index of words, so that all of
them are one range of keys.
"""

from clew.core.ids import EntryId

_BITS = 32
_MASK = (1 << _BITS) - 1


def place(number: int, entry_id: int) -> int:
    """Return the key of an entry; 0 is the place of the session's name among the words."""
    return number << _BITS | entry_id


def span(number: int, after: int = 0) -> tuple[int, int]:
    """Return the first and the last key that entries of a session can have."""
    return place(number, after + 1), place(number, _MASK)


def entry_of(key: int) -> EntryId:
    """Return the number of the entry that a key belongs to."""
    return EntryId(key & _MASK)
