"""Making a broken-off conversation valid again."""

from collections.abc import Sequence

from clew.context.items import Item
from clew.core.ids import CallId
from clew.core.messages import Message, ToolCall, tool_result

LOST_RESULT = "Error: the session ended before this tool call was finished; it may have run."


def missing_results(items: Sequence[Item]) -> list[Message]:
    """Return a failed result for every call at the end that never got one."""
    waiting: dict[CallId, ToolCall] = {}
    for item in items:
        for call in item.message.calls:
            waiting[call.call_id] = call
        for result in item.message.results:
            waiting.pop(result.call_id, None)
    return [tool_result(call, LOST_RESULT, failed=True) for call in waiting.values()]
