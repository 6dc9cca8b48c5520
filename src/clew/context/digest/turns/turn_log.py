"""The turn log: the requests of a conversation that grows, each with the answer of its turn."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from clew.context.digest.turns.conclusion import write_line
from clew.context.digest.turns.earlier_summary import EarlierSummary
from clew.context.digest.turns.picked_items import find_labels, find_picked
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

MOST_CONCLUSION = 1_200
"""Characters of an answer that a ledger quotes."""
_MOST_BACK, _MOST_MARKED = 3, 200
"""Turns in which a list is sought that a request refers to, and requests that may refer to one."""
_NO_ANSWER = "No response requested."
"""What a program lets the model say to a message that needs no answer."""
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
    picked: tuple[str, ...] = ()
    """The items of the answer that the user referred to next, by number or letter."""

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
        return line if len(line) <= MOST_CONCLUSION else ""


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
        self._marked = 0
        """Turns that `_mark_picked` has read."""
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
        self._mark_picked()
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

    def _mark_picked(self) -> None:
        """Note which items of an answer the next requests refer to, in the newest turns."""
        turns = self._turns
        for place in range(max(self._marked, len(turns) - _MOST_MARKED), len(turns)):
            labels = find_labels(turns[place].request)
            for before in range(place - 1, max(-1, place - _MOST_BACK - 1), -1) if labels else ():
                picked = find_picked(labels, turns[before].answer)
                if picked:
                    both = dict.fromkeys((*turns[before].picked, *picked))
                    turns[before] = replace(turns[before], picked=tuple(both))
                    break
        self._marked = max(0, len(turns) - 1)  # the last one may be repeated

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
            told = item.message.text.strip()
            if told and told != _NO_ANSWER:
                text, answer_id = told, item.entry_id
                break
        return replace(turn, outcome=outcome, answer=text, answer_id=answer_id)
