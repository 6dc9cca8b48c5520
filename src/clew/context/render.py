"""Renders a view as the messages of a request, and checks and repairs conversations.

Consecutive requests share their prefix byte for byte, until an entry (a compaction, an undo,
a new setup) changes it.
"""

from collections.abc import Sequence

from clew.context.items import Item, ItemKind
from clew.context.view import View
from clew.core.ids import CallId
from clew.core.messages import Message, Role, ToolCall, tool_result, user

_BEGINNING = user("[the conversation begins here]")
"""One object for all requests, so encoders can cache it by identity."""


def render(view: View) -> tuple[Message, ...]:
    """Return the messages of the next request, oldest first.

    A summary is an assistant message in the history, but is sent as a user message: every
    provider accepts that at the beginning. Empty answers are omitted. A broken journal still
    gives a valid request: calls without a result get a failed one, results without a call
    are omitted, and a conversation that begins with an answer gets a user message before it.
    """
    messages = view.items.outgoing
    if not view.items.is_complete:
        messages = repair(messages)
    if messages and messages[0].role is not Role.USER:
        messages = [_BEGINNING, *messages]
    return tuple(messages)


LOST_RESULT = "Error: the session ended before this tool call was finished; it may have run."


def answer_missing_calls(items: Sequence[Item]) -> list[Message]:
    """Return a failed result for every call of the last answer without a result."""
    return list(map(_answer_lost, find_open_calls(items)))


def find_open_calls(items: Sequence[Item]) -> list[ToolCall]:
    """Return the calls of the last answer that have no result.

    Only the end is checked: results always follow directly after their answer.
    """
    answered: list[CallId] = []
    for item in reversed(items):
        if item.kind is ItemKind.TOOL_RESULT:
            answered += item.answers
            continue
        missing = []
        for call in item.message.calls if item.asks else ():
            if call.call_id in answered:
                answered.remove(call.call_id)
            else:
                missing.append(call)
        return missing
    return []


def repair(messages: Sequence[Message]) -> list[Message]:
    """Return `messages` with a failed result for each unanswered call, and no orphan results.

    Valid messages are returned as the same objects.
    """
    result: list[Message] = []
    waiting: Sequence[ToolCall] = ()
    for message in messages:
        if message.role is Role.TOOL:
            given = {answer.call_id for answer in message.results}
            if given <= {call.call_id for call in waiting}:
                result.append(message)
                waiting = [call for call in waiting if call.call_id not in given]
            continue
        result += map(_answer_lost, waiting)
        waiting = message.calls
        result.append(message)
    return [*result, *map(_answer_lost, waiting)]


def _answer_lost(call: ToolCall) -> Message:
    return tool_result(call, LOST_RESULT, failed=True)


def find_problems(messages: Sequence[Message]) -> list[str]:
    """Describe what a provider would reject; an empty list if the messages are valid.

    The rules hold for every provider family: each call has exactly one result, directly after
    its message; no result without its call; no empty message; the first message is the
    user's.
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


def _names(waiting: dict[CallId, str]) -> str:
    return ", ".join(f"{name} ({call_id})" for call_id, name in waiting.items())
