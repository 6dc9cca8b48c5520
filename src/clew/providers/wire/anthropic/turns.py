"""Encode messages as turns that the Messages API accepts.

Messages are encoded once, cached, and joined as bytes for every request, without parsing JSON. User
and assistant alternate, the user starts, and tool results come first in a turn.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec
from msgspec import Struct

from clew.core.json_text import JsonDecoder, decode_json
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
    """An encoded message of the API that can be split into its blocks again."""

    role: str
    """`WHOLE`: the blocks are complete messages in the API's format."""
    data: bytes
    ends: tuple[int, ...]
    """The end of each block in `data`."""
    results: int
    """How many blocks are tool results: either all or none of a message."""
    begins_thinking: bool
    ends_thinking: bool
    asked: frozenset[str] = _NONE
    """The ids of server tool calls without a result in this turn."""
    answered: frozenset[str] = _NONE
    """The ids of server tool results without a call in this turn."""
    marks: int = 0
    """How many cache breakpoints the message already has."""

    @property
    def asks(self) -> bool:
        """True for text, images or files of the user, even beside results."""
        return self.role == USER and len(self.ends) > self.results

    def blocks(self) -> list[bytes]:
        """Return the blocks, results first."""
        starts = (len(_BEFORE[self.role]), *(end + 1 for end in self.ends))
        return [self.data[start:end] for start, end in zip(starts, self.ends, strict=False)]


class _Link(Struct):
    """The fields that link a server tool call with its result."""

    type: str | None = ""
    id: str | None = ""
    tool_use_id: str | None = ""
    role: str | None = ""


_links = JsonDecoder(_Link)


def make_turn(role: str, blocks: Sequence[bytes], results: int = 0) -> EncodedTurn:
    """Join blocks; `results` says how many of them are tool results."""
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
    """Return turns of one role as one, results first."""
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
    """Return `message` as turns; empty if nothing of it is sent."""
    found: list[EncodedTurn] = []
    if results := result_blocks(message):
        found.append(_count_marks(make_turn(USER, results, len(results))))
    if blocks := other_blocks(message):
        links = [_link(part.data) for part in message.parts if isinstance(part, Native)]
        role = ASSISTANT if message.role is Role.ASSISTANT else USER
        piece = _count_marks(make_turn(WHOLE if any(link.role for link in links) else role, blocks))
        found.append(_link_calls(piece, links) if links else piece)
    return tuple(found)


def _link(block: bytes | str) -> _Link:
    try:
        return _links.decode(block)
    except msgspec.ValidationError:
        # A block with fields of other types has no link.
        return _Link()


def _has_no_results(piece: EncodedTurn) -> bool:
    return not piece.results


def _count_marks(piece: EncodedTurn) -> EncodedTurn:
    # Quotes inside strings are escaped, so text never matches.
    marks = piece.data.count(b'"cache_control":')
    return msgspec.structs.replace(piece, marks=marks) if marks else piece


def _link_calls(piece: EncodedTurn, links: Iterable[_Link]) -> EncodedTurn:
    asked = {link.id for link in links if link.id and (link.type or "").endswith("tool_use")}
    answered = {link.tool_use_id for link in links if link.tool_use_id}
    return msgspec.structs.replace(
        piece, asked=frozenset(asked - answered), answered=frozenset(answered - asked)
    )


def drop_unpaired(encode_turns: list[EncodedTurn]) -> list[EncodedTurn]:
    """Drop server tool calls without a result, and results without a call.

    The API rejects both: an interrupted response leaves the former, a compaction the latter. The
    result of a call may come later, while results of the client's tools are sent, but not after the
    next user message.
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
"""The user message before a conversation that starts with the assistant."""

_json = msgspec.json.Encoder()
_opening = make_turn(USER, [_json.encode({"type": "text", "text": OPENING})])
_role = attrgetter("role")


def arrange_turns(fragments: Iterable[tuple[EncodedTurn, ...]]) -> list[EncodedTurn]:
    """Return the conversation as turns, without what the API would reject."""
    turns = _group_by_role(drop_unpaired([piece for fragment in fragments for piece in fragment]))
    if any(turn.ends_thinking for turn in turns):
        turns = _group_by_role(
            kept for turn in turns if (kept := _drop_trailing_thinking(turn)) is not None
        )
    if turns and turns[0].role == ASSISTANT:
        turns.insert(0, _opening)
    if turns and turns[-1].role == ASSISTANT:
        turns[-1] = _trim_trailing_space(turns[-1])
    return turns


def _group_by_role(pieces: Iterable[EncodedTurn]) -> list[EncodedTurn]:
    runs = (list(run) for _, run in groupby(pieces, key=_role))
    return [run[0] if len(run) == 1 else join_turns(run) for run in runs]


def _drop_trailing_thinking(turn: EncodedTurn) -> EncodedTurn | None:
    """Return a turn that does not end with thinking, as an interrupted response does."""
    if not turn.ends_thinking:
        return turn
    blocks = turn.blocks()
    while blocks and is_thinking(blocks[-1]):
        blocks.pop()
    return make_turn(turn.role, blocks) if blocks else None


def _trim_trailing_space(turn: EncodedTurn) -> EncodedTurn:
    """Return the last turn without trailing whitespace, which the API rejects there."""
    *blocks, last = turn.blocks()
    if not is_text(last):
        return turn
    block = decode_json(last)
    text = block["text"].rstrip()
    if text == block["text"]:
        return turn
    return make_turn(turn.role, [*blocks, _json.encode({**block, "text": text})])


def find_loop_start(turns: list[EncodedTurn]) -> int | None:
    """Return the index of the first assistant turn after the last user message, if any.

    Text beside the last results does not count, because the API does not say whether it ends the
    tool loop.
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
    """Drop thinking from the last turns: the API rejects it there while thinking is off."""
    for place in range(since, len(turns)):
        turn = turns[place]
        if turn.role == ASSISTANT:
            kept = [block for block in turn.blocks() if not is_thinking(block)]
            turns[place] = make_turn(turn.role, kept)
