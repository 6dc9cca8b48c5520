"""The turn ledger: each request of the user, word for word, with the conclusion of its answer.

Rendered into a limited number of characters, requests are more important than conclusions: the
first task, the newest request, and what reads like a rule come first. Nothing is paraphrased.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from clew.context.digest.turns.conclusion import quote_conclusion
from clew.context.digest.turns.turn_log import MOST_CONCLUSION, Turn, TurnOutcome
from clew.core.text import pluralize

_ANSWERED = TurnOutcome.ANSWERED
_LEAST_REQUEST = 240
"""Requests are shortened to this many characters before any is omitted."""
_LEAST_PIECE = 12
"""A request of which fewer characters fit is omitted."""
_LEAST_TASK = 20
"""Bytes of a request that is more than a greeting."""
_LEAST_ANSWER = 20
_SHORT_REPLY = 40
"""Characters of a reply that depends on what was asked before it."""
_LEAST_CONCLUSION, _LEAST_UNFINISHED = 140, 240
"""An answer is quoted whole or in this room; a turn without one ends with mere narration."""
_FIRST_CONCLUSIONS = 400
"""Characters of each of the two newest answers, at least."""
_MOST_PICKED = 700
"""Characters of the items that the user referred to, beside the conclusion."""
_ANSWER_SHARE, _MOST_RESERVED = 0.12, 500
"""Kept free for the newest conclusion where the requests do not fit."""
_OMISSION_CHARS = 120
"""Kept free for the line that names what was omitted."""
_WRITTEN_TOGETHER = 32
"""Turns."""


def render_turns(turns: Sequence[Turn], *, max_chars: int) -> str:
    """Write requests and conclusions in order, in at most `max_chars` characters.

    All requests appear word for word while they fit; conclusions share the rest. If the
    requests do not fit, long ones lose their middle (a mark names the entry that has it). Then
    requests are omitted, those in the middle of the conversation first; the last line counts
    them and gives their entries.
    """
    return "\n".join(write_turns(turns, max_chars=max_chars))


def write_turns(turns: Sequence[Turn], *, max_chars: int) -> list[str]:
    """Return what `render_turns` does, as texts of several turns to be joined by newlines.

    While requests are only added, most of these texts stay the same.
    """
    quoted, omission = turns, ""
    requests = [turn.request_head + turn.request for turn in turns]
    if _measure(requests) > max_chars:
        limits = _limit_requests(turns, max_chars)
        kept = [(turn, limit) for turn, limit in zip(turns, limits, strict=True) if limit]
        quoted = [turn for turn, _ in kept]
        requests = [turn.request_head + _cut_request(turn, limit) for turn, limit in kept]
        omission = _describe_omitted(turns, limits) if len(kept) < len(turns) else ""
    room = max_chars - _measure(requests) - len(omission)
    pairs = _write_pairs(requests, quoted, _quote_answers(quoted, room))
    starts = range(0, len(pairs), _WRITTEN_TOGETHER)
    texts = ["\n".join(filter(None, pairs[at : at + _WRITTEN_TOGETHER])) for at in starts]
    texts = [text for text in (*texts, omission) if text]
    return texts if _measure(texts) - 1 <= max_chars else []


def _measure(lines: Sequence[str]) -> int:
    return sum(map(len, lines)) + len(lines)


def _write_pairs(
    requests: Sequence[str], turns: Sequence[Turn], answers: Sequence[str]
) -> list[str]:
    """Return each request with its answer.

    Of a request that was repeated at once only the last is written; the others are empty.
    """
    written: list[str] = []
    times = 1
    following = [*requests, ""][1:]
    for place, (line, answer, later) in enumerate(zip(requests, answers, following, strict=True)):
        is_again = not answer and later.endswith(turns[place].request)
        if is_again and _is_repeated(requests, turns, place):
            times += 1
            written.append("")
            continue
        told = f"{line} ({times} times)" if times > 1 else line
        written.append(f"{told}\n{answer}" if answer else told)
        times = 1
    return written


def _is_repeated(requests: Sequence[str], turns: Sequence[Turn], place: int) -> bool:
    """Return whether the request after `place` is the one there again, which is written whole."""
    turn = turns[place]
    if place + 1 == len(turns) or turn.images:
        return False
    following = turns[place + 1].request_head + turn.request
    return requests[place] == turn.request_head + turn.request and requests[place + 1] == following


def _limit_requests(turns: Sequence[Turn], max_chars: int) -> list[int]:
    """Return how many characters of each request are quoted; 0 for those that are omitted.

    It is for requests that do not all fit.
    """
    heads = [len(turn.request_head) + 1 for turn in turns]
    sizes = [len(turn.request) for turn in turns]
    max_chars -= min(int(max_chars * _ANSWER_SHARE), _MOST_RESERVED)
    weights = [2 if turn.is_rule else 1 for turn in turns]
    for place in (0, _find_task(turns), len(turns) - 1):
        weights[place] = 4
    room = max_chars - sum(heads)
    if sum(map(min, sizes, (_LEAST_REQUEST * weight for weight in weights))) <= room:
        return _shorten(sizes, weights, room)
    limits = [0] * len(turns)
    room = max_chars - _OMISSION_CHARS
    for place in _order_by_importance(turns):
        # The first and the newest request must both fit.
        most = min(_LEAST_REQUEST * weights[place], max_chars // 3)
        limit = min(sizes[place], most, room - heads[place])
        if heads[place] <= room and limit >= min(sizes[place], _LEAST_PIECE):
            limits[place] = max(1, limit)
            room -= heads[place] + limits[place]
    return limits


def _find_task(turns: Sequence[Turn]) -> int:
    """Return the place of the first request that is more than a greeting."""
    long = (
        place
        for place, turn in enumerate(turns)
        if len(turn.request.encode(errors="replace")) >= _LEAST_TASK
    )
    return next(long, 0)


def _shorten(sizes: Sequence[int], weights: Sequence[int], room: int) -> list[int]:
    """Return the largest limits, in proportion to `weights`, whose sum is at most `room`."""
    low, high = _LEAST_REQUEST, max(sizes)
    while low < high:
        middle = (low + high + 1) // 2
        fits = sum(map(min, sizes, (middle * weight for weight in weights))) <= room
        low, high = (middle, high) if fits else (low, middle - 1)
    return [max(1, min(size, low * weight)) for size, weight in zip(sizes, weights, strict=True)]


def _order_by_importance(turns: Sequence[Turn]) -> list[int]:
    """Return places: the first and the newest turn, rules, then from both ends to the middle."""
    last = len(turns) - 1
    rules = [place for place in range(last, -1, -1) if turns[place].is_rule]
    half = len(turns) // 2
    ends = chain.from_iterable(zip_longest(range(last, half - 1, -1), range(half)))
    order = chain(
        (last, _find_task(turns), 0), rules, (place for place in ends if place is not None)
    )
    return list(dict.fromkeys(order))


def _cut_request(turn: Turn, limit: int) -> str:
    text = turn.request
    if len(text) <= limit:
        return text
    where = f"; #{turn.entry_id} has them" if turn.entry_id > 0 else ""
    mark = f" … {len(text):,} characters{where} … "
    room = limit - len(mark)
    if room < 20:
        return f"{text[: limit - 1]}…"
    head = room * 2 // 3
    return text[:head] + mark + text[len(text) - (room - head) :]


def _quote_answers(turns: Sequence[Turn], room: int) -> list[str]:
    """Quote the conclusions in at most `room` characters with newlines."""
    wanted = [place for place in range(len(turns) - 1, -1, -1) if turns[place].answer]
    quoted = [""] * len(turns)
    for done, place in enumerate(_order_answers(turns, wanted)):
        if room < _LEAST_ANSWER:
            break
        turn = turns[place]
        size = len(turn.answer)
        if size > room and room < _LEAST_CONCLUSION:
            continue
        head, line = turn.answer_head, turn.short_answer
        fair_share = room // (len(wanted) - done)
        if len(head) + size < fair_share and 0 < len(line) <= size:
            quoted[place] = head + line
            room -= len(quoted[place]) + 1
            continue
        is_done = turn.outcome is _ANSWERED or not done
        least = len(head) + 1 + (_LEAST_CONCLUSION if is_done else _LEAST_UNFINISHED)
        wished = least if done > 1 else max(least, _FIRST_CONCLUSIONS)
        if turn.picked:
            wished += min(sum(map(len, turn.picked)), _MOST_PICKED)
        share = max(fair_share, min(room, wished))
        limit = min(share - len(head) - 1, MOST_CONCLUSION)
        if share >= least or size <= limit:
            is_whole = line and len(line) <= limit
            told = line if is_whole else quote_conclusion(turn.answer, limit, turn.picked)
            quoted[place] = head + told
            room -= len(quoted[place]) + 1
    return quoted


def _order_answers(turns: Sequence[Turn], newest_first: Sequence[int]) -> Iterator[int]:
    """Yield the places of answers: the two newest, then those that a short reply follows.

    `yes` or `skip 5` says nothing without the question.
    """
    yield from newest_first[:2]
    others: list[int] = []
    for place in newest_first[2:]:
        if turns[place].picked or len(turns[place + 1].request) <= _SHORT_REPLY:
            yield place
        else:
            others.append(place)
    yield from others


def _describe_omitted(turns: Sequence[Turn], limits: Sequence[int]) -> str:
    """Return one line of at most `_OMISSION_CHARS` that counts omitted requests by entries."""
    ranges: list[tuple[int, int]] = []
    count = 0
    for place, (turn, limit) in enumerate(zip(turns, limits, strict=True)):
        if limit:
            continue
        count += 1
        joins = ranges and place and not limits[place - 1]
        start = ranges.pop()[0] if joins else turn.entry_id
        ranges.append((start, turn.entry_id))
    if len(ranges) > 5:
        ranges = [(ranges[0][0], ranges[-1][1])]
    names = ", ".join(f"#{a}" if a == b else f"#{a}–#{b}" for a, b in ranges)
    where = f": {names}" if ranges[0][0] > 0 else ""
    return f"({pluralize(count, 'more request')}{where})"
