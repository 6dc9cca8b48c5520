"""What messages become in a request: encoded once, kept, and put together as bytes."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec
from msgspec import Struct

from clew.core.messages import Message, Native, Role
from clew.providers.wire.anthropic.block_encoder import (
    is_text,
    is_thinking,
    other_blocks,
    result_blocks,
)

USER, ASSISTANT, WHOLE = "user", "assistant", "whole"

_BEFORE = {
    USER: b'{"role":"user","content":[',
    ASSISTANT: b'{"role":"assistant","content":[',
    WHOLE: b"",
}
_AFTER = {USER: b"]}", ASSISTANT: b"]}", WHOLE: b""}
_NONE: frozenset[str] = frozenset()


class EncodedTurn(Struct, frozen=True):
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


def make_turn(role: str, blocks: Sequence[bytes], results: int = 0) -> EncodedTurn:
    """Put blocks together; say how many of them are tool results."""
    before = _BEFORE[role]
    ends: list[int] = []
    end = len(before) - 1
    for block in blocks:
        end += 1 + len(block)
        ends.append(end)
    return EncodedTurn(
        role,
        before + b",".join(blocks) + _AFTER[role],
        tuple(ends),
        results,
        begins_thinking=bool(blocks) and is_thinking(blocks[0]),
        ends_thinking=bool(blocks) and is_thinking(blocks[-1]),
    )


def join_turns(encode_turns: Sequence[EncodedTurn]) -> EncodedTurn:
    """Return pieces of one role as one message, results first."""
    ordered = sorted(encode_turns, key=_has_no_results)
    role = encode_turns[0].role
    start = len(_BEFORE[role])
    inner = [piece.data[start : piece.ends[-1]] for piece in ordered]
    ends: list[int] = []
    shift = 0
    for piece in ordered:
        ends += [end + shift for end in piece.ends]
        shift += piece.ends[-1] + 1 - start
    return EncodedTurn(
        role,
        _BEFORE[role] + b",".join(inner) + _AFTER[role],
        tuple(ends),
        results=sum(piece.results for piece in encode_turns),
        begins_thinking=ordered[0].begins_thinking,
        ends_thinking=ordered[-1].ends_thinking,
    )


def encode_turns(message: Message) -> tuple[EncodedTurn, ...]:
    """Return `message` as pieces; none when nothing of it is sent."""
    found: list[EncodedTurn] = []
    if results := result_blocks(message):
        found.append(_marked(make_turn(USER, results, len(results))))
    if blocks := other_blocks(message):
        links = [_link(part.data) for part in message.parts if isinstance(part, Native)]
        role = ASSISTANT if message.role is Role.ASSISTANT else USER
        piece = _marked(make_turn(WHOLE if any(link.role for link in links) else role, blocks))
        found.append(_linked(piece, links) if links else piece)
    return tuple(found)


def _link(block: bytes | str) -> _Link:
    try:
        return _links.decode(block)
    except msgspec.ValidationError:
        # A block whose fields are something else is linked to nothing.
        return _Link()


def _has_no_results(piece: EncodedTurn) -> bool:
    return not piece.results


def _marked(piece: EncodedTurn) -> EncodedTurn:
    # Within a string the quotes are escaped, so nothing that was said is counted.
    marks = piece.data.count(b'"cache_control":')
    return msgspec.structs.replace(piece, marks=marks) if marks else piece


def _linked(piece: EncodedTurn, links: Iterable[_Link]) -> EncodedTurn:
    asked = {link.id for link in links if link.id and (link.type or "").endswith("tool_use")}
    answered = {link.tool_use_id for link in links if link.tool_use_id}
    return msgspec.structs.replace(
        piece, asked=frozenset(asked - answered), answered=frozenset(answered - asked)
    )


def drop_unpaired(encode_turns: list[EncodedTurn]) -> list[EncodedTurn]:
    """Leave out calls of the provider's own tools without an answer, and answers without a call.

    The API rejects both: the first is left by an answer that broke off, the second by a cut.
    A call may be answered later, while results of our own tools are sent; but once the user
    has spoken, it will not be.
    """
    if not any(piece.asked or piece.answered for piece in encode_turns):
        return encode_turns
    waiting: set[str] = set()
    lost: set[str] = set()
    beside_results = False
    for piece in encode_turns:
        beside_results = piece.role == USER and (beside_results or piece.results > 0)
        if piece.asks and not beside_results:
            lost |= waiting
            waiting = set()
        lost |= piece.answered - waiting
        waiting = (waiting - piece.answered) | piece.asked
    if not lost:
        return encode_turns
    return [kept for piece in encode_turns if (kept := _without(piece, lost)) is not None]


def _without(piece: EncodedTurn, lost: set[str]) -> EncodedTurn | None:
    if lost.isdisjoint(piece.asked | piece.answered):
        return piece
    links = ((block, _link(block)) for block in piece.blocks())
    kept = [b for b, link in links if link.id not in lost and link.tool_use_id not in lost]
    return make_turn(piece.role, kept) if kept else None


OPENING = "(The conversation goes on.)"
"""What the user says where a conversation would begin with an answer."""

_json = msgspec.json.Encoder()
_opening = make_turn(USER, [_json.encode({"type": "text", "text": OPENING})])
_role = attrgetter("role")


def arrange_turns(fragments: Iterable[tuple[EncodedTurn, ...]]) -> list[EncodedTurn]:
    """Return the messages as turns, without what the API would reject."""
    turns = _grouped(drop_unpaired([piece for fragment in fragments for piece in fragment]))
    if any(turn.ends_thinking for turn in turns):
        turns = _grouped(kept for turn in turns if (kept := _ended(turn)) is not None)
    if turns and turns[0].role == ASSISTANT:
        turns.insert(0, _opening)
    if turns and turns[-1].role == ASSISTANT:
        turns[-1] = _trimmed(turns[-1])
    return turns


def _grouped(pieces: Iterable[EncodedTurn]) -> list[EncodedTurn]:
    runs = (list(run) for _, run in groupby(pieces, key=_role))
    return [run[0] if len(run) == 1 else join_turns(run) for run in runs]


def _ended(turn: EncodedTurn) -> EncodedTurn | None:
    """Return an answer that does not end with thinking, as one does that broke off there."""
    if not turn.ends_thinking:
        return turn
    blocks = turn.blocks()
    while blocks and is_thinking(blocks[-1]):
        blocks.pop()
    return make_turn(turn.role, blocks) if blocks else None


def _trimmed(turn: EncodedTurn) -> EncodedTurn:
    """Return a last answer without the blanks at its end, which the API forbids there."""
    *blocks, last = turn.blocks()
    if not is_text(last):
        return turn
    block = msgspec.json.decode(last)
    text = block["text"].rstrip()
    if text == block["text"]:
        return turn
    return make_turn(turn.role, [*blocks, _json.encode({**block, "text": text})])


def find_loop_start(turns: list[EncodedTurn]) -> int | None:
    """Return where the answers begin that follow the user's last words, if there are any.

    Words that stand beside the last results are passed over, because it is not said whether
    they end a tool loop.
    """
    first: int | None = None
    for place in range(len(turns) - 1, -1, -1):
        turn = turns[place]
        if turn.role == ASSISTANT:
            first = place
        elif turn.asks and not (turn.results and place == len(turns) - 1):
            break
    return first


def drop_thinking(turns: list[EncodedTurn], since: int) -> None:
    """Leave thinking out of the last turns: the API takes none there while it is off."""
    for place in range(since, len(turns)):
        turn = turns[place]
        if turn.role == ASSISTANT:
            kept = [block for block in turn.blocks() if not is_thinking(block)]
            turns[place] = make_turn(turn.role, kept)
