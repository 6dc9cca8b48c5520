"""One model call: stream the answer, publish it, commit it to the journal."""

from collections.abc import AsyncGenerator, AsyncIterator, Set
from contextlib import aclosing

import anyio
from msgspec import Struct
from msgspec.structs import replace

from clew.context.estimate import message_units, text_units
from clew.context.render import render
from clew.core.entries import Charged, MessageAdded
from clew.core.errors import ProviderTimeout, StreamBroken
from clew.core.events import (
    ModelRetry,
    ReasoningDelta,
    ServerToolEnded,
    ServerToolStarted,
    TextDelta,
)
from clew.core.ids import CallId, new_call_id
from clew.core.messages import Message, Part, ToolCall, tool_result, user
from clew.core.usage import Usage
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    Finished,
    ReasoningChunk,
    Request,
    RetryChunk,
    ServerToolChunk,
    StopReason,
    TextChunk,
)
from clew.session.state import SessionState
from clew.session.write_lock import shield_writes

_LEAST_OUTPUT = 64
_MOST_TOKENS = 1_024
"""Longest answer to a question outside the conversation."""


class ModelAnswer(Struct, frozen=True, kw_only=True):
    """The answer of one model call."""

    message: Message
    reason: StopReason
    usage: Usage | None = None
    detail: str = ""


async def call_model(state: SessionState, used: int) -> ModelAnswer:
    """Send the view, whose size is `used` tokens, and commit the answer.

    If the stream ends early (an abort, a broken connection), the text and the complete calls
    that arrived are committed and marked as interrupted, and each of these calls gets a result.

    Raises:
        ProviderError: The call failed; the session stays usable.
    """
    builder = MessageBuilder(provenance=state.provider.name)
    try:
        stream = send_request(state, request_for(state, used))
        finished = await _listen(state, stream, builder)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await _commit_interrupted(state, used, builder)
        raise
    message = _with_unique_ids(builder.message(), state.journal.call_ids)
    cost = finished.cost
    if cost is None:
        cost = state.cost(finished.usage or _estimate(used, message))
    with shield_writes(state.options["store"]):
        await state.journal.append(_message_entry(message, finished.usage, cost))
    state.publish_context()
    return ModelAnswer(
        message=message, reason=finished.reason, usage=finished.usage, detail=finished.detail
    )


def _message_entry(message: Message, usage: Usage | None, cost: float | None) -> MessageAdded:
    uncounted = usage is None and cost is None
    return MessageAdded(message=message, usage=usage, cost=cost, uncounted=uncounted)


def _estimate(used: int, message: Message) -> Usage:
    """Estimate the usage of an answer without one, so that it does not look free."""
    return Usage(input_tokens=used, output_tokens=message_units(message))


async def _listen(
    state: SessionState, stream: AsyncGenerator[Chunk, None], builder: MessageBuilder
) -> Finished:
    try:
        timeout = state.options["provider_timeout"]
        chunks = stream if timeout is None else _in_time(stream, state.provider.name, timeout)
        async for chunk in chunks:
            builder.add(chunk)
            if isinstance(chunk, Finished):
                return chunk
            if type(chunk) is not CallChunk:
                _publish(chunk, state)
    finally:
        await stream.aclose()
    raise StreamBroken(
        "the answer stopped before its end; the part that arrived is kept",
        provider=state.provider.name,
    )


async def _in_time(
    stream: AsyncIterator[Chunk], provider: str, seconds: float
) -> AsyncIterator[Chunk]:
    """Pass chunks on; raise `ProviderTimeout` when none comes for that long."""
    chunks = aiter(stream)
    while True:
        chunk: Chunk | None = None
        with anyio.move_on_after(seconds) as scope:
            chunk = await anext(chunks, None)
        if scope.cancelled_caught:
            raise ProviderTimeout(
                f"{provider} sent nothing for {seconds:g} seconds", provider=provider
            )
        if chunk is None:
            return
        yield chunk


def _with_unique_ids(message: Message, used: Set[CallId]) -> Message:
    """Give a new id to each call whose id is already used in this session."""
    ids = [call.call_id for call in message.calls]
    if not ids or (len(set(ids)) == len(ids) and used.isdisjoint(ids)):
        return message
    seen: set[CallId] = set()
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            if part.call_id in seen or part.call_id in used:
                part = replace(part, call_id=new_call_id())  # noqa: PLW2901
            seen.add(part.call_id)
        parts.append(part)
    return replace(message, parts=tuple(parts))


def request_for(state: SessionState, used: int) -> Request:
    """Return the request for the journal's view of `used` tokens: everything a provider gets."""
    view = state.journal.view
    model = view.setup.model
    room = max(_LEAST_OUTPUT, model.window - used)
    tools = view.setup.tools if model.calls_tools else ()
    deferred = tuple([spec for spec in tools if spec.deferred])
    if deferred:
        tools = tuple([spec for spec in tools if not spec.deferred])
    reasoning = state.reasoning
    if view.tools_used:
        reasoning = replace(reasoning, tools_used=True)
    return Request(
        model=model.name,
        messages=render(view),
        system=view.setup.system,
        tools=tools,
        deferred_tools=deferred,
        max_output_tokens=_limit_output(state, min(model.max_output, room)),
        reasoning=reasoning,
        settled=view.settled,
        sees=model.sees,
        cache_key=state.journal.record.id,
        options=state.make_request_options(),
    )


