"""Telling the user's hooks what happens, and acting on what they say."""

from typing import Any

from clew.core.entries import Trigger
from clew.core.errors import ClewError, PromptBlocked, ProviderError
from clew.core.events import Warned
from clew.core.messages import Message, Text, user
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict, NoHooks
from clew.session.state import SessionState

MOST_STOPS_REFUSED = 8
"""How often in a row a Stop hook may keep a run going."""
_RESPONSE_CHARS = 500
_NOTHING = HookVerdict()


async def fire(kit: SessionState, event: HookEvent, **fields: Any) -> HookVerdict:
    """Fire an event; what hooks say to the user is shown, the rest is for the caller."""
    if isinstance(kit.hooks, NoHooks):
        return _NOTHING
    payload = HookInput(
        session_id=kit.journal.record.id,
        cwd=str(kit.place.cwd),
        permission_mode=kit.gate.mode,
        **fields,
    )
    verdict = await kit.hooks.fire(event, payload)
    for text in (*verdict.messages, *verdict.reports):
        kit.emit(Warned(f"{event} hook: {text}"))
    return verdict


async def greet(kit: SessionState, *, resumed: bool) -> None:
    """Tell that a session begins; what hooks answer waits for the first prompt."""
    model = kit.journal.view.setup.model.name
    source = "resume" if resumed else "startup"
    verdict = await fire(kit, HookEvent.SESSION_START, source=source, model=model)
    kit.reminders.extend(verdict.context)


async def farewell(kit: SessionState, reason: str) -> None:
    """Tell that the session is over, and let others write to it."""
    try:
        await fire(kit, HookEvent.SESSION_END, reason=reason)
        if kit.log is not None:
            kit.log.end(reason)
    finally:
        await kit.journal.aclose()


async def admitted(kit: SessionState, prompt: Message, *, raw: str | None = None) -> Message:
    """Return the prompt as it enters the conversation; hooks judge `raw`, where it is given.

    Raises:
        PromptBlocked: A hook did not let it pass; the conversation is as it was.
    """
    verdict = await fire(kit, HookEvent.USER_PROMPT_SUBMIT, prompt=raw or prompt.text)
    reason = verdict.stop or verdict.block
    if reason is not None:
        raise PromptBlocked(f"a hook blocked the prompt: {reason}")
    texts = [*kit.reminders, *verdict.context]
    kit.reminders.clear()
    if not texts:
        return prompt
    return Message(role=prompt.role, parts=(Text(reminder(*texts)), *prompt.parts))


def reminder(*texts: str) -> str:
    """Return words of hooks in the form in which models expect them."""
    joined = "\n".join(texts)
    return f"<system-reminder>\n{joined}\n</system-reminder>\n"


async def kept_going(kit: SessionState, answer: Message, *, times: int) -> Message | None:
    """Ask whether the run may end; returns the words with which it goes on instead."""
    verdict = await fire(
        kit,
        HookEvent.STOP,
        stop_hook_active=times > 0,
        last_assistant_message=answer.text,
        response=answer.text[:_RESPONSE_CHARS],
    )
    texts = [*([verdict.block] if verdict.block else []), *verdict.context]
    if verdict.stop is not None or not texts:
        return None
    if times >= MOST_STOPS_REFUSED:
        kit.emit(Warned(f"a Stop hook kept the run going {times} times in a row; it ends now"))
        return None
    return user(reminder(*texts))


async def refusal(kit: SessionState, trigger: Trigger, instructions: str) -> tuple[str | None, str]:
    """Ask whether a compaction may begin.

    Returns:
        Why not, or None; and the instructions, with those that hooks add.
    """
    if kit.before_compact is not None and (why := await kit.before_compact(trigger)):
        return why, instructions
    verdict = await fire(
        kit,
        HookEvent.PRE_COMPACT,
        trigger="manual" if trigger == "manual" else "auto",
        custom_instructions=instructions or None,
    )
    return verdict.stop or verdict.block, "\n".join(filter(None, [instructions, *verdict.context]))


async def compacted(kit: SessionState, trigger: Trigger, summary: str) -> None:
    """Tell that a compaction is done."""
    how = "manual" if trigger == "manual" else "auto"
    await fire(kit, HookEvent.POST_COMPACT, trigger=how, compact_summary=summary)


async def failed(kit: SessionState, error: ClewError) -> None:
    """Tell that a run ended in an error."""
    kind = type(error).__name__ if isinstance(error, ProviderError) else "unknown"
    await fire(
        kit,
        HookEvent.STOP_FAILURE,
        reason=str(error),
        error=_KINDS.get(kind, "unknown"),
        error_details=str(error),
        last_assistant_message=str(error),
    )


_KINDS = {
    "ProviderBusy": "rate_limit",
    "ProviderDenied": "authentication_failed",
    "ProviderRejected": "invalid_request",
    "ProviderTimeout": "server_error",
    "StreamBroken": "server_error",
}
"""Errors as hooks of Claude Code know them."""
