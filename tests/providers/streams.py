"""One answer in the events of each wire format: thoughts, words and a call, cut as asked."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clew.core.messages import Message
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import Chunk, Finished
from clew.providers.sse import ServerEvent
from clew.providers.wire.base_decoder import Decoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a model says, in the pieces that its server sends."""

    thoughts: Sequence[str] = ()
    words: Sequence[str] = ()
    arguments: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer as events: what it consists of, what ends it, and an error of the server."""

    pieces: list[ServerEvent]
    ending: ServerEvent
    """With it, the answer is complete."""
    rest: list[ServerEvent]
    """What the server still sends."""
    error: ServerEvent

    @property
    def events(self) -> list[ServerEvent]:
        """All of the answer."""
        return [*self.pieces, self.ending, *self.rest]


def event(name: str = "", **fields: object) -> ServerEvent:
    """Return an event; halves of characters are escaped as servers do it."""
    return ServerEvent(json.dumps(fields), name)


def read(decoder: Decoder, events: Sequence[ServerEvent]) -> tuple[Message, Finished]:
    """Return the message that the events make."""
    assembly = MessageBuilder(provenance="host")
    chunks: list[Chunk] = [chunk for each in events for chunk in decoder.feed(each)]
    for chunk in [*chunks, finished := decoder.close()]:
        assembly.add(chunk)
    return assembly.message(), finished


def _chat(said: Said) -> Stream:
    def delta(reason: str | None = None, **fields: object) -> ServerEvent:
        return event(choices=[{"index": 0, "delta": fields, "finish_reason": reason}])

    pieces = [delta(reasoning_content=text) for text in said.thoughts]
    pieces += [delta(content=text) for text in said.words]
    for place, text in enumerate(said.arguments):
        named = {"id": "c1", "type": "function"} if place == 0 else {}
        function = {"arguments": text, **({"name": "Read"} if place == 0 else {})}
        pieces.append(delta(tool_calls=[{"index": 0, **named, "function": function}]))
    usage = event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2})
    return Stream(
        pieces,
        delta("tool_calls" if said.arguments else "stop"),
        [usage, ServerEvent("[DONE]")],
        event(error={"message": "overloaded", "code": 503}),
    )


def _anthropic(said: Said) -> Stream:
    def typed(kind: str, **fields: object) -> ServerEvent:
        return event(kind, type=kind, **fields)

    blocks = [
        ({"type": "thinking", "thinking": ""}, "thinking", said.thoughts),
        ({"type": "text", "text": ""}, "text", said.words),
        (
            {"type": "tool_use", "id": "c1", "name": "Read", "input": {}},
            "partial_json",
            said.arguments,
        ),
    ]
    pieces = [typed("message_start", message={"usage": {"input_tokens": 3}})]
    for index, (block, field, texts) in enumerate(blocks):
        if texts:
            pieces.append(typed("content_block_start", index=index, content_block=block))
            pieces += [
                typed("content_block_delta", index=index, delta={field: text}) for text in texts
            ]
            pieces.append(typed("content_block_stop", index=index))
    return Stream(
        pieces,
        typed("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
        [typed("message_stop")],
        typed("error", error={"type": "overloaded_error", "message": "overloaded"}),
    )


def _converse(said: Said) -> Stream:
    def delta(index: int, **fields: object) -> ServerEvent:
        return event("contentBlockDelta", contentBlockIndex=index, delta=fields)

    pieces = [delta(0, reasoningContent={"text": text}) for text in said.thoughts]
    pieces += [delta(1, text=text) for text in said.words]
    if said.arguments:
        start = {"toolUse": {"toolUseId": "c1", "name": "Read"}}
        pieces.append(event("contentBlockStart", contentBlockIndex=2, start=start))
        pieces += [delta(2, toolUse={"input": text}) for text in said.arguments]
        pieces.append(event("contentBlockStop", contentBlockIndex=2))
    return Stream(
        pieces,
        event("messageStop", stopReason="end_turn"),
        [event("metadata", usage={"inputTokens": 3, "outputTokens": 2})],
        event("exception/throttlingException", message="slow down"),
    )


def _gemini(said: Said) -> Stream:
    def parts(*found: object, **fields: object) -> ServerEvent:
        return event(candidates=[{"content": {"parts": found}, **fields}])

    pieces = [parts({"text": text, "thought": True}) for text in said.thoughts]
    pieces += [parts({"text": text}) for text in said.words]
    for place, text in enumerate(said.arguments):
        piece = {"jsonPath": "$.path", "stringValue": text}
        call = {"partialArgs": [piece], "willContinue": place + 1 < len(said.arguments)}
        named = {"id": "c1", "name": "Read"} if place == 0 else {}
        pieces.append(parts({"functionCall": {**named, **call}}))
    return Stream(
        pieces,
        parts(finishReason="STOP"),
        [event(usageMetadata={"promptTokenCount": 3, "candidatesTokenCount": 2})],
        event(error={"code": 503, "message": "overloaded"}),
    )


def _responses(said: Said) -> Stream:
    def typed(kind: str, **fields: object) -> ServerEvent:
        return event("", type=f"response.{kind}", **fields)

    kinds: list[tuple[str, Sequence[str], dict[str, object]]] = [
        ("reasoning_text", said.thoughts, {"type": "reasoning", "id": "r1"}),
        ("output_text", said.words, {"type": "message", "role": "assistant"}),
        (
            "function_call_arguments",
            said.arguments,
            {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": ""},
        ),
    ]
    pieces: list[ServerEvent] = []
    for index, (kind, texts, item) in enumerate(kinds):
        if texts:
            pieces.append(typed("output_item.added", output_index=index, item=item))
            pieces += [typed(f"{kind}.delta", output_index=index, delta=text) for text in texts]
            whole = _characters("".join(texts))
            pieces.append(typed(f"{kind}.done", output_index=index, text=whole, arguments=whole))
    usage = {"input_tokens": 3, "output_tokens": 2}
    return Stream(
        pieces,
        typed("completed", response={"status": "completed", "output": [], "usage": usage}),
        [ServerEvent("[DONE]")],
        event("", type="error", code="server_is_overloaded", message="overloaded"),
    )


def _characters(text: str) -> str:
    """Return `text` with halves that follow one another joined."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


STREAMS: dict[str, Callable[[Said], Stream]] = {
    "anthropic": _anthropic,
    "chat": _chat,
    "converse": _converse,
    "gemini": _gemini,
    "responses": _responses,
}
