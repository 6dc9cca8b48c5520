"""One turn: assemble → fit → call → run tools → repeat, until the model has answered."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import anyio
from msgspec import Struct
from msgspec.structs import replace

from clew.context.estimate import message_units
from clew.context.reasoning import is_private_to
from clew.core.entries import Compacted, MessageAdded, ReasoningDropped, ResultsCleared, Undone
from clew.core.errors import (
    ClewError,
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
from clew.core.messages import Image, Message, Role, ToolCall, assistant, user
from clew.core.permissions import PermissionMode
from clew.core.text import pluralize
from clew.providers.protocol import StopReason
from clew.session.config import LEAST_WINDOW, override_window
from clew.session.hook_events import add_reminders, admit_prompt, check_stop, format_reminder
from clew.session.lifecycle import check_view
from clew.session.model_call import ModelAnswer, call_model
from clew.session.model_window import remember_window
from clew.session.plan_mode import follow_mode
from clew.session.references import Attachments
from clew.session.rewind import record_checkpoint
from clew.session.state import SessionState
from clew.session.tool_batch import raise_ending, resume_calls, run_calls
from clew.session.window_fit import compact_if_requested, fit, prepare_summary

_MOST_PAUSES = 20
_CONTINUE = "Your last answer was interrupted. Continue where it stopped."

Delegate: TypeAlias = Callable[[], Awaitable[str]]
"""Answers a prompt in place of the model."""
Prepare: TypeAlias = Callable[[], Awaitable[str]]
"""Writes the text of a prompt, such as a skill with the output of its commands."""
_Remedy: TypeAlias = Callable[[SessionState, ProviderError], Awaitable[bool]]
"""Removes the cause of a failure; returns False when a retry would not help."""


class Prompt(Struct, frozen=True, kw_only=True):
    """What a run begins with."""

    message: Message
    raw: str | None = None
    """What hooks get in place of the message's text."""
    display: str | None = None
    """What clients show in its place."""
    attach: str = ""
    """Attach what `@path` and `@session:ID` in this text name."""
    prepare: Prepare | None = None
    """Writes the text that the model gets in place of the message's, once the run has begun."""

    @property
    def label(self) -> str:
        """The text that clients show."""
        return self.display or self.message.text


def make_prompt(
    prompt: str | Message,
    *,
    raw: str | None = None,
    display: str | None = None,
    attach: bool | str = False,
    prepare: Prepare | None = None,
) -> Prompt:
    """Return the prompt of a run.

    Raises:
        TypeError: It is neither a text nor a message.
        SessionError: The message is empty or is not the user's.
    """
    if not isinstance(prompt, str | Message):
        raise TypeError(f"a prompt is a text or a clew.Message, not {prompt!r}")
    message = user(prompt) if isinstance(prompt, str) else prompt
    empty = not message.text.strip() and not any(isinstance(p, Image) for p in message.parts)
    if message.role is not Role.USER or empty:
        raise SessionError("a run needs a user message that is not empty")
    if isinstance(attach, bool):
        attach = message.text if attach else ""
    return Prompt(message=message, raw=raw, display=display, attach=attach, prepare=prepare)


async def run_turn(state: SessionState, prompt: Prompt) -> ModelAnswer:
    """Add a prompt to the conversation and call the model until it wants no more tools.

    Returns:
        The last answer.

    Raises:
        PromptBlocked: A hook blocked the prompt.
        RunStopped: A hook ended the run.
        LoopDetected: The model repeated the same call.
        BudgetReached: The next call would exceed the budget; it was not made.
        ContextFull: The conversation does not fit; nothing was sent. If the prompt was the
            reason, it is taken out of the view again, so that the next one may fit.
        ContextThrashing: The window is full again after each compaction.
        ContextOverflow: The provider says so, even after a compaction; likewise.
        ProviderError: A model call failed.
        TurnLimitReached: The model was called `max_turns` times and still wants tools.
    """
    state.check_next_call(message_units(prompt.message))
    state.loop_guard.reset()
    state.pace = state.pace.add_prompt()
    context = await admit_prompt(state, prompt.message, raw=prompt.raw)
    prompt = await _prepare_prompt(state, prompt)
    news = await _follow_source(state)
    attached = await _find_attachments(state, prompt)
    message = await add_reminders(state, prompt.message, (*news, *context))
    message = replace(message, parts=(*message.parts, *attached.parts))
    if (log := state.options["session_log"]) is not None:
        log.pre_run(state.provider, message)
    display = prompt.label if attached.parts else prompt.display
    asked = await state.journal.append(
        MessageAdded(message=message, display=display, references=attached.references)
    )
    async with record_checkpoint(state, asked, prompt.label):
        if attached.calls:
            await _read_attachments(state, attached.calls)
        return await _answer(state, asked.id)


