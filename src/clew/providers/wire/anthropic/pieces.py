"""What messages become in a request: encoded once, kept, and put together as bytes."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from clew.core.messages import Message, Native, Role
from clew.providers.wire.anthropic.blocks import is_thinking, other_blocks, result_blocks

USER, ASSISTANT, WHOLE = "user", "assistant", "whole"

_BEFORE = {
    USER: b'{"role":"user","content":[',
    ASSISTANT: b'{"role":"assistant","content":[',
    WHOLE: b"",
}
_AFTER = {USER: b"]}", ASSISTANT: b"]}", WHOLE: b""}
_NONE: frozenset[str] = frozenset()


class Piece(Struct, frozen=True):
    """A message of the API, encoded; what it is made of can be cut out again."""

    role: str
    """`WHOLE`: the blocks are messages already, in the API's own words."""
    data: bytes
    ends: tuple[int, ...]
    """Where in `data` each block ends."""
    results: int
    """How many of the blocks are tool results: as a message gives them, all or none."""
    begins_thinking: bool
    ends_thinking: bool
    asked: frozenset[str] = _NONE
    """Ids of the provider's own tool calls that have no answer in this piece."""
    answered: frozenset[str] = _NONE
    """Ids of answers whose call is not in this piece."""
    marks: int = 0
    """How many cache marks it came with."""

    @property
    def asks(self) -> bool:
        """True for words, pictures or files of the user, be it beside results."""
        return self.role == USER and len(self.ends) > self.results

    def blocks(self) -> list[bytes]:
        """Return the blocks, results first."""
        starts = (len(_BEFORE[self.role]), *(end + 1 for end in self.ends))
        return [self.data[start:end] for start, end in zip(starts, self.ends, strict=False)]


class _Link(Struct):
    """The fields by which a call of the provider's own tools and its answer find each other."""

    type: str | None = ""
    id: str | None = ""
    tool_use_id: str | None = ""
    role: str | None = ""


_links = msgspec.json.Decoder(_Link)


def make(role: str, blocks: Sequence[bytes], results: int = 0) -> Piece:
    """Put blocks together; say how many of them are tool results."""
    before = _BEFORE[role]
    ends: list[int] = []
    end = len(before) - 1
    for block in blocks:
        end += 1 + len(block)
        ends.append(end)
    return Piece(
        role,
        before + b",".join(blocks) + _AFTER[role],
        tuple(ends),
        results,
        begins_thinking=bool(blocks) and is_thinking(blocks[0]),
        ends_thinking=bool(blocks) and is_thinking(blocks[-1]),
    )


def join(pieces: Sequence[Piece]) -> Piece:
    """Return pieces of one role as one message, results first."""
    ordered = sorted(pieces, key=_has_no_results)
    role = pieces[0].role
    start = len(_BEFORE[role])
    inner = [piece.data[start : piece.ends[-1]] for piece in ordered]
    ends: list[int] = []
    shift = 0
    for piece in ordered:
        ends += [end + shift for end in piece.ends]
        shift += piece.ends[-1] + 1 - start
    return Piece(
        role,
        _BEFORE[role] + b",".join(inner) + _AFTER[role],
        tuple(ends),
        results=sum(piece.results for piece in pieces),
        begins_thinking=ordered[0].begins_thinking,
        ends_thinking=ordered[-1].ends_thinking,
    )


def pieces(message: Message) -> tuple[Piece, ...]:
    """Return `message` as pieces; none when nothing of it is sent."""
    found: list[Piece] = []
    if results := result_blocks(message):
        found.append(_marked(make(USER, results, len(results))))
    if blocks := other_blocks(message):
        links = [_link(part.data) for part in message.parts if isinstance(part, Native)]
        role = ASSISTANT if message.role is Role.ASSISTANT else USER
        piece = _marked(make(WHOLE if any(link.role for link in links) else role, blocks))
        found.append(_linked(piece, links) if links else piece)
    return tuple(found)


def _link(block: bytes | str) -> _Link:
    try:
        return _links.decode(block)
    except msgspec.ValidationError:
        # A block whose fields are something else is linked to nothing.
        return _Link()


def _has_no_results(piece: Piece) -> bool:
    return not piece.results


def _marked(piece: Piece) -> Piece:
    # Within a string the quotes are escaped, so nothing that was said is counted.
    marks = piece.data.count(b'"cache_control":')
    return msgspec.structs.replace(piece, marks=marks) if marks else piece


def _linked(piece: Piece, links: Iterable[_Link]) -> Piece:
    asked = {link.id for link in links if link.id and (link.type or "").endswith("tool_use")}
    answered = {link.tool_use_id for link in links if link.tool_use_id}
    return msgspec.structs.replace(
        piece, asked=frozenset(asked - answered), answered=frozenset(answered - asked)
    )


def paired(pieces: list[Piece]) -> list[Piece]:
    """Leave out calls of the provider's own tools without an answer, and answers without a call.

    The API rejects both: the first is left by an answer that broke off, the second by a cut.
    A call may be answered later, while results of our own tools are sent; but once the user
    has spoken, it will not be.
    """
    if not any(piece.asked or piece.answered for piece in pieces):
        return pieces
    waiting: set[str] = set()
    lost: set[str] = set()
    beside_results = False
    for piece in pieces:
        beside_results = piece.role == USER and (beside_results or piece.results > 0)
        if piece.asks and not beside_results:
            lost |= waiting
            waiting = set()
        lost |= piece.answered - waiting
        waiting = (waiting - piece.answered) | piece.asked
    if not lost:
        return pieces
    return [kept for piece in pieces if (kept := _without(piece, lost)) is not None]


def _without(piece: Piece, lost: set[str]) -> Piece | None:
    if lost.isdisjoint(piece.asked | piece.answered):
        return piece
    links = ((block, _link(block)) for block in piece.blocks())
    kept = [b for b, link in links if link.id not in lost and link.tool_use_id not in lost]
    return make(piece.role, kept) if kept else None
