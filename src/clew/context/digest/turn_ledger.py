"""The turn ledger: each request of the user, word for word, with the conclusion of its answer.

Rendered into a limited number of characters, requests are more important than conclusions: the
first task, the newest request, and what reads like a rule come first. Nothing is paraphrased.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain, zip_longest

from msgspec import Struct
from msgspec.structs import replace

from clew.context.digest.conclusion import quote_conclusion, write_line
from clew.context.digest.earlier_summary import EarlierSummary
from clew.context.digest.user_words import (
    find_request,
    is_earlier_summary,
    is_interruption,
    is_rule,
)
from clew.context.items import Item, ItemKind
from clew.context.lazy_list import lazy_property
from clew.context.user_answers import find_answer, may_quote_user
from clew.core.ids import NO_ENTRY, EntryId
from clew.core.messages import File, Image, ToolResult
from clew.core.text import pluralize

_USER, _ASSISTANT, _TOOL_RESULT = ItemKind.USER, ItemKind.ASSISTANT, ItemKind.TOOL_RESULT


class TurnOutcome(StrEnum):
    """How a turn ended."""

    ANSWERED = "answered"
    """Its last message is text without tool calls."""
    UNFINISHED = "unfinished"
    """It ends with a tool call or a result: the next request came in between, or it goes on."""
    INTERRUPTED = "interrupted"
    """The user stopped it."""
    UNANSWERED = "unanswered"
    """Nothing was said or done."""


_ANSWERED = TurnOutcome.ANSWERED


class Turn(Struct, frozen=True, kw_only=True, dict=True):
    """One request, and what its turn concluded."""

    entry_id: EntryId
    """The entry of the request; below 1 if the message has no entry."""
    request: str
    """The user's words, exactly; empty if only images were sent."""
    images: int = 0
    corrects: bool = False
    """True if the user said it in a tool result, such as a reason for a rejection."""
    answer: str = ""
    """The last text that the model wrote in the turn, whole."""
    answer_id: EntryId = NO_ENTRY
    outcome: TurnOutcome = TurnOutcome.UNANSWERED

    @lazy_property
    def is_rule(self) -> bool:
        """True if the request reads like a rule, a preference or a correction."""
        return self.corrects or is_rule(self.request)

    @lazy_property
    def request_head(self) -> str:
        """What precedes the request in a ledger: its entry, and how many images it had."""
        images = f" ({pluralize(self.images, 'image')})" if self.images else ""
        return f"#{self.entry_id} user{images}: " if self.entry_id > 0 else f"user{images}: "

    @lazy_property
    def answer_head(self) -> str:
        """What precedes the conclusion in a ledger: its entry, and how the turn ended."""
        entry = f"#{self.answer_id}" if self.answer_id > 0 else "answer"
        outcome = "" if self.outcome is TurnOutcome.ANSWERED else f" {self.outcome}"
        return f"→ {entry}{outcome}: "

    @lazy_property
    def short_answer(self) -> str:
        """The answer on one line; empty if it is too long for a ledger to quote it whole."""
        line = write_line(self.answer)
        return line if len(line) <= _MOST_CONCLUSION else ""


def list_turns(items: Iterable[Item]) -> list[Turn]:
    """Return the turns of a conversation in order.

    A message without words of the user (a notification, the output of a hook) starts no turn.
    What the user said in a tool result, such as a reason for a rejection, does. A request that
    was sent again before anything happened is listed once.
    """
    log = TurnLog()
    log.extend(items)
    return log.list_turns()


class TurnLog:
    """The turns of a conversation that grows: each message is read once."""

    def __init__(self) -> None:
        self.summary: EarlierSummary | None = None
        """The last summary that a program put into the conversation to continue it."""
        self._turns: list[Turn] = []
        self._answers: list[Item] = []
        """What the model said since the last request."""

    def extend(self, items: Iterable[Item]) -> None:
        """Continue the conversation."""
        answers = self._answers
        for item in items:
            kind = item.kind
            if kind is _ASSISTANT:
                answers.append(item)
            elif kind is _TOOL_RESULT:
                for part in item.message.parts:
                    if type(part) is ToolResult and (part.failed or may_quote_user(part.name)):
                        self._add_answer(item.entry_id, find_answer(part))
            elif kind is _USER:
                self._conclude()
                self._add_message(item)

    def list_turns(self) -> list[Turn]:
        """Return the turns so far; the last one ends with the last message."""
        return [*self._turns[:-1], *(self._end(turn) for turn in self._turns[-1:])]

    def _add_answer(self, entry_id: EntryId, said: str) -> None:
        if not said:
            return
        self._conclude()
        corrects = not said.endswith("?")
        self._turns.append(Turn(entry_id=entry_id, request=said, corrects=corrects))

    def _add_message(self, item: Item) -> None:
        turns, text, parts = self._turns, item.message.text, item.message.parts
        request = find_request(text)
        images = sum([isinstance(part, Image | File) for part in parts]) if len(parts) > 1 else 0
        if turns and is_interruption(text):
            turns[-1] = replace(turns[-1], outcome=TurnOutcome.INTERRUPTED)
        if not request and not images:
            if is_earlier_summary(text):
                self.summary = EarlierSummary(entry_id=item.entry_id, text=text)
            return
        if turns and turns[-1].request == request and turns[-1].outcome is TurnOutcome.UNANSWERED:
            turns.pop()
        turns.append(Turn(entry_id=item.entry_id, request=request, images=images))

    def _conclude(self) -> None:
        if self._turns and self._answers:
            self._turns[-1] = self._end(self._turns[-1])
        self._answers.clear()

    def _end(self, turn: Turn) -> Turn:
        """Return a turn with what the model answered since the last request."""
        if not self._answers:
            return turn
        last = self._answers[-1]
        outcome = TurnOutcome.UNFINISHED if last.asks else TurnOutcome.ANSWERED
        if last.message.interrupted:
            outcome = TurnOutcome.INTERRUPTED
        text, answer_id = turn.answer, turn.answer_id
        for item in reversed(self._answers):
            if told := item.message.text.strip():
                text, answer_id = told, item.entry_id
                break
        return replace(turn, outcome=outcome, answer=text, answer_id=answer_id)


_LEAST_REQUEST = 240
"""Requests are shortened to this many characters before any is omitted."""
_LEAST_PIECE = 12
"""A request of which fewer characters fit is omitted."""
_LEAST_TASK = 20
"""Bytes of a request that is more than a greeting."""
_LEAST_ANSWER, _MOST_CONCLUSION = 20, 1_200
_SHORT_REPLY = 40
"""Characters of a reply that depends on what was asked before it."""
_LEAST_CONCLUSION, _LEAST_UNFINISHED = 140, 240
"""An answer is quoted whole or in this room; a turn without one ends with mere narration."""
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
        share = max(fair_share, min(room, 400 if done < 2 else least))
        limit = min(share - len(head) - 1, _MOST_CONCLUSION)
        if share >= least or size <= limit:
            is_whole = line and len(line) <= limit
            told = line if is_whole else quote_conclusion(turn.answer, max_chars=limit)
            quoted[place] = head + told
            room -= len(quoted[place]) + 1
    return quoted


def _order_answers(turns: Sequence[Turn], newest_first: Sequence[int]) -> Iterator[int]:
    """Yield the places of answers: the two newest, then those that a short reply follows.

    `yes` or `the second one` says nothing without the question.
    """
    yield from newest_first[:2]
    others: list[int] = []
    for place in newest_first[2:]:
        if len(turns[place + 1].request) <= _SHORT_REPLY:
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
