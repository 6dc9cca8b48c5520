"""Recorded sessions with the provider's count of every request, as journals.

Logs of Codex have no thinking in them, although it was sent back with each request: the encrypted
blocks were removed. How many tokens each had is logged, so a block of that size stands in for it.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clew.context.estimate import SEALED_CHARS_PER_UNIT
from clew.context.model_family import family_of
from clew.core.entries import Body, Entry, MessageAdded, SetupChanged
from clew.core.ids import CallId, EntryId
from clew.core.messages import Message, Part, Reasoning, Role, ToolCall, ToolResult, assistant, user
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.importers.journal import build_journal
from clew.importers.reader import read_session


def counted_sessions(data: Path) -> Iterator[list[Entry]]:
    """Read every recorded session and every τ²-bench run as a journal."""
    for folder in ("claude_code", "codex", "pi"):
        for path in sorted((data / "sessions" / folder).glob("*.jsonl.gz")):
            journal = build_journal(read_session(path))
            yield _restore_thinking(journal, path) if folder == "codex" else journal
    for path in sorted((data / "tau2").glob("*.json.gz")):
        run = json.loads(gzip.decompress(path.read_bytes()))
        model = ModelFacts(name=run["info"]["agent_info"]["llm"])
        setup = SetupChanged(model=model, system=run["info"]["environment_info"]["policy"])
        for simulation in run["simulations"]:
            bodies: list[Body] = [setup, *_tau2_messages(simulation["messages"])]
            yield [Entry(id=EntryId(n), at=0.0, body=body) for n, body in enumerate(bodies, 1)]


def _restore_thinking(journal: Iterable[Entry], path: Path) -> list[Entry]:
    """Add a block of the logged size to every answer whose thinking was removed from the log."""
    thinking = _thinking_tokens(path)
    entries = []
    for entry in journal:
        body = entry.body
        if isinstance(body, MessageAdded) and body.usage is not None:
            tokens = thinking.get((body.usage.input_tokens, body.usage.output_tokens), 0)
            message = _with_thinking(body.message, tokens) if tokens else body.message
            entries.append(replace(entry, body=replace(body, message=message)))
        else:
            entries.append(entry)
    return entries


def _thinking_tokens(path: Path) -> dict[tuple[int, int], int]:
    """Return the thinking of each call, by its input and output tokens."""
    found = {}
    for line in gzip.decompress(path.read_bytes()).splitlines():
        payload = json.loads(line).get("payload", {})
        if payload.get("type") == "token_count" and payload.get("info"):
            used = payload["info"]["last_token_usage"]
            key = (used["input_tokens"], used["output_tokens"])
            found[key] = used["reasoning_output_tokens"]
    return found


def _with_thinking(message: Message, tokens: int) -> Message:
    if any(isinstance(part, Reasoning) and part.signature for part in message.parts):
        return message
    chars = family_of("gpt-5").framing.sealed + tokens * SEALED_CHARS_PER_UNIT
    block = Reasoning(text="", provenance="openai", signature="x" * chars)
    return replace(message, parts=(block, *message.parts))


def _tau2_messages(messages: Iterable[dict[str, Any]]) -> Iterator[MessageAdded]:
    for message in messages:
        if message["role"] == "assistant":
            used = message["usage"] or {"prompt_tokens": 0, "completion_tokens": 0}
            usage = Usage(
                input_tokens=used["prompt_tokens"], output_tokens=used["completion_tokens"]
            )
            yield MessageAdded(message=assistant(*_tau2_answer(message)), usage=usage)
        elif message["role"] == "user" and not message.get("tool_calls"):
            yield MessageAdded(message=user(message["content"] or ""))
        elif message["role"] == "tool" and message.get("requestor") != "user":
            text = message["content"] or ""
            result = ToolResult(call_id=CallId(message["id"]), name="", text=text)
            yield MessageAdded(message=Message(role=Role.TOOL, parts=(result,)))


def _tau2_answer(message: dict[str, Any]) -> Iterator[str | Part]:
    for block in (message.get("raw_data") or {}).get("thinking_blocks") or ():
        yield Reasoning(text=block["thinking"], signature=block["signature"])
    if message["content"]:
        yield message["content"]
    for call in message["tool_calls"] or ():
        yield ToolCall(
            call_id=CallId(call["id"]), name=call["name"], arguments=json.dumps(call["arguments"])
        )
