"""How pieces become the turns of a conversation that the Messages API accepts.

User and assistant alternate, the user begins, and results stand before all else. This is
done for every request, over what is kept of the messages: it moves bytes and reads no JSON.
"""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

import msgspec

from clew.providers.wire.anthropic.blocks import is_text, is_thinking
from clew.providers.wire.anthropic.pieces import ASSISTANT, USER, Piece, join, make, paired

OPENING = "(The conversation goes on.)"
"""What the user says where a conversation would begin with an answer."""

_json = msgspec.json.Encoder()
_opening = make(USER, [_json.encode({"type": "text", "text": OPENING})])
_role = attrgetter("role")


def lay_out(fragments: Iterable[tuple[Piece, ...]]) -> list[Piece]:
    """Return the messages as turns, without what the API would reject."""
    turns = _grouped(paired([piece for fragment in fragments for piece in fragment]))
    if any(turn.ends_thinking for turn in turns):
        turns = _grouped(kept for turn in turns if (kept := _ended(turn)) is not None)
    if turns and turns[0].role == ASSISTANT:
        turns.insert(0, _opening)
    if turns and turns[-1].role == ASSISTANT:
        turns[-1] = _trimmed(turns[-1])
    return turns


def _grouped(pieces: Iterable[Piece]) -> list[Piece]:
    runs = (list(run) for _, run in groupby(pieces, key=_role))
    return [run[0] if len(run) == 1 else join(run) for run in runs]


def _ended(turn: Piece) -> Piece | None:
    """Return an answer that does not end with thinking, as one does that broke off there."""
    if not turn.ends_thinking:
        return turn
    blocks = turn.blocks()
    while blocks and is_thinking(blocks[-1]):
        blocks.pop()
    return make(turn.role, blocks) if blocks else None


def _trimmed(turn: Piece) -> Piece:
    """Return a last answer without the blanks at its end, which the API forbids there."""
    *blocks, last = turn.blocks()
    if not is_text(last):
        return turn
    block = msgspec.json.decode(last)
    text = block["text"].rstrip()
    if text == block["text"]:
        return turn
    return make(turn.role, [*blocks, _json.encode({**block, "text": text})])


def loop_start(turns: list[Piece]) -> int | None:
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


def forget_thinking(turns: list[Piece], since: int) -> None:
    """Leave thinking out of the last turns: the API takes none there while it is off."""
    for place in range(since, len(turns)):
        turn = turns[place]
        if turn.role == ASSISTANT:
            kept = [block for block in turn.blocks() if not is_thinking(block)]
            turns[place] = make(turn.role, kept)
