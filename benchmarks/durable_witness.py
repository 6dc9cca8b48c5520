"""What a model was sent, as a witness of entries that a worker had stored before it was killed.

A request has all entries of the conversation so far. A worker sends it after the store has
acknowledged them, so each request must be the beginning of what the journal holds at the end: an
entry that is missing or was changed there is lost. The model server writes every request to a file
before it answers; the workers know nothing of that.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from clew.core.messages import Message, Role, ToolCall, ToolResult

_ERROR = "Error: "
Turn: TypeAlias = tuple[Any, ...]
"""A message in a form in which one that was sent and one that is stored can be compared."""


def write_request(file: Path, agent: int, messages: Sequence[Mapping[str, Any]]) -> None:
    """Note a request; it is in the file when this returns."""
    turns = [_read_sent(one) for one in messages if one["role"] not in ("system", "developer")]
    with file.open("ab") as output:
        output.write(msgspec.json.encode([agent, turns]) + b"\n")


def read_requests(file: Path) -> dict[int, list[list[Turn]]]:
    """Return the requests for each agent, in the order in which they came."""
    found: defaultdict[int, list[list[Turn]]] = defaultdict(list)
    lines = file.read_bytes().splitlines() if file.exists() else []
    for line in lines:
        agent, turns = msgspec.json.decode(line, type=tuple[int, list[Turn]])
        found[agent].append(turns)
    return found


def find_losses(requests: Sequence[Sequence[Turn]], stored: Sequence[Message]) -> list[str]:
    """Return what the model was sent, or answered last, and the journal does not hold.

    Args:
        requests: The requests for one agent.
        stored: The conversation of its journal, after the agent has completed.
    """
    if not requests:
        return ["the model was never asked"]
    kept = [turn for message in stored for turn in _read_stored(message)]
    problems = [
        f"request {number} had a message {place} that is lost: {sent[:300]}"
        for number, request in enumerate(requests, 1)
        for place, sent in _find_difference(request, kept)
    ]
    whole = max(map(len, requests)) + 1
    if len(kept) != whole:
        problems.append(f"{len(kept)} messages are stored, and there were {whole}")
    return problems


def _find_difference(request: Sequence[Turn], kept: Sequence[Turn]) -> list[tuple[int, str]]:
    """Return the first message of a request that is not in its place in the journal."""
    for place, turn in enumerate(request):
        if place >= len(kept) or kept[place] != turn:
            return [(place, str(turn))]
    return []


def _read_sent(message: Mapping[str, Any]) -> Turn:
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"text": content}]
    text = "\n".join(str(part.get("text", "")) for part in parts)
    match message["role"]:
        case "tool":
            return ("tool", message["tool_call_id"], text)
        case "assistant":
            calls = [
                (call["id"], call["function"]["name"], _parse(call["function"]["arguments"]))
                for call in message.get("tool_calls") or ()
            ]
            return ("assistant", text, calls)
        case role:
            return (role, text)


def _read_stored(message: Message) -> list[Turn]:
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    found: list[Turn]
    if message.role is Role.TOOL:
        found = [("tool", one.call_id, _mark_failure(one)) for one in results]
    elif message.role is Role.ASSISTANT:
        made = [(one.call_id, one.name, _parse(one.arguments)) for one in calls]
        found = [("assistant", message.text, made)]
    else:
        found = [("user", message.text)]
    # As they are read from the file: tuples inside have become lists.
    return [msgspec.json.decode(msgspec.json.encode(one), type=tuple[Any, ...]) for one in found]


def _mark_failure(result: ToolResult) -> str:
    """Return the text of a result as Chat Completions gets it, which has no flag for failures."""
    is_marked = not result.failed or result.text.startswith(_ERROR)
    return result.text if is_marked else f"{_ERROR}{result.text}"


def _parse(arguments: object) -> object:
    return msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