def _limit_output(state: SessionState, most: int) -> int:
    """Return how many tokens, `most` or fewer, the budget pays for in the next answer."""
    left = state.budget_left
    if left is None:
        return most
    return state.cost_limit.limit_output(
        left,
        provider=state.provider.name,
        model=state.journal.view.setup.model.name,
        expected=state.expect_call(),
        most=most,
    )


def send_request(
    state: SessionState, request: Request, *, purpose: str = "turn"
) -> AsyncGenerator[Chunk, None]:
    """Send a request, as `Provider.stream` does; the log and the telemetry record both sides."""
    log = state.options["session_log"]
    if log is None:
        return trace_chunks(state, state.provider.stream(request), request, purpose=purpose)
    chunks = log.call(state.provider, request, purpose=purpose)
    return trace_chunks(state, chunks, request, purpose=purpose)


def trace_chunks(
    state: SessionState, chunks: AsyncGenerator[Chunk, None], request: Request, *, purpose: str
) -> AsyncGenerator[Chunk, None]:
    """Return the chunks of a model call: traced if the session is, otherwise the same object."""
    telemetry = state.options["telemetry"]
    if telemetry is None:
        return chunks
    from clew.telemetry.protocol import ModelCall  # noqa: PLC0415 - few sessions are traced

    call = ModelCall(
        request=request,
        provider=state.provider.name,
        session_id=state.journal.record.id,
        purpose=purpose,
        price=lambda usage: state.cost(usage, request.model),
        secrets=state.tool_context.redact_values or (),
    )
    return telemetry.trace_call(chunks, call)


def _publish(chunk: Chunk, state: SessionState) -> None:
    match chunk:
        case TextChunk(text=text) if text:
            state.emit(TextDelta(text))
        case ReasoningChunk(text=text) if text:
            state.emit(ReasoningDelta(text))
        case RetryChunk():
            state.emit(
                ModelRetry(
                    reason=chunk.reason,
                    delay=chunk.delay,
                    attempt=chunk.attempt,
                    attempts=chunk.attempts,
                )
            )
        case ServerToolChunk(ended=True):
            state.emit(
                ServerToolEnded(
                    call_id=chunk.call_id, name=chunk.name, text=chunk.text, failed=chunk.failed
                )
            )
        case ServerToolChunk():
            state.emit(
                ServerToolStarted(call_id=chunk.call_id, name=chunk.name, arguments=chunk.text)
            )
        case _:
            pass


async def _commit_interrupted(state: SessionState, used: int, builder: MessageBuilder) -> None:
    message = _with_unique_ids(builder.message(), state.journal.call_ids)
    if not message.parts:
        if builder.usage is not None:
            cost = state.cost(builder.usage)
            why = "an answer that was broken off"
            await state.journal.append(Charged(why=why, usage=builder.usage, cost=cost))
        return
    # Its usage is incomplete: it counts as cost, but not as a reading of the context.
    cost = state.cost(builder.usage or _estimate(used, message))
    await state.journal.append(_message_entry(message, None, cost))
    for call in message.calls:
        text = "Error: the answer was interrupted before this call was run."
        await state.journal.append(MessageAdded(message=tool_result(call, text, failed=True)))


async def ask_aside(state: SessionState, prompt: str, *, model: str = "", why: str) -> str:
    """Ask a model outside the conversation; the call counts for the session's cost and budget.

    Args:
        state: The session.
        prompt: The question.
        model: A model of the session's provider. Default: the session's model.
        why: What the journal says about the cost.

    Raises:
        BudgetReached: The call would exceed the budget; it was not made.
        ProviderError: The call failed.
    """
    provider, name = state.provider, model or state.journal.view.setup.model.name
    limit = min(provider.facts(name).max_output, _MOST_TOKENS)
    asked = round(text_units(prompt) * state.journal.view.calibration.rate)
    state.check_budget(Usage(input_tokens=asked, output_tokens=limit // 4), name)
    request = Request(model=name, messages=(user(prompt),), max_output_tokens=limit)
    words: list[str] = []
    usage: Usage | None = None
    stream = trace_chunks(state, provider.stream(request), request, purpose="aside")
    async with aclosing(stream) as chunks:
        async for chunk in chunks:
            match chunk:
                case TextChunk(text=text):
                    words.append(text)
                case Finished(usage=counted):
                    usage = counted
                case _:
                    pass
    cost = state.cost(usage, name) if usage is not None else None
    await state.journal.append(Charged(why=why, usage=usage, cost=cost))
    return "".join(words)
