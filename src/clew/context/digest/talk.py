"""The digest of a plain conversation: its beginning, rules, and the remarks that say most.

All of the user's words stay where they leave enough room for answers. Otherwise the user's
messages compete with those of the model: what is asked later may be anything that was said.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from clew.context.digest.remarks import (
    Remark,
    choose_remarks,
    list_remarks,
    measure_rarity,
    render_remarks,
)
from clew.context.digest.user_words import is_rule
from clew.context.items import Item
from clew.core.text import truncate_middle

_FAIR_WORDS, _MOST_WORDS = 0.25, 0.80
"""Shares of the room that all of the user's words may take; the second where they are to be
kept. The rest is for answers."""
_ANCHORS = 0.10
"""Share of the first task and the rules, where not all of the user's words fit."""
_LAST = 1 / 2
"""Most that the last message may take, which the next one continues."""
_LEAST_TASK, _LEAST_QUOTE = 20, 160
"""Bytes of a request that is more than a greeting; characters that are quoted of the first."""


def prepare_talk(items: Sequence[Item], *, keep_words: bool = False) -> Callable[[int], str]:
    """Return what writes a digest in at most the given number of characters.

    Args:
        items: The messages of the conversation.
        keep_words: The user's words may take most of the room, if all of them fit into it.
    """
    messages = list_remarks(items)
    rarity = measure_rarity(messages)
    need = sum(one.chars for one in messages if one.role == "user")
    most_words = _MOST_WORDS if keep_words else _FAIR_WORDS

    def write(room: int) -> str:
        remarks: Sequence[Remark] = messages
        if need <= room * most_words:
            said = [place for place, one in enumerate(messages) if one.role == "user"]
        else:
            remarks, said = _choose_anchors(messages, int(room * _ANCHORS))
        taken = sum(remarks[place].chars for place in said)
        if remarks and remarks[-1].chars <= min(room * _LAST, room - taken):
            said.append(len(remarks) - 1)
        return render_remarks(choose_remarks(remarks, rarity, max_chars=room, chosen=said))

    return write


def _choose_anchors(remarks: Sequence[Remark], room: int) -> tuple[Sequence[Remark], list[int]]:
    """Choose the first task, and rules from the newest on, that fit into `room` characters.

    Returns the remarks, and the places of those chosen. A first task that is too long is there
    in parts, and the first part is chosen, truncated if need be.
    """
    task = next((place for place, one in enumerate(remarks) if _is_task(one)), None)
    if task is None:
        return remarks, []
    quote = max(room // 2, _LEAST_QUOTE)
    whole = remarks[task]
    first, *others = whole.parts if len(whole.text) > quote else [whole]
    first = replace(first, text=truncate_middle(first.text, quote))
    remarks = [*remarks[:task], first, *others, *remarks[task + 1 :]]
    chosen = [task]
    room -= first.chars
    for place in range(len(remarks) - 1, -1, -1):
        one = remarks[place]
        if place != task and one.role == "user" and one.chars <= room and is_rule(one.text):
            chosen.append(place)
            room -= one.chars
    return remarks, chosen


def _is_task(remark: Remark) -> bool:
    """Return whether a remark is a request of the user that is more than a greeting."""
    size = len(remark.text.encode(errors="replace"))
    return remark.role == "user" and size >= _LEAST_TASK
