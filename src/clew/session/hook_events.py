"""The hook events of a session: fire them, and act on what the hooks return."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from clew.core.entries import MessageAdded, Trigger
from clew.core.errors import (
    BudgetReached,
    ContextFull,
    ContextOverflow,
    PromptBlocked,
    ProviderBusy,
    ProviderDenied,
    ProviderRejected,
    ProviderTimeout,
    StreamBroken,
)
from clew.core.events import Warned
from clew.core.messages import Message, Role, Text, user
from clew.core.permissions import Decision, Verdict
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict, NoHooks
from clew.session.plan_mode import follow_mode
from clew.session.state import SessionState

MOST_STOPS_REFUSED = 8
"""How often in a row a Stop hook may keep a run going."""
_RESPONSE_CHARS = 500
_NO_VERDICT = HookVerdict()
_ERROR_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (ProviderBusy, "rate_limit"),
    (ProviderDenied, "authentication_failed"),
    (ContextOverflow, "invalid_request"),
    (ContextFull, "invalid_request"),
    (ProviderRejected, "invalid_request"),
    (ProviderTimeout, "server_error"),
    (StreamBroken, "server_error"),
    (BudgetReached, "billing_error"),
)
"""Errors under the names that StopFailure hooks of Claude Code know; all others are `unknown`."""


def has_hooks(state: SessionState) -> bool:
    """Return whether the session has hooks at all."""
    return not isinstance(state.options["hooks"], NoHooks)


async def fire(state: SessionState, event: HookEvent, **fields: Any) -> HookVerdict:
    """Run the hooks of an event and publish their messages as warnings.

    Hooks get the path of the session log as `transcript_path`: a JSON Lines file, as hooks of
    Claude Code expect. Without a log the path is empty, because the journal is in a store;
    an interactive session writes one for command hooks.
    """
    if not has_hooks(state):
        return _NO_VERDICT
    log = state.options["session_log"]
    payload = HookInput(
        session_id=state.journal.record.id,
        transcript_path=str(log.path) if log is not None and log.path is not None else "",
        cwd=str(state.tool_context.cwd),
        permission_mode=state.gate.mode,
        **fields,
    )
    # Hooks of a program may return nothing, and block a call like any other event.
    verdict = await state.options["hooks"].fire(event, payload) or _NO_VERDICT
    if event is HookEvent.PRE_TOOL_USE and verdict.block is not None:
        verdict = replace(verdict, decision=Decision(Verdict.DENY, verdict.block))
    for text in (*verdict.messages, *verdict.reports):
        state.emit(Warned(f"{event} hook: {text}"))
    return verdict


async def fire_session_start(state: SessionState, source: str) -> None:
    """Fire SessionStart; `source` is `startup`, `resume`, `fork`, `clear` or `compact`.

    The context that hooks return is added to the next prompt. Where a model call follows before
    that, as after a compaction in the middle of a run, it is a message of its own.
    """
    model = state.journal.view.setup.model.name
    verdict = await fire(state, HookEvent.SESSION_START, source=source, model=model)
    if not verdict.context:
        return
    items = state.journal.view.items
    if source == "compact" and items and items[-1].message.role is not Role.ASSISTANT:
        message = user(format_reminder(*verdict.context))
        await state.journal.append(MessageAdded(message=message, display=""))
    else:
        state.reminders.extend(verdict.context)


async def admit_prompt(
    state: SessionState, prompt: Message, *, raw: str | None = None
) -> tuple[str, ...]:
    """Fire UserPromptSubmit.

    Args:
        state: The session.
        prompt: What the model is sent.
        raw: What hooks get in its place.

    Returns:
        The context that hooks add to the prompt, for `add_reminders`.

    Raises:
        PromptBlocked: A hook blocked the prompt; the conversation is unchanged.
    """
    verdict = await fire(state, HookEvent.USER_PROMPT_SUBMIT, prompt=raw or prompt.text)
    reason = verdict.stop or verdict.block
    if reason is not None:
        raise PromptBlocked(f"a hook blocked the prompt: {reason}")
    return tuple(verdict.context)


async def add_reminders(state: SessionState, prompt: Message, context: Sequence[str]) -> Message:
    """Return the prompt with reminders before it: permission mode, hooks, background tasks."""
    texts = [*await follow_mode(state), *state.reminders, *context, *state.notices]
    state.reminders.clear()
    state.notices.clear()
    if not texts:
        return prompt
    return Message(role=prompt.role, parts=(Text(format_reminder(*texts)), *prompt.parts))


def format_reminder(*texts: str) -> str:
    """Return texts of hooks in the tag that models know as not written by the user."""
    joined = "\n".join(texts)
    return f"<system-reminder>\n{joined}\n</system-reminder>\n"


async def check_stop(state: SessionState, answer: Message, *, times: int) -> Message | None:
    """Fire Stop; returns the message with which the run continues, or None when it may end."""
    verdict = await fire(
        state,
        HookEvent.STOP,
        stop_hook_active=times > 0,
        last_assistant_message=answer.text,
        response=answer.text[:_RESPONSE_CHARS],
    )
    texts = [*([verdict.block] if verdict.block else []), *verdict.context]
    if verdict.stop is not None or not texts:
        return None
    if times >= MOST_STOPS_REFUSED:
        state.emit(Warned(f"a Stop hook kept the run going {times} times in a row; it ends now"))
        return None
    return user(format_reminder(*texts))


async def check_compaction(
    state: SessionState, trigger: Trigger, instructions: str
) -> tuple[str | None, str]:
    """Ask `before_compact` and the PreCompact hooks whether a compaction may start.

    Returns:
        The reason not to, or None; and the instructions with those that hooks add.
    """
    before_compact = state.options["before_compact"]
    if before_compact is not None and (why := await before_compact(trigger)):
        return why, instructions
    verdict = await fire(
        state,
        HookEvent.PRE_COMPACT,
        trigger="manual" if trigger == "manual" else "auto",
        custom_instructions=instructions or None,
    )
    return verdict.stop or verdict.block, "\n".join(filter(None, [instructions, *verdict.context]))


async def report_compaction(state: SessionState, trigger: Trigger, summary: str) -> None:
    """Fire PostCompact, and SessionStart with the source `compact`."""
    how = "manual" if trigger == "manual" else "auto"
    await fire(state, HookEvent.POST_COMPACT, trigger=how, compact_summary=summary)
    await fire_session_start(state, "compact")


async def report_failure(state: SessionState, error: BaseException) -> None:
    """Fire StopFailure for a run that failed."""
    text = str(error) or type(error).__name__
    kind = next((name for known, name in _ERROR_KINDS if isinstance(error, known)), "unknown")
    await fire(
        state,
        HookEvent.STOP_FAILURE,
        reason=text,
        error=kind,
        error_details=text,
        last_assistant_message=text,
    )