async def _prepare_prompt(state: SessionState, prompt: Prompt) -> Prompt:
    """Return the prompt with its final text."""
    if prompt.prepare is None:
        return prompt
    text = await prompt.prepare()
    raise_ending(state)
    return replace(prompt, message=user(text))


async def _find_attachments(state: SessionState, prompt: Prompt) -> Attachments:
    """Return what a prompt brings along."""
    text = prompt.attach
    if "@" not in text and "/" not in text:
        return Attachments()
    # Few prompts refer to files.
    from clew.session.attachments import find_attachments  # noqa: PLC0415

    found = await find_attachments(state, text)
    raise_ending(state)
    return found


async def _read_attachments(state: SessionState, calls: Sequence[ToolCall]) -> None:
    """Read the attached texts into the conversation, behind the prompt."""
    await state.journal.append(MessageAdded(message=assistant(*calls)))
    await run_calls(state, calls, attached=True)


async def continue_turn(state: SessionState) -> ModelAnswer:
    """Continue after the last entry; raises as `run_turn` does.

    Returns:
        The last answer; the one that is there already when the model is not owed a call.

    Raises:
        SessionError: There is no conversation to continue.
    """
    state.check_next_call()
    state.loop_guard.reset()
    state.pace = state.pace.add_prompt()
    items = state.journal.view.items
    if not items:
        raise SessionError("there is nothing to continue: the conversation is empty")
    last = items[-1].message
    has_open_calls = state.options["record_calls"] and not items.is_complete
    if last.role is Role.ASSISTANT and not has_open_calls:
        if last.interrupted:
            await state.journal.append(MessageAdded(message=user(_CONTINUE), display=""))
        elif not await _add_messages(state):
            return ModelAnswer(message=last, reason=StopReason.DONE)
    prompt = state.journal.entries[-1]
    state.notices += await _follow_source(state)
    async with record_checkpoint(state, prompt, "continued"):
        if has_open_calls:
            await resume_calls(state)
        return await _answer(state, None)


async def delegate_turn(state: SessionState, prompt: Prompt, work: Delegate) -> ModelAnswer:
    """Add a prompt and the answer of `work`, such as a subagent, to the conversation.

    The model reads both with the next prompt. Files that change meanwhile belong to this turn,
    so a rewind restores them. When the work fails, the answer says so: a prompt never stays
    without an answer.

    Raises:
        PromptBlocked: A hook blocked the prompt.
    """
    context = await admit_prompt(state, prompt.message, raw=prompt.raw)
    message = await add_reminders(state, prompt.message, context)
    asked = await state.journal.append(MessageAdded(message=message, display=prompt.display))
    try:
        async with record_checkpoint(state, asked, prompt.label):
            answer = assistant(await work())
    except BaseException as error:
        reason = str(error) if isinstance(error, ClewError) else "it was aborted"
        with anyio.CancelScope(shield=True):
            note = assistant(f"[no answer: {reason}]", interrupted=True)
            await state.journal.append(MessageAdded(message=note))
        raise
    await state.journal.append(MessageAdded(message=answer))
    state.report_context()
    return ModelAnswer(message=answer, reason=StopReason.DONE)


async def _answer(state: SessionState, asked: EntryId | None) -> ModelAnswer:
    max_turns = state.options["max_turns"]
    calls = pauses = stops = 0
    while True:
        if max_turns is not None and calls >= max_turns:
            raise TurnLimitReached(
                f"the model was called {pluralize(calls, 'time')} and is not done; that is the"
                " limit of one run (max_turns, --max-turns). Send another prompt to continue, or"
                " raise the limit"
            )
        if calls:
            await _announce_mode(state)
            state.notices += await _follow_source(state)
            await _add_messages(state)
        try:
            answer = await _call(state)
        except (ContextFull, ContextOverflow):
            if calls == 0 and asked is not None:
                await _withdraw(state, asked)
            raise
        calls += 1
        if wanted := answer.message.calls:
            await run_calls(state, wanted)
        elif answer.reason is StopReason.PAUSED and pauses < _MOST_PAUSES:
            pauses += 1
        elif await _add_messages(state):
            continue
        elif (more := await check_stop(state, answer.message, times=stops)) is not None:
            stops += 1
            await state.journal.append(MessageAdded(message=more))
        else:
            await prepare_summary(state)
            return answer


