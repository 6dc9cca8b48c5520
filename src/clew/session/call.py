"""One model call: stream the answer, tell the screen, commit what arrived."""

from contextlib import aclosing

import anyio

from clew.context.render import render
from clew.core.entries import MessageAdded
from clew.core.events import ReasoningDelta, TextDelta
from clew.core.messages import Message, tool_result
from clew.core.state import ContextState
from clew.core.usage import Usage
from clew.providers.protocol import Chunk, ReasoningChunk, Request, TextChunk
from clew.session.assembly import Assembly
from clew.session.kit import Emit, Kit

_LEAST_OUTPUT = 64


async def call_model(kit: Kit, state: ContextState) -> tuple[Message, Usage | None]:
    """Send the view and commit the answer.

    Whatever ends the stream early (an abort, a broken connection), the words and the
    finished calls that had arrived are committed, marked as interrupted, and every such
    call gets its one result.

    Raises:
        ProviderError: The call failed; the session is as usable as before.
    """
    assembly = Assembly(provenance=kit.provider.name)
    try:
        async with aclosing(kit.provider.stream(request_for(kit, state))) as chunks:
            async for chunk in chunks:
                assembly.add(chunk)
                _show(chunk, kit.emit)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await _commit_interrupted(kit, assembly)
        raise
    message = assembly.message()
    usage = assembly.finished.usage if assembly.finished else None
    with anyio.CancelScope(shield=True):
        await kit.journal.append(MessageAdded(message=message, usage=usage))
    kit.report_state()
    return message, usage


def request_for(kit: Kit, state: ContextState) -> Request:
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
    )


def _show(chunk: Chunk, emit: Emit) -> None:
    match chunk:
        case TextChunk(text=text) if text:
            emit(TextDelta(text))
        case ReasoningChunk(text=text) if text:
            emit(ReasoningDelta(text))
        case _:
            pass


async def _commit_interrupted(kit: Kit, assembly: Assembly) -> None:
    message = assembly.message()
    if not message.parts:
        return
    await kit.journal.append(MessageAdded(message=message))
    for call in message.calls:
        text = "Error: the answer was interrupted before this call was run."
        await kit.journal.append(MessageAdded(message=tool_result(call, text, failed=True)))
