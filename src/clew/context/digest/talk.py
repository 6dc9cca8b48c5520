"""The digest of a plain conversation: its beginning, rules, the newest talk, and what stands out.

How much of the room is for the newest talk depends on the conversation. Talk about one piece of
work moves on: what comes up again was last said a moment ago. A chat of many visits returns to
what was said long before. So the returns so far are counted, and the longer they reach back, the
more room older remarks get.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from clew.context.digest.remarks import (
    Remark,
    choose_remarks,
    list_remarks,
    render_remarks,
    take_newest,
)
from clew.context.digest.user_words import is_rule
from clew.context.items import Item
from clew.core.text import truncate_middle

_MOST_WORDS = 0.80
"""Share of the room that the user's words may take, so that answers get the rest."""
_NEWEST_ANSWERS = 0.85
"""Share of the newest answers in what all words of the user leave."""
_RULES, _LEAST_RULES = 1 / 3, 0.05
"""Shares of the first task and the rules: in the room of older remarks, and at least in all."""
_LEAST_TASK, _LEAST_QUOTE = 20, 160
"""Bytes of a request that is more than a greeting; characters that are quoted of the first."""
_RARE = 3
"""A word that more remarks have is no sign of what they are about."""


def prepare_talk(items: Sequence[Item], *, keep_words: bool = False) -> Callable[[int], str]:
    """Return what writes a digest in at most the given number of characters.

    Args:
        items: The messages of the conversation.
        keep_words: The user's words may take most of the room, if all of them fit into it.
    """
    whole = list_remarks(items, split_user=False)
    pieces = list_remarks(items)
    need = sum(one.chars for one in whole if one.role == "user")
    returns = list(_list_returns(whole))

    def write(room: int) -> str:
        newest_share = _share_of_newest(returns, room)
        fits = need <= room * (_MOST_WORDS if keep_words else 1 - newest_share)
        remarks: Sequence[Remark] = whole if fits else pieces
        if fits:
            said = [place for place, one in enumerate(remarks) if one.role == "user"]
            taken, for_newest = need, (room - need) * _NEWEST_ANSWERS
        else:
            share = max((1 - newest_share) * _RULES, _LEAST_RULES)
            remarks, said = _choose_anchors(remarks, int(room * share))
            taken = sum(remarks[place].chars for place in said)
            for_newest = min(room * newest_share, room - taken)
        spare = room - taken - for_newest
        newest = take_newest(remarks, max_chars=int(for_newest), spare=int(spare), taken=said)
        chosen = choose_remarks(remarks, max_chars=room, chosen=[*said, *newest])
        return render_remarks(remarks, chosen)

    return write


def _list_returns(remarks: Sequence[Remark]) -> Iterator[tuple[int, int]]:
    """Yield how far each return of a rare word reaches back, and the characters before it."""
    spread = Counter(word for remark in remarks for word in remark.words)
    last: dict[str, int] = {}
    position = 0
    for remark in remarks:
        position += len(remark.text)
        for word in remark.words:
            if 1 < spread[word] <= _RARE:
                if word in last:
                    yield position - last[word], position
                last[word] = position


def _share_of_newest(returns: Sequence[tuple[int, int]], room: int) -> float:
    """Return the share of the newest talk in a room of that many characters.

    It is the share of returns that reach back less than `room`, of those that could reach farther.
    """
    reach = [back for back, position in returns if position > room]
    return sum(back <= room for back in reach) / len(reach) if reach else 1.0


def _choose_anchors(remarks: Sequence[Remark], room: int) -> tuple[Sequence[Remark], list[int]]:
    """Choose the first task, and rules from the newest on, that fit into `room` characters.

    Returns the remarks, in which the first task is truncated if it is longer than that, and the
    places of those chosen.
    """
    said = [place for place, one in enumerate(remarks) if one.role == "user"]
    task = next(
        (
            place
            for place in said
            if len(remarks[place].text.encode(errors="replace")) >= _LEAST_TASK
        ),
        None,
    )
    if task is None:
        return remarks, []
    short = truncate_middle(remarks[task].text, max(room // 2, _LEAST_QUOTE))
    remarks = [*remarks[:task], replace(remarks[task], text=short), *remarks[task + 1 :]]
    chosen = [task]
    room -= remarks[task].chars
    for place in reversed(said):
        cost = remarks[place].chars
        if place != task and cost <= room and is_rule(remarks[place].text):
            chosen.append(place)
            room -= cost
    return remarks, chosen
