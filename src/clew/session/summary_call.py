"""One model call outside the conversation that helps to write a summary.

It is charged to the session as soon as it ends, even when it is cancelled or its answer is not
used. Tool calls in the answer are never run.
"""

from contextlib import aclosing

import anyio

from clew.context.summary_text import clean_summary
from clew.core.entries import Charged
from clew.core.events import CompactionProgress
from clew.core.usage import Usage
from clew.providers.protocol import CallChunk, Finished, Request, TextChunk, UsageChunk
from clew.session.model_call import send_request
from clew.session.state import SessionState
from clew.session.summary_notes import BACKGROUND, FOREGROUND, Notes

_PROGRESS_STEP = 400


async def ask(
    state: SessionState, request: Request, *, why: str = FOREGROUND, after: Notes | None = None
) -> Notes:
    """Send `request` and return the text of the answer, without a draft before it.

    Args:
        state: The session.
        request: The whole request.
        why: What the journal says about the cost.
        after: An earlier call, whose usage and cost are added.

    Raises:
        ProviderError: The call failed.
    """
    pieces: list[str] = []
    written = shown = 0
    usage: Usage | None = None
    finished: Finished | None = None
    called = False
    try:
        async with aclosing(send_request(state, request, purpose="summary")) as stream:
            async for chunk in stream:
                match chunk:
                    case TextChunk(text=text):
                        pieces.append(text)
                        written += len(text)
                    case CallChunk():
                        called = True
                    case UsageChunk(usage=counted):
                        usage = counted
                    case Finished():
                        finished, usage = chunk, chunk.usage or usage
                    case _:
                        pass
                if written - shown >= _PROGRESS_STEP:
                    shown = written
                    report_progress(state, "writing", written, why=why)
    finally:
        cost = None
        if finished is not None or usage is not None:
            cost = await _charge(state, request.model, usage, finished, why=why)
    spent = after or Notes(text="", usage=Usage())
    return Notes(
        text=clean_summary("".join(pieces)),
        author=request.model,
        usage=spent.usage + (usage or Usage()),
        cost=None if cost is None or spent.cost is None else spent.cost + cost,
        called_tools=called,
    )


def report_progress(
    state: SessionState, stage: str, done: int, total: int = 0, *, why: str = FOREGROUND
) -> None:
    """Publish how far a summary is."""
    background = why == BACKGROUND
    state.emit(CompactionProgress(stage=stage, done=done, total=total, background=background))


async def _charge(
    state: SessionState, model: str, usage: Usage | None, finished: Finished | None, *, why: str
) -> float | None:
    cost = finished.cost if finished is not None else None
    if cost is None and usage is not None:
        cost = state.cost(usage, model)
    with anyio.CancelScope(shield=True):
        await state.journal.append(Charged(why=why, usage=usage, cost=cost))
    return cost