async def _follow_source(state: SessionState) -> list[str]:
    """Return what the model should know about tools that come and go."""
    if (source := state.options["tool_source"]) is None:
        return []
    # Few sessions have such tools.
    from clew.session.tool_sources import follow_source  # noqa: PLC0415

    return await follow_source(state, source)


async def _announce_mode(state: SessionState) -> None:
    """Tell the model that plan mode began or ended since it was last told."""
    if state.plan_mode_told != (state.gate.mode is PermissionMode.PLAN):
        message = user(format_reminder(*await follow_mode(state)))
        await state.journal.append(MessageAdded(message=message, display=""))


async def _add_messages(state: SessionState) -> bool:
    """Add what came for the model during the run; returns whether there was anything."""
    if not state.notices and not state.messages:
        return False
    if state.notices:
        message = user(format_reminder(*state.notices))
        state.notices.clear()
        await state.journal.append(MessageAdded(message=message, display=""))
    while state.messages:
        await state.journal.append(MessageAdded(message=user(state.messages.pop(0))))
    return True


async def _call(state: SessionState) -> ModelAnswer:
    """Call the model within the budget, which reserves the cost of the call while it is made.

    Raises:
        BudgetReached: The call would exceed the budget.
    """
    check_view(state)
    await compact_if_requested(state)
    used = await fit(state)
    if state.budget is None:
        return await _call_with_remedies(state, used)
    expected = state.expect_call()
    state.check_budget(expected)
    state.reserved_usd = state.cost(expected) or 0.0
    try:
        return await _call_with_remedies(state, used)
    finally:
        state.reserved_usd = 0.0


async def _call_with_remedies(state: SessionState, used: int) -> ModelAnswer:
    """Call the model with `used` tokens; a failure that has a remedy is retried once."""
    tried: tuple[_Remedy, ...] = ()
    while True:
        try:
            answer = await call_model(state, used)
        except (ContextOverflow, SignatureRejected) as failure:
            remedy = _REMEDIES.get(type(failure))
            if remedy is None or remedy in tried or not await remedy(state, failure):
                raise
            tried = (*tried, remedy)
        else:
            state.pace = state.pace.add_call(used)
            return answer
        used = state.report_context().used_tokens


async def _make_room(state: SessionState, overflow: ProviderError) -> bool:
    learned = isinstance(overflow, ContextOverflow) and await _shrink_window(state, overflow)
    from clew.session.compaction import compact  # noqa: PLC0415 - see `fit`

    try:
        await compact(state, trigger="overflow")
    except NothingToDrop:
        # A shorter answer may be enough.
        return learned
    return True


async def _shrink_window(state: SessionState, overflow: ContextOverflow) -> bool:
    """Use the limit that the provider named, if it is smaller than the known window.

    Later sessions use it too, except the limit of an account, which differs from key to key and
    is raised over time.
    """
    setup = state.journal.view.setup
    model, limit = setup.model, overflow.limit
    if limit is None or not LEAST_WINDOW <= limit < model.window:
        return False
    facts = override_window(model, limit)
    await state.journal.append(replace(setup, model=facts, calibration=None))
    name = state.provider.name
    if overflow.is_account_limit:
        text = (
            f"{name} lets this account send {limit:,} tokens a minute: the window of this session"
        )
    else:
        await remember_window(state, limit)
        text = f"{name} says that {model.name} takes {limit:,} tokens"
    state.emit(Warned(text))
    return True


async def _drop_reasoning(state: SessionState, refusal: ProviderError) -> bool:
    """Leave out the reasoning that only the session's provider understands, from here on.

    One rejected signature is seldom the only one (another account, a changed history), and there
    is one retry: so everything that this provider signed goes, in one entry that says why.
    """
    name = state.provider.name
    targets = tuple(
        item.entry_id for item in state.journal.view.items if is_private_to(item.message, name)
    )
    if not targets:
        return False
    why = f"{refusal.provider} did not accept the thinking that it was sent back"
    await state.journal.append(ReasoningDropped(targets=targets, why=why))
    state.emit(Warned(f"{why}; the call is repeated without it"))
    return True


_REMEDIES: dict[type[ProviderError], _Remedy] = {
    ContextOverflow: _make_room,
    SignatureRejected: _drop_reasoning,
}
"""What to do about a failure before the call is repeated, once for each kind."""


async def _withdraw(state: SessionState, asked: EntryId) -> None:
    """Restore the view from before a prompt that cannot be sent."""
    for entry in reversed(state.journal.since(asked)):
        if isinstance(entry.body, Compacted | ResultsCleared | MessageAdded):
            await state.journal.append(Undone(target=entry.id))
    await state.journal.append(Undone(target=asked))
