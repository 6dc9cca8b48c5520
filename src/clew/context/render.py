"""From a view to the messages of a request.

The order and the bytes of what was sent before stay the same from call to call, until an
entry (a compaction, an undo, a new setup) says why not.
"""

from collections.abc import Sequence

from clew.context.items import Item, ItemKind
from clew.context.view import View
from clew.core.ids import CallId
from clew.core.messages import Message, Role, tool_result, user

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
        messages = repair(messages)
    if messages and messages[0].role is not Role.USER:
        messages = [_BEGINNING, *messages]
    return tuple(messages)


LOST_RESULT = "Error: the session ended before this tool call was finished; it may have run."


def answer_missing_calls(items: Sequence[Item]) -> list[Message]:
    """Return a failed result for every call of the last answer that has none.

    Only the end is looked at: results always stand directly after the answer that asked.
    """
    answered = []
    for item in reversed(items):
        if item.message.role is Role.TOOL:
            answered += [result.call_id for result in item.message.results]
            continue
        missing = []
        for call in item.message.calls:
            if call.call_id in answered:
                answered.remove(call.call_id)
            else:
                missing.append(tool_result(call, LOST_RESULT, failed=True))
        return missing
    return []


def repair(messages: Sequence[Message]) -> list[Message]:
    """Return `messages` with a failed result for each unanswered call, and no orphan results.

    Messages that are in order come back as the same objects.
    """
    result: list[Message] = []
    waiting: list[Message] = []
    for message in messages:
        if message.role is Role.TOOL:
            wanted = {answer.results[0].call_id for answer in waiting}
            if all(answer.call_id in wanted for answer in message.results):
                result.append(message)
                given = {answer.call_id for answer in message.results}
                waiting = [a for a in waiting if a.results[0].call_id not in given]
            continue
        result += waiting
        waiting = [tool_result(call, LOST_RESULT, failed=True) for call in message.calls]
        result.append(message)
    return [*result, *waiting]


def find_problems(messages: Sequence[Message]) -> list[str]:
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


def is_valid(items: Sequence[Item]) -> bool:
    """Say quickly whether `find_problems` would find nothing in the messages of `items`."""
    if items and items[0].kind is not ItemKind.USER:
        return False
    waiting: set[CallId] = set()
    for item in items:
        if item.answers:
            for call_id in item.answers:
                if call_id not in waiting:
                    return False
                waiting.remove(call_id)
        elif waiting or not item.message.parts or item.kind is ItemKind.TOOL_RESULT:
            return False
        if item.asks:
            waiting.update(item.asks)
            if len(waiting) != len(item.asks):
                return False
    return not waiting


def _names(waiting: dict[CallId, str]) -> str:
    return ", ".join(f"{name} ({call_id})" for call_id, name in waiting.items())
