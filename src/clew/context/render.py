"""From a view to the messages of a request.

The order and the bytes of what was sent before stay the same from call to call, until an
entry (a compaction, an undo, a new setup) says why not.
"""

from clew.context.items import Kind
from clew.context.view import View
from clew.core.messages import Message, Role


def render(view: View) -> tuple[Message, ...]:
    """Return the messages a provider is sent, oldest first.

    A summary is part of the history as the assistant's words, but goes out as the user's:
    every provider accepts a conversation that begins so. An interrupted answer without
    words or calls is left out.
    """
    return tuple(
        Message(role=Role.USER, parts=item.message.parts)
        if item.kind is Kind.SUMMARY
        else item.message
        for item in view.items
        if item.message.parts
    )
