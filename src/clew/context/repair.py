"""Making a broken-off conversation valid again."""

from collections.abc import Sequence

from clew.context.items import Item
from clew.core.messages import Message, Role, tool_result

LOST_RESULT = "Error: the session ended before this tool call was finished; it may have run."


def missing_results(items: Sequence[Item]) -> list[Message]:
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


def repaired(messages: Sequence[Message]) -> list[Message]:
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
