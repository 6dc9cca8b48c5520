"""The shell grammar, loaded when the first line is read."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node


_OTHER_BYTES = bytes(ord("%") if byte > 0x7F else byte for byte in range(256))
"""For the shell every byte above 127 is a letter, but none that a name may have."""


def parse(source: bytes) -> "Node":
    """Return the root of the syntax tree of `source`.

    The grammar gets a `%` for each byte above 127, so that all stays in its place: its
    scanner looks characters up in a table for bytes, and crashes with others.
    """
    from tree_sitter import Parser  # noqa: PLC0415 - only who judges a shell line pays for it

    # A parser must not be used by two threads at once; making one costs less than a lock.
    return Parser(_language()).parse(source.translate(_OTHER_BYTES)).root_node


@cache
def _language() -> "Language":
    import tree_sitter_bash  # noqa: PLC0415
    from tree_sitter import Language  # noqa: PLC0415

    return Language(tree_sitter_bash.language())
