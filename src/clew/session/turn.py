"""One turn: assemble → fit → call → run tools → repeat, until the model has answered."""

from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from clew.core.entries import Compacted, MessageAdded, ResultsCleared, Undone
from clew.core.errors import (
    ContextFull,
    ContextOverflow,
    NothingToDrop,
    ProviderError,
    SessionError,
    SignatureRejected,
    TurnLimitReached,
)
from clew.core.events import Warned
from clew.core.ids import EntryId
from clew.core.messages import Message, Role, user
from clew.providers.protocol import StopReason
from clew.session.call import Answer, call_model
from clew.session.compaction import compact, fit
from clew.session.config import LEAST_WINDOW, facts_for
from clew.session.healing import drop_reasoning
from clew.session.hooking import admitted, kept_going
from clew.session.opening import prove
from clew.session.rewind import checkpointed
from clew.session.state import SessionState
from clew.session.tool_calls import run_calls

_MOST_PAUSES = 20
_CONTINUE = "Your last answer was interrupted. Continue where it stopped."

Remedy = Callable[[SessionState, ProviderError], Awaitable[bool]]
"""Takes away the cause of a failure; False when there was nothing to take away."""


class Prompt(Struct, frozen=True, kw_only=True):
    """What a run begins with."""

    message: Message
    raw: str | None = None
    """What hooks are asked about, where the message was made from other words."""
    display: str | None = None
    """What people are shown in its place."""


async def run_turn(kit: SessionState, prompt: Prompt, *, max_turns: int | None = None) -> Answer:
    """Add a prompt to the conversation and carry on until the model asks for no more tools.

    Returns:
        The last answer.

    Raises:
        PromptBlocked: A hook did not let the prompt pass.
        RunStopped: A hook ended the run.
        LoopDetected: The model went on making the same call.
        BudgetReached: The session has cost as much as it may; the model was not called again.
        ContextFull: The conversation does not fit; nothing was sent. A prompt that was the
            reason is taken out of the view again, so that the next one may fit.
        ContextOverflow: The provider says so, also after a compaction; likewise.
        ProviderError: A model call failed.
        TurnLimitReached: The model was called `max_turns` times and still wants tools.
    """
    kit.check_budget()
    kit.loops.begin()
    message = await admitted(kit, prompt.message, raw=prompt.raw)
    if kit.log is not None:
        kit.log.pre_run(kit.provider, message)
    asked = await kit.journal.append(MessageAdded(message=message, display=prompt.display))
    async with checkpointed(kit, asked, prompt.display or prompt.message.text):
        return await _carry_on(kit, asked.id, max_turns=max_turns)


async def continue_turn(kit: SessionState, *, max_turns: int | None = None) -> Answer:
    """Carry on after the last entry; raises as `run_turn` does.

    Returns:
        The last answer; the one that is there already when the model is not owed a call.

    Raises:
        SessionError: There is no conversation to continue.
    """
    kit.check_budget()
    kit.loops.begin()
    items = kit.journal.view.items
    if not items:
        raise SessionError("there is nothing to continue: the conversation is empty")
    last = items[-1].message
    if last.role is Role.ASSISTANT and not last.interrupted:
        return Answer(message=last, reason=StopReason.DONE)
    if last.role is Role.ASSISTANT:
        await kit.journal.append(MessageAdded(message=user(_CONTINUE), display=""))
    prompt = kit.journal.entries[-1]
    async with checkpointed(kit, prompt, "continued"):
        return await _carry_on(kit, None, max_turns=max_turns)


async def _carry_on(kit: SessionState, asked: EntryId | None, *, max_turns: int | None) -> Answer:
    calls = pauses = stops = 0
    while True:
        if max_turns is not None and calls >= max_turns:
            raise TurnLimitReached(f"the model was called {calls} times and is not done")
        try:
            answer = await _ask(kit)
        except (ContextFull, ContextOverflow):
            if calls == 0 and asked is not None:
                await _take_back(kit, asked)
            raise
        calls += 1
        if answer.message.calls:
            await run_calls(kit, answer.message.calls)
        elif answer.reason is StopReason.PAUSED and pauses < _MOST_PAUSES:
            pauses += 1
        elif (more := await kept_going(kit, answer.message, times=stops)) is not None:
            stops += 1
            await kit.journal.append(MessageAdded(message=more))
        else:
            return answer


async def _ask(kit: SessionState) -> Answer:
    """Call the model; a failure that has a remedy is met with it, once."""
    kit.check_budget()
    prove(kit)
    state = await fit(kit)
    remedies: dict[type[ProviderError], Remedy] = {
        ContextOverflow: _make_room,
        SignatureRejected: drop_reasoning,
    }
    while True:
        try:
            return await call_model(kit, state)
        except (ContextOverflow, SignatureRejected) as failure:
            remedy = remedies.pop(type(failure), None)
            if remedy is None or not await remedy(kit, failure):
                raise
        state = kit.report_state()


async def _make_room(kit: SessionState, overflow: ProviderError) -> bool:
    learned = isinstance(overflow, ContextOverflow) and await _believe(kit, overflow.limit)
    try:
        await compact(kit, trigger="overflow")
    except NothingToDrop:
        # A shorter answer may be all that it takes.
        return learned
    return True


async def _believe(kit: SessionState, limit: int | None) -> bool:
    """Take the provider's word for a window that is smaller than was thought."""
    setup = kit.journal.view.setup
    model = setup.model
    if limit is None or not LEAST_WINDOW <= limit < model.window:
        return False
    facts = facts_for(model, max_context_tokens=limit)
    await kit.journal.append(replace(setup, model=facts, calibration=None))
    kit.emit(Warned(f"{kit.provider.name} says that {model.name} takes {limit:,} tokens"))
    return True


async def _take_back(kit: SessionState, asked: EntryId) -> None:
    """Make the view what it was before a prompt that cannot be sent."""
    for entry in reversed(kit.journal.since(asked)):
        if isinstance(entry.body, Compacted | ResultsCleared):
            await kit.journal.append(Undone(target=entry.id))
    await kit.journal.append(Undone(target=asked))
