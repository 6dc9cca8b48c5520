"""What others do with the same conversation; imported only where they are installed."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import convert_to_messages, trim_messages
from langchain_core.messages.utils import count_tokens_approximately

from clew.core.messages import Message


def trim_with_langchain(messages: Sequence[Message], *, max_tokens: int) -> Callable[[], object]:
    """Return the work of trimming `messages` with langchain-core's own approximate counter."""
    theirs = convert_to_messages([_as_dict(message) for message in messages])

    def work() -> object:
        return trim_messages(
            theirs,
            max_tokens=max_tokens,
            token_counter=count_tokens_approximately,
            strategy="last",
        )

    return work


def _as_dict(message: Message) -> dict[str, Any]:
    if message.results:
        result = message.results[0]
        return {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in message.calls
    ]
    return {
        "role": message.role,
        "content": message.text,
        **({"tool_calls": calls} if calls else {}),
    }
