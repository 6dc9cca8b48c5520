"""Encode a request as the body of Converse.

The messages come last in the body, and consecutive messages of one role form one message. So a
request that appends to another starts with the same bytes, except for cache points.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, groupby
from typing import Any

import msgspec
from msgspec.structs import replace

from clew.context.reasoning import ReasoningReader
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.converse.block_encoder import EncodedContent, encode_content, tool_name
from clew.providers.wire.converse.model_traits import ResultSeparation, find_traits
from clew.providers.wire.message_cache import LIMIT, MessageCache

MARK = b'{"cachePoint":{"type":"default"}}'
OPENING = "Continue."
"""The user message before a conversation that starts with the assistant."""
GONE = "No longer available: do not call it."
"""The description of a tool that is declared only because the conversation mentions it."""
_FIELDS = "additionalModelRequestFields"
_THINKING = ("thinking", "reasoning_config")
_COUNTED = frozenset({"system", "toolConfig", _FIELDS})
"""The options that token counting accepts."""
_SPACER = "."
_BEGIN = {role: b'{"role":"%s","content":[' % role.encode() for role in ("user", "assistant")}

_json = msgspec.json.Encoder()


def message_cache(reader: ReasoningReader, *, limit: int = LIMIT) -> MessageCache[EncodedContent]:
    """Return a cache for encoded messages."""
    return MessageCache(reader, encode_content, limit=limit)


def encode(
    request: Request, kept: MessageCache[EncodedContent], *, cache: bool | None = None
) -> bytes:
    """Return the body for `request`, streamed or not.

    Args:
        request: The request.
        kept: The cache of encoded messages.
        cache: Set cache points; by default for models that support them.
    """
    known = find_traits(request.model)
    found = kept.encode(request)
    wanted = known.caches if cache is None else cache
    # Bedrock accepts four cache points, so none are added to those of the messages.
    marking = wanted and not any(each.marked for each in found)
    head = _head(request, found, marked=marking)
    marks = _marks(found, request.settled) if marking else frozenset()
    begin = _json.encode(head)[:-1] + (b',"messages":[' if head else b'"messages":[')
    return b"".join((begin, *_messages(found, marks, known.apart), b"]}"))


def encode_count(request: Request, kept: MessageCache[EncodedContent]) -> bytes:
    """Return the body that counts the tokens of `request`."""
    options = {name: value for name, value in request.options.items() if name in _COUNTED}
    asked = replace(request, options=options, max_output_tokens=None, temperature=None)
    return b'{"input":{"converse":' + encode(asked, kept, cache=False) + b"}}"


def _head(request: Request, found: Sequence[EncodedContent], *, marked: bool) -> dict[str, Any]:
    """Return the body without its messages."""
    head: dict[str, Any] = {}
    if request.system.strip():
        head["system"] = [{"text": request.system}]
        if marked:
            head["system"].append(msgspec.Raw(MARK))
    options = dict(request.options)
    tools = {"tools": _tools(request, found), **options.pop("toolConfig", {})}
    if tools["tools"]:
        head["toolConfig"] = tools
    inference = {**_inference(request), **options.pop("inferenceConfig", {})}
    if inference:
        head["inferenceConfig"] = inference
    return head | _affordable(options, found)


def _inference(request: Request) -> dict[str, Any]:
    said = {"maxTokens": request.max_output_tokens, "temperature": request.temperature}
    return {name: value for name, value in said.items() if value is not None}


def _tools(request: Request, found: Sequence[EncodedContent]) -> list[dict[str, Any]]:
    declared = [*map(_tool, request.tools), *request.native_tools]
    # Bedrock rejects calls and results if no tools are declared.
    return declared or [*_declare_mentioned(found)]


def _tool(spec: ToolSpec) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": tool_name(spec.name)}
    if spec.description.strip():
        fields["description"] = spec.description
    return {"toolSpec": {**fields, "inputSchema": {"json": spec.schema}, **spec.extra}}


def _declare_mentioned(found: Sequence[EncodedContent]) -> Iterable[dict[str, Any]]:
    """Return declarations for the tools that the messages mention."""
    for name in dict.fromkeys(tool_name(name) for each in found for name in each.calls):
        yield _tool(ToolSpec(name=name, description=GONE, schema={"type": "object"}))
    for name in dict.fromkeys(name for each in found for name in each.server_calls):
        yield {"systemTool": {"name": name}}


def _affordable(options: dict[str, Any], found: Sequence[EncodedContent]) -> dict[str, Any]:
    """Return `options` without thinking if the conversation does not allow it.

    Claude cannot start to think in the middle of a tool loop that started without thinking, as
    after a change of model.
    """
    fields = options.get(_FIELDS)
    if not isinstance(fields, dict):
        return options
    asked = {name for name in _THINKING if _is_enabled(fields.get(name))}
    if not asked or not _began_unthinking(found):
        return options
    left = {name: value for name, value in fields.items() if name not in asked}
    others = {name: value for name, value in options.items() if name != _FIELDS}
    return {**others, _FIELDS: left} if left else others


def _is_enabled(thinking: object) -> bool:
    # Adaptive thinking has no such requirement.
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


def _began_unthinking(found: Sequence[EncodedContent]) -> bool:
    """Return whether the current tool loop started without signed reasoning."""
    first: EncodedContent | None = None
    sent = (each for each in reversed(found) if each.pieces)
    for role, run in groupby(sent, key=lambda each: each.role):
        spoken = [*run]
        if role == "assistant":
            first = spoken[-1]
        elif not any(each.answers for each in spoken):
            break
    return first is not None and not first.thinks


def _marks(found: Sequence[EncodedContent], settled: int) -> frozenset[int]:
    """Return the messages after which to set cache points: the settled ones and the last."""
    ends = (min(settled, len(found)), len(found))
    places = ((at for at in reversed(range(end)) if found[at].markable) for end in ends)
    return frozenset(at for at in (next(place, -1) for place in places) if at >= 0)


def _messages(
    found: Sequence[EncodedContent], marks: frozenset[int], apart: ResultSeparation
) -> Iterator[bytes]:
    role, answered, names = "", False, set[str]()
    for index, each in enumerate(found):
        if not each.pieces:
            continue
        if not role and each.role == "assistant":
            yield _message("user", OPENING) + b","
        if each.role == role and not (answered and _must_separate(each, apart)):
            yield b","
        else:
            if each.role == role:
                # Consecutive messages of one role would be merged.
                yield b"]}," + _message("assistant", _SPACER) + b","
            elif role:
                yield b"]},"
            yield _BEGIN[each.role]
            answered = False
        yield each.pieces[0] if len(each.pieces) == 1 else _content(each, names)
        if index in marks:
            yield b"," + MARK
        role, answered = each.role, answered or each.answers
    if role:
        yield b"]}"


def _must_separate(each: EncodedContent, apart: ResultSeparation) -> bool:
    """Return whether a message must be separate from the results before it."""
    match apart:
        case ResultSeparation.NOTHING:
            return False
        case ResultSeparation.DOCUMENTS:
            return each.shows
        case ResultSeparation.EVERYTHING:
            return not each.answers


def _message(role: str, text: str) -> bytes:
    return _json.encode({"role": role, "content": [{"text": text}]})


def _content(each: EncodedContent, names: set[str]) -> bytes:
    """Return the blocks of a message with unique document names."""
    found = [each.pieces[0]]
    for name, piece in zip(each.documents, each.pieces[1:], strict=True):
        numbered = (f"{name} {number}" for number in count(2))
        free = next(other for other in chain([name], numbered) if other.casefold() not in names)
        names.add(free.casefold())
        found += (_json.encode(free), piece)
    return b"".join(found)
