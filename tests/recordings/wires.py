"""Which wire format a recording belongs to."""

from types import ModuleType

from tests.recordings import anthropic, chat, converse, gemini, responses
from tests.recordings.records import Record

WIRES: tuple[ModuleType, ...] = (anthropic, chat, responses, gemini, converse)
_COUNTS = "count_tokens"
_BATCH_ANSWERS = ('{"id":"msgbatch_', '{"custom_id"', '{"id": "msgbatch_')


def wire_for(record: Record) -> ModuleType | None:
    """Return the format of a recording; None when Clew does not speak it."""
    for wire in WIRES:
        if record["api"] in wire.APIS:
            return wire
    if record["api"] not in {"response-only", "bedrock.invoke"} or not record["response_text"]:
        return None
    return next((wire for wire in WIRES if wire.claims(record)), None)


def unspoken(record: Record) -> str:
    """Return what a recording is about that Clew does not do, or nothing."""
    text = record["response_text"] or ""
    request = record["request"] if isinstance(record["request"], dict) else {}
    if "requests" in request or "batch" in request or text.startswith(_BATCH_ANSWERS):
        return "batches"
    if request.get("background"):
        return "answers in the background, fetched later"
    if "invokeModel" in (request.get("input") or {}):
        return "counting the tokens of InvokeModel"
    if "Content-Type=text/plain" in text or '"pathname": "/bin/' in text:
        return "an echo server, no model"
    if "invalid_role" in str(request.get("contents", "")):
        return "a request that is wrong on purpose"
    return ""


def is_conversation(record: Record) -> bool:
    """Say whether the answer is one of a model, not a token count or a compacted window."""
    return not record["api"].endswith((_COUNTS, ".compact"))
