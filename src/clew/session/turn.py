"""One turn: assemble → fit → call → run tools → repeat, until the model has answered."""

from clew.core.entries import MessageAdded, Undone
from clew.core.errors import ContextFull, ContextOverflow, TurnLimitReached
from clew.core.messages import Message
from clew.core.usage import Usage
from clew.session.call import call_model
from clew.session.compaction import compact, fit
from clew.session.kit import Kit
from clew.session.tool_calls import run_calls


async def run_turn(
    kit: Kit, prompt: Message, *, max_turns: int | None = None
) -> tuple[Message, Usage | None]:
    """Add `prompt` to the conversation and carry on until the model asks for no more tools.

    Returns:
        The last answer, and what the provider counted for it.

    Raises:
        ContextFull: The conversation does not fit; nothing was sent, and a prompt that
            was the reason is taken out of the view again, so that the next one may fit.
        ProviderError: A model call failed.
        TurnLimitReached: The model was called `max_turns` times and still wants tools.
    """
    asked = await kit.journal.append(MessageAdded(message=prompt))
    calls = 0
    while True:
        if max_turns is not None and calls >= max_turns:
            raise TurnLimitReached(f"the model was called {calls} times and is not done")
        try:
            answer, usage = await _ask(kit)
        except ContextFull:
            if calls == 0:
                await kit.journal.append(Undone(target=asked.id))
            raise
        calls += 1
        if not answer.calls:
            return answer, usage
        await run_calls(kit, answer.calls)


async def _ask(kit: Kit) -> tuple[Message, Usage | None]:
    state = await fit(kit)
    try:
        return await call_model(kit, state)
    except ContextOverflow:
        await compact(kit, trigger="overflow")
        return await call_model(kit, kit.report_state())
