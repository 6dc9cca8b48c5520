"""Writing a fitted list back in the caller's own style, from the caller's own dictionaries."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew.core.messages import ToolResult
from clew.dict_messages.styles import Dict, Piece


def is_anthropic(messages: Sequence[Dict]) -> bool:
    """Say whether tool results in this list stand in user messages, as Anthropic has them."""
    return any(
        isinstance(block, Mapping) and block.get("type") in ("tool_use", "tool_result", "thinking")
        for message in messages
        if isinstance(message.get("content"), list)
        for block in message["content"]
    )


def write(
    messages: Sequence[Dict], pieces: Sequence[Piece], texts: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Return the dictionaries of `pieces`, in order.

    A dictionary of which everything stays is the caller's own object. `texts` gives the new
    text of results that were shortened, by their position in `pieces`.
    """
    written: list[dict[str, Any]] = []
    at = 0
    while at < len(pieces):
        place = pieces[at].place
        end = at
        while end < len(pieces) and pieces[end].place == place:
            end += 1
        same = pieces[at:end]
        changed = {n - at: texts[n] for n in range(at, end) if n in texts}
        written.append(_one(messages[place], same, changed))
        at = end
    return written


def _one(message: Dict, pieces: Sequence[Piece], changed: Mapping[int, str]) -> dict[str, Any]:
    content = message.get("content")
    kept = [number for piece in pieces if piece.blocks is not None for number in piece.blocks]
    whole = any(piece.blocks is None for piece in pieces) or (
        isinstance(content, list) and len(kept) == len(content)
    )
    if whole and not changed:
        return message if isinstance(message, dict) else dict(message)
    if not isinstance(content, list) or message["role"] in ("tool", "function"):
        return {**message, "content": changed[0]}
    if message["role"] == "assistant":
        return {**message, "content": list(_with_words(content, changed[0]))}
    blocks = {}
    for number, piece in enumerate(pieces):
        for block in piece.blocks if piece.blocks is not None else range(len(content)):
            blocks[block] = content[block]
            if number in changed and isinstance(piece.message.parts[0], ToolResult):
                blocks[block] = {**content[block], "content": changed[number]}
    return {**message, "content": [blocks[number] for number in sorted(blocks)]}


def _with_words(content: Sequence[Any], text: str) -> Iterator[Any]:
    """Put `text` where the first words stood, and leave out the other words."""
    written = False
    for block in content:
        if isinstance(block, str) or block.get("type") in ("text", "output_text"):
            if not written:
                yield text if isinstance(block, str) else {**block, "text": text}
            written = True
        else:
            yield block
