"""From a view to the messages of a request.

The order and the bytes of what was sent before stay the same from call to call, until an
entry (a compaction, an undo, a new setup) says why not.
"""

from collections.abc import Iterable

from clew.context.items import Item
from clew.context.passages import passages
from clew.context.repair import repaired
from clew.context.view import View
from clew.core.messages import Message, Role, user

_BEGINNING = user("[the conversation begins here]")
"""The same object every time, by which those who encode it know it again."""


def render(view: View) -> tuple[Message, ...]:
    """Return the messages a provider is sent, oldest first.

    A summary is part of the history as the assistant's words, but goes out as the user's:
    every provider accepts a conversation that begins so. An answer without words or calls
    is left out. Should a journal be broken, the request is not: calls without a result get
    a failed one, results without a call are left out, and one that an answer begins gets a
    line of the user's before it.
    """
    messages = view.items.outgoing
    if not view.items.is_complete:
        messages = repaired(messages)
    if messages and messages[0].role is not Role.USER:
        messages = [_BEGINNING, *messages]
    return tuple(messages)


def render_text(items: Iterable[Item]) -> str:
    """Return the words of `items` as one text, for searching and measuring."""
    return "\n".join(passage.text for passage in passages(list(items)))
