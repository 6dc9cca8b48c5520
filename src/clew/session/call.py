"""One model call: stream the answer, tell the screen, commit what arrived."""

from collections.abc import AsyncIterator, Set
from contextlib import aclosing

import anyio
from msgspec import Struct
from msgspec.structs import replace

from clew.context.estimate import message_units
from clew.context.render import render
from clew.core.context_state import ContextState
from clew.core.entries import Charged, MessageAdded
from clew.core.errors import ProviderTimeout, StreamBroken
from clew.core.events import ReasoningDelta, ServerToolEnded, ServerToolStarted, TextDelta
from clew.core.ids import CallId, new_call_id
from clew.core.messages import Message, Part, ToolCall, tool_result
from clew.core.usage import Usage
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import (
    Chunk,
    Finished,
    ReasoningChunk,
    Request,
    ServerToolChunk,
    StopReason,
    TextChunk,
)
from clew.session.state import Emit, SessionState

_LEAST_OUTPUT = 64


class Answer(Struct, frozen=True, kw_only=True):
    """What one call brought."""

    message: Message
    reason: StopReason
    usage: Usage | None = None
    detail: str = ""


async def call_model(kit: SessionState, state: ContextState) -> Answer:
    """Send the view and commit the answer.

    Whatever ends the stream early (an abort, a broken connection), the words and the
    finished calls that had arrived are committed, marked as interrupted, and every such
    call gets its one result.

    Raises:
        ProviderError: The call failed; the session is as usable as before.
    """
    assembly = MessageBuilder(provenance=kit.provider.name)
    try:
        finished = await _listen(kit, state, assembly)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await _commit_interrupted(kit, state, assembly)
        raise
    message = _with_own_ids(assembly.message(), kit.journal.call_ids)
    cost = finished.cost
    if cost is None:
        cost = kit.cost(finished.usage or _estimate(state, message))
    with anyio.CancelScope(shield=True):
        await kit.journal.append(_answered(message, finished.usage, cost))
    kit.report_state()
    return Answer(
        message=message, reason=finished.reason, usage=finished.usage, detail=finished.detail
    )


def _answered(message: Message, usage: Usage | None, cost: float | None) -> MessageAdded:
    uncounted = usage is None and cost is None
    return MessageAdded(message=message, usage=usage, cost=cost, uncounted=uncounted)


def _estimate(state: ContextState, message: Message) -> Usage:
    """Guess what an answer consumed that nobody counted: money must not look like none."""
    return Usage(input_tokens=state.used_tokens, output_tokens=message_units(message))


async def _listen(kit: SessionState, state: ContextState, assembly: MessageBuilder) -> Finished:
    async with aclosing(kit.stream(request_for(kit, state))) as stream:
        chunks = stream if kit.provider_timeout is None else _in_time(stream, kit)
        async for chunk in chunks:
            assembly.add(chunk)
            _show(chunk, kit.emit)
            if isinstance(chunk, Finished):
                return chunk
    raise StreamBroken(
        "the answer stopped before its end; what had arrived is kept", provider=kit.provider.name
    )


async def _in_time(stream: AsyncIterator[Chunk], kit: SessionState) -> AsyncIterator[Chunk]:
    """Pass chunks on as long as they come soon enough."""
    chunks = aiter(stream)
    while True:
        chunk: Chunk | None = None
        with anyio.move_on_after(kit.provider_timeout) as scope:
            chunk = await anext(chunks, None)
        if scope.cancelled_caught:
            raise ProviderTimeout(
                f"{kit.provider.name} gave no sign of life for {kit.provider_timeout:g} seconds",
                provider=kit.provider.name,
            )
        if chunk is None:
            return
        yield chunk


def _with_own_ids(message: Message, used: Set[CallId]) -> Message:
    """Give a new id to each call whose id stood in this session before: ids must be unique."""
    seen: set[CallId] = set()
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            if part.call_id in seen or part.call_id in used:
                part = replace(part, call_id=new_call_id())  # noqa: PLW2901
            seen.add(part.call_id)
        parts.append(part)
    return replace(message, parts=tuple(parts))


def request_for(kit: SessionState, state: ContextState) -> Request:
    """Make the request for the journal's view: this is all that a provider is told."""
    view = kit.journal.view
    model = view.setup.model
    room = max(_LEAST_OUTPUT, model.window - state.used_tokens)
    return Request(
        model=model.name,
        messages=render(view),
        system=view.setup.system,
        tools=view.setup.tools if model.calls_tools else (),
        max_output_tokens=min(model.max_output, room),
        reasoning=replace(kit.reasoning, tools_used=view.tools_used),
        settled=view.settled,
        sees=model.sees,
        cache_key=kit.journal.record.id,
        options=dict(kit.request_options),
    )


def _show(chunk: Chunk, emit: Emit) -> None:
    match chunk:
        case TextChunk(text=text) if text:
            emit(TextDelta(text))
        case ReasoningChunk(text=text) if text:
            emit(ReasoningDelta(text))
        case ServerToolChunk(ended=True):
            emit(
                ServerToolEnded(
                    call_id=chunk.call_id, name=chunk.name, text=chunk.text, failed=chunk.failed
                )
            )
        case ServerToolChunk():
            emit(ServerToolStarted(call_id=chunk.call_id, name=chunk.name, arguments=chunk.text))
        case _:
            pass


async def _commit_interrupted(
    kit: SessionState, state: ContextState, assembly: MessageBuilder
) -> None:
    message = _with_own_ids(assembly.message(), kit.journal.call_ids)
    if not message.parts:
        if assembly.usage is not None:
            cost = kit.cost(assembly.usage)
            why = "an answer that was broken off"
            await kit.journal.append(Charged(why=why, usage=assembly.usage, cost=cost))
        return
    # Its count is not complete, so it is charged for, but says nothing of the context.
    cost = kit.cost(assembly.usage or _estimate(state, message))
    await kit.journal.append(_answered(message, None, cost))
    for call in message.calls:
        text = "Error: the answer was interrupted before this call was run."
        await kit.journal.append(MessageAdded(message=tool_result(call, text, failed=True)))
