"""Repair message lists that a provider would reject."""

from collections.abc import Mapping, Sequence
from typing import Any

from clew.dict_messages.formats import Dict, UnknownBlock, is_anthropic, read_slices

NO_RESULT = "Error: there is no result for this call."


def repair_messages(messages: Sequence[Dict]) -> tuple[list[Dict], list[str]]:
    """Return a valid list, and notes about what was wrong.

    Unknown blocks and results without a call are removed. A repeated call id gets a new one, and
    a call without a result gets a failed one. Valid dictionaries come back as the same objects.
    """
    notes: list[str] = []
    known = _remove_unknown(messages, notes)
    return _pair_results(_deduplicate_ids(known, notes), notes), notes


def _remove_unknown(messages: Sequence[Dict], notes: list[str]) -> list[Dict]:
    unwanted: dict[int, set[int]] = {}
    for block in read_slices(messages):
        if isinstance(block, UnknownBlock):
            unwanted.setdefault(block.index, set()).add(block.block)
            notes.append(f"message {block.index} has a block of unknown type {block.what!r}")
    result: list[Dict] = []
    for index, message in enumerate(messages):
        if index in unwanted:
            blocks = enumerate(message["content"])
            kept = [block for number, block in blocks if number not in unwanted[index]]
            if kept or message.get("tool_calls"):
                result.append({**message, "content": kept})
        else:
            result.append(message)
    return result


def _deduplicate_ids(messages: Sequence[Dict], notes: list[str]) -> list[Dict]:
    seen: set[str] = set()
    asked: dict[str, list[str]] = {}
    answered: dict[str, list[str]] = {}
    result: list[Dict] = []
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            asked = {}
            for call_id in call_ids(message):
                own = _new_id(call_id, seen) if call_id in seen else call_id
                if own != call_id:
                    notes.append(f"message {index} uses the call id {call_id} again")
                seen.add(own)
                asked.setdefault(call_id, []).append(own)
            answered = {call_id: list(own) for call_id, own in asked.items()}
            result.append(_rename_ids(message, asked))
        else:
            result.append(_rename_ids(message, answered) if asked else message)
    return result


def _pair_results(messages: Sequence[Dict], notes: list[str]) -> list[Dict]:
    anthropic = is_anthropic(messages)
    result: list[Dict] = []
    waiting: list[str] = []
    for index, message in enumerate(messages):
        given = result_ids(message)
        orphans = [call_id for call_id in given if call_id not in waiting]
        notes += [
            f"message {index} has a result for {one}, which no message calls" for one in orphans
        ]
        answered = [call_id for call_id in waiting if call_id in given]
        waiting = [call_id for call_id in waiting if call_id not in given]
        kept = _keep_results(message, answered) if given else message
        if waiting and (not given or (kept is not None and _has_text(kept))):
            result += _make_answers(waiting, notes, anthropic=anthropic)
            waiting = []
        if kept is not None:
            result.append(kept)
        waiting += call_ids(message) if message["role"] == "assistant" else []
    return result + _make_answers(waiting, notes, anthropic=anthropic)


def call_ids(message: Dict) -> list[str]:
    """Return the ids of the calls in a message of either format."""
    ids = [str(call.get("id")) for call in message.get("tool_calls") or ()]
    if message.get("function_call"):
        ids.append(str(message["function_call"].get("name")))
    return ids + [str(b.get("id")) for b in _blocks(message) if b.get("type") == "tool_use"]


def result_ids(message: Dict) -> list[str]:
    """Return the ids of the results in a message of either format."""
    if message["role"] in ("tool", "function"):
        return [str(message.get("tool_call_id") or message.get("name") or "")]
    return [str(b.get("tool_use_id")) for b in _blocks(message) if b.get("type") == "tool_result"]


def _blocks(message: Dict) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [b for b in content if isinstance(b, Mapping)] if isinstance(content, list) else []


def _has_text(message: Dict) -> bool:
    if message["role"] in ("tool", "function"):
        return False
    return any(block.get("type") != "tool_result" for block in _blocks(message))


def _keep_results(message: Dict, answers: Sequence[str]) -> Dict | None:
    """Keep the results in `answers`, without duplicates, and move them to the front."""
    if message["role"] in ("tool", "function"):
        return message if answers else None
    blocks = message["content"]
    results: dict[str, Any] = {}
    words = []
    for block in blocks:
        if isinstance(block, Mapping) and block.get("type") == "tool_result":
            if block.get("tool_use_id") in answers:
                results.setdefault(str(block.get("tool_use_id")), block)
        else:
            words.append(block)
    kept = [*results.values(), *words]
    if len(kept) == len(blocks) and all(a is b for a, b in zip(kept, blocks, strict=True)):
        return message
    return {**message, "content": kept} if kept else None


def _make_answers(waiting: Sequence[str], notes: list[str], *, anthropic: bool) -> list[Dict]:
    notes += [f"the call {call_id} has no result" for call_id in waiting]
    if not anthropic or not waiting:
        return [{"role": "tool", "tool_call_id": one, "content": NO_RESULT} for one in waiting]
    blocks = [
        {"type": "tool_result", "tool_use_id": one, "content": NO_RESULT, "is_error": True}
        for one in waiting
    ]
    return [{"role": "user", "content": blocks}]


def _new_id(call_id: str, seen: set[str]) -> str:
    number = 2
    while f"{call_id}-{number}" in seen:
        number += 1
    return f"{call_id}-{number}"


def _rename_ids(message: Dict, names: dict[str, list[str]]) -> Dict:
    """Replace each call id by the next new id that belongs to it."""
    changed = dict(message)
    if message.get("tool_calls"):
        changed["tool_calls"] = [_rename_id(call, "id", names) for call in message["tool_calls"]]
    if isinstance(message.get("content"), list):
        key = "id" if message["role"] == "assistant" else "tool_use_id"
        changed["content"] = [_rename_id(block, key, names) for block in message["content"]]
    changed = dict(_rename_id(changed, "tool_call_id", names))
    return message if changed == message else changed


def _rename_id(holder: Any, key: str, names: dict[str, list[str]]) -> Any:
    if isinstance(holder, Mapping) and names.get(str(holder.get(key))):
        own = names[str(holder[key])].pop(0)
        return holder if own == holder[key] else {**holder, key: own}
    return holder
