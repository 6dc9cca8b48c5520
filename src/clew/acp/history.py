"""From the history of a stored session to the updates that show it again."""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from clew.acp.content import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ToolCallStart,
    ToolContent,
    Update,
    UserMessageChunk,
)
from clew.acp.tool_calls import show_diff_lines, show_text
from clew.acp.updates import EventMapper
from clew.core.messages import Image, Message, Reasoning, Role, Text, ToolCall
from clew.core.tool_states import ToolState, unwrap_call
from clew.sdk.client import HistoryEntry


def map_history(entries: Iterable[HistoryEntry], mapper: EventMapper, cwd: str) -> Iterator[Update]:
    """Yield prompts, answers, reasoning and tool calls, oldest first."""
    for entry in entries:
        match entry:
            case HistoryEntry(message=Message(role=Role.USER) as message):
                yield from _map_prompt(str(entry.data.get("content", "")), message)
            case HistoryEntry(message=Message(role=Role.ASSISTANT) as message):
                yield from _map_answer(message, mapper)
            case HistoryEntry(type="tool-end", data=data):
                with suppress(msgspec.ValidationError):
                    yield _map_result(msgspec.convert(data, ToolState), mapper, cwd)
            case HistoryEntry(type="compaction", data={"summary": str(summary)}):
                yield ToolCallStart(
                    tool_call_id=f"clew:{entry.id}",
                    title="Compact the conversation",
                    kind="think",
                    status="completed",
                    content=(ToolContent(TextBlock(summary)),) if summary else None,
                )
            case _:
                pass


def sum_costs(entries: Iterable[HistoryEntry]) -> float:
    """Return the US dollars that the turns of a history have cost."""
    costs = (one.data.get("cost_usd") for one in entries if one.type == "usage-summary")
    return sum(cost for cost in costs if isinstance(cost, float))


def _map_prompt(shown: str, message: Message) -> Iterator[Update]:
    if shown:
        yield UserMessageChunk(TextBlock(shown))
    for part in message.parts:
        if isinstance(part, Image) and part.data:
            yield UserMessageChunk(_show_image(part))


def _show_image(image: Image) -> ContentBlock:
    return ImageBlock(data=b64encode(image.data).decode(), mime_type=image.media_type)


def _map_answer(message: Message, mapper: EventMapper) -> Iterator[Update]:
    for part in message.parts:
        match part:
            case Text(text=text) if text:
                yield AgentMessageChunk(TextBlock(text))
            case Reasoning(text=text) if text:
                yield AgentThoughtChunk(TextBlock(text))
            case ToolCall(call_id=call_id, name=name, arguments=arguments):
                yield mapper.start_call(call_id, *unwrap_call(name, arguments))
            case _:
                pass


def _map_result(state: ToolState, mapper: EventMapper, cwd: str) -> Update:
    content = show_diff_lines(state.diff_file, state.diff_lines, cwd) or show_text(
        state.tool_name, state.tool_result_data
    )
    failed = state.result != "success"
    return mapper.end_call(("", state.call_id), state.tool_name, content, failed=failed)
