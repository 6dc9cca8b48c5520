"""Hooks that ask a model or an agent, through what the session gives them."""

from clew.hooks.context import AgentTask, HookContext
from clew.hooks.handlers import AgentHook, PromptHook, seconds_for
from clew.hooks.output import failure, read_answer
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict

_ARGUMENTS = "$ARGUMENTS"
_FORM = (
    'Answer with JSON and nothing else: {"ok": true} if it may go ahead, or'
    ' {"ok": false, "reason": "…"} with the reason why not.'
)


async def ask_model(
    event: HookEvent, handler: PromptHook, payload: HookInput, means: HookContext
) -> HookVerdict:
    """Let a model decide."""
    if means.ask is None:
        return failure(event, "prompt hooks cannot run here: there is no model to ask")
    answer = await means.ask(prompt_for(handler.prompt, event, payload), handler.model)
    return read_answer(event, answer, ends_turn=not handler.continue_on_block)


async def ask_agent(
    event: HookEvent, handler: AgentHook, payload: HookInput, means: HookContext
) -> HookVerdict:
    """Let an agent decide."""
    if means.run_agent is None:
        return failure(event, "agent hooks cannot run here: there is nobody to run an agent")
    task = AgentTask(
        agent=handler.agent,
        prompt=prompt_for(handler.prompt, event, payload),
        model=handler.model,
        max_turns=handler.max_turns,
        seconds=seconds_for(handler, event),
    )
    return read_answer(event, await means.run_agent(task), ends_turn=False)


def prompt_for(prompt: str, event: HookEvent, payload: HookInput) -> str:
    """Return the question: the user's words, the JSON, and the form of the answer."""
    json = payload.encode(event).decode()
    if _ARGUMENTS in prompt:
        question = prompt.replace(_ARGUMENTS, json)
    else:
        question = f"{prompt}\n\n{json}".lstrip()
    return f"{question}\n\n{_FORM}"
