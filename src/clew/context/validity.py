"""What every provider demands of a conversation, and what is wrong with one that breaks it."""

from collections.abc import Sequence

from clew.context.items import Item, Kind
from clew.core.ids import CallId
from clew.core.messages import Message, Role


def problems(messages: Sequence[Message]) -> list[str]:
    """Say in words what a provider would reject; nothing when the messages are in order.

    The rules hold for every provider family: each call is answered exactly once, directly
    after the message that made it; no result without its call; no empty message; the user
    speaks first.
    """
    found: list[str] = []
    waiting: dict[CallId, str] = {}
    if messages and messages[0].role is not Role.USER:
        found.append("the first message is not the user's")
    for place, message in enumerate(messages):
        if not message.parts:
            found.append(f"message {place} is empty")
        if waiting and message.role is not Role.TOOL:
            found.append(f"message {place} stands where the results of {_names(waiting)} belong")
            waiting = {}
        for result in message.results:
            if result.call_id not in waiting:
                found.append(f"message {place} answers {result.call_id}, which is not waiting")
            waiting.pop(result.call_id, None)
        for call in message.calls:
            if call.call_id in waiting:
                found.append(f"message {place} uses the call id {call.call_id} twice")
            waiting[call.call_id] = call.name
    if waiting:
        found.append(f"the results of {_names(waiting)} are missing")
    return found


def in_order(items: Sequence[Item]) -> bool:
    """Say quickly whether `problems` would find nothing in the messages of `items`."""
    if items and items[0].kind is not Kind.USER:
        return False
    waiting: set[CallId] = set()
    for item in items:
        if item.answers:
            for call_id in item.answers:
                if call_id not in waiting:
                    return False
                waiting.remove(call_id)
        elif waiting or not item.message.parts or item.kind is Kind.TOOL_RESULT:
            return False
        if item.asks:
            waiting.update(item.asks)
            if len(waiting) != len(item.asks):
                return False
    return not waiting


def _names(waiting: dict[CallId, str]) -> str:
    return ", ".join(f"{name} ({call_id})" for call_id, name in waiting.items())
