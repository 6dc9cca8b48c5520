"""Which lines of a branched recording led to its last message."""

from collections.abc import Sequence

from msgspec import Struct

from clew.importers.findings import Findings


class Node(Struct, frozen=True):
    """One line's place in the tree; `id` is empty for a line outside it."""

    id: str
    parent: str = ""
    """Empty for a root. A parent that is not in the file counts as a break."""


class Chain(Struct, frozen=True):
    """The way back from the last message."""

    members: frozenset[int]
    breaks: int
    """How often a parent was missing, so that file order was followed instead."""
    cut_off: bool = False
    """True when the parent of the very first line is not in the file."""

    def describe(self, findings: Findings, off: int) -> None:
        """Say what was not as it should be; `off` message lines are not on the chain."""
        if self.cut_off:
            findings.note("the recording begins in the middle: what came before is in another file")
        findings.count(
            self.breaks,
            "the chain of parents breaks at 1 place; file order was followed there",
            "the chain of parents breaks at {} places; file order was followed there",
        )
        findings.count(
            off,
            "1 message line off the chain of the last message left out",
            "{} message lines off the chain of the last message left out",
        )


def follow(nodes: Sequence[Node], last: int) -> Chain:
    """Walk from `last` to its root, parent by parent.

    Where a parent is not in the file, the walk goes on with the line before.
    """
    places = {node.id: place for place, node in enumerate(nodes) if node.id}
    members: set[int] = set()
    breaks = 0
    place: int | None = last
    while place is not None and place not in members:
        members.add(place)
        parent = nodes[place].parent
        if not parent:
            break
        if parent in places:
            place = places[parent]
        else:
            place = _before(nodes, place)
            breaks += place is not None
    return Chain(frozenset(members), breaks, cut_off=place is None)


def _before(nodes: Sequence[Node], place: int) -> int | None:
    return next((earlier for earlier in range(place - 1, -1, -1) if nodes[earlier].id), None)
