"""Runs the hooks of an event concurrently and merges their verdicts.

A deny outweighs an ask, and an ask an allow, whatever their order. Of several reasons the first
counts, of several changes to the same thing the last. An overruled verdict becomes a report.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import anyio
import msgspec

from clew.core.permissions import Decision, Verdict
from clew.core.text import replace_surrogates
from clew.hooks.command import run_command
from clew.hooks.context import AgentTask, HookContext, RuleMatcher
from clew.hooks.handlers import AgentHook, CommandHook, HttpHook, PromptHook, timeout_of
from clew.hooks.http import post_event
from clew.hooks.output import interpret_answer, interpret_background, interpret_exit, report_failure
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.hooks.settings import Hook, HookTable, matcher_target

logger = logging.getLogger(__name__)

_ARGUMENTS = "$ARGUMENTS"
_ANSWER_FORMAT = (
    'Answer with JSON and nothing else: {"ok": true} if it may go ahead, or'
    ' {"ok": false, "reason": "…"} with the reason why not.'
)
_WEIGHT = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}

NamedVerdict: TypeAlias = tuple[str, HookVerdict]
"""The label of a hook, and its verdict."""


def select_hooks(
    table: HookTable, event: HookEvent, payload: HookInput, holds: RuleMatcher | None = None
) -> list[Hook]:
    """Return the hooks that match `event`, in order and without duplicates."""
    target = matcher_target(event, payload)
    found: dict[object, Hook] = {}
    for hook in table.hooks:
        if hook.event is event and hook.matcher.matches(target):
            rule = hook.handler.if_
            if not rule or _rule_matches(rule, target, payload, holds):
                found.setdefault(hook.key, hook)
    return list(found.values())


class HookRunner:
    """Runs the hooks of a table when an event fires.

    The output of background hooks becomes part of the verdict on the next prompt.
    """

    def __init__(self, table: HookTable, context: HookContext) -> None:
        self.table = table
        self._context = context
        self._late: list[NamedVerdict] = []

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        """Run the hooks of `event` concurrently and return their merged verdict."""
        hooks = select_hooks(self.table, event, payload, self._context.holds)
        if not hooks and not self._late:
            return HookVerdict()
        said: list[HookVerdict] = [HookVerdict()] * len(hooks)
        # One limiter per event: an agent that a hook waits for may fire events itself.
        limit = anyio.CapacityLimiter(self._context.parallel)

        async def one(index: int, hook: Hook) -> None:
            async with limit:
                said[index] = await self._run(hook, payload)

        async with anyio.create_task_group() as group:
            for index, hook in enumerate(hooks):
                if self._context.background is not None and _is_background(hook):
                    self._context.background.start_soon(self._run_in_background, hook, payload)
                else:
                    group.start_soon(one, index, hook)
        named = [(hook.label, verdict) for hook, verdict in zip(hooks, said, strict=True)]
        return map_texts(merge_verdicts([*self._take_late(event), *named]), self._context.redact)

    async def _run(self, hook: Hook, payload: HookInput) -> HookVerdict:
        """Run one hook with its timeout; raises nothing but cancellation."""
        seconds: float | None = timeout_of(hook.handler, hook.event)
        if self._context.background is not None and _is_unlimited(hook):
            seconds = None
        try:
            with anyio.move_on_after(seconds):
                return await self._ask(hook, payload)
        except Exception as error:
            logger.exception("%s crashed", self._context.redact(hook.label))
            return _report_failure(hook, f"crashed: {error!r}")
        return _report_failure(hook, f"timed out after {seconds:g} s; its output is ignored")

    async def _ask(self, hook: Hook, payload: HookInput) -> HookVerdict:
        match hook.handler:
            case CommandHook() as handler:
                return await self._command(hook, handler, payload)
            case HttpHook() as handler:
                return await post_event(hook.event, handler, payload, self._context)
            case PromptHook() as handler:
                return await ask_model(hook.event, handler, payload, self._context)
            case AgentHook() as handler:
                return await ask_agent(hook.event, handler, payload, self._context)

    async def _command(self, hook: Hook, handler: CommandHook, payload: HookInput) -> HookVerdict:
        try:
            ended = await run_command(hook, handler, payload, self._context)
        except (OSError, ValueError) as error:
            return _report_failure(hook, f"could not start: {error}")
        if _is_background(hook):
            return interpret_background(
                ended, rewake=handler.async_rewake, rewake_message=handler.rewake_message
            )
        return interpret_exit(hook.event, ended)

    async def _run_in_background(self, hook: Hook, payload: HookInput) -> None:
        verdict = await self._run(hook, payload)
        self._late.append((hook.label, verdict))

    def _take_late(self, event: HookEvent) -> list[NamedVerdict]:
        if event is not HookEvent.USER_PROMPT_SUBMIT:
            return []
        arrived, self._late = self._late, []
        return arrived


def _report_failure(hook: Hook, why: str) -> HookVerdict:
    # The verdict of a background hook decides nothing, even if it fails.
    return HookVerdict(reports=(why,)) if _is_background(hook) else report_failure(hook.event, why)


def _is_background(hook: Hook) -> bool:
    handler = hook.handler
    return isinstance(handler, CommandHook) and (handler.async_ or handler.async_rewake)


def _is_unlimited(hook: Hook) -> bool:
    handler = hook.handler
    return isinstance(handler, CommandHook) and handler.async_ and not handler.async_rewake


def _rule_matches(
    rule: str, target: tuple[str, ...], payload: HookInput, holds: RuleMatcher | None
) -> bool:
    """Does a hook's `if` rule match the call? Where that is uncertain, the hook runs."""
    tool, bracket, _ = rule.partition("(")
    open_ended = "*" in tool
    if not open_ended and tool.strip() not in target:
        return False
    if holds is None or not (bracket or open_ended):
        return True
    try:
        return holds(rule, payload)
    except Exception:
        logger.exception("cannot evaluate the `if` rule %s", rule)
        return True


async def ask_model(
    event: HookEvent, handler: PromptHook, payload: HookInput, context: HookContext
) -> HookVerdict:
    """Let a model decide about the event."""
    if context.ask is None:
        return report_failure(
            event, "prompt hooks cannot run in this session: it has no model to ask"
        )
    answer = await context.ask(build_prompt(handler.prompt, event, payload), handler.model)
    return interpret_answer(event, answer, ends_turn=not handler.continue_on_block)


async def ask_agent(
    event: HookEvent, handler: AgentHook, payload: HookInput, context: HookContext
) -> HookVerdict:
    """Let an agent decide about the event."""
    if context.run_agent is None:
        return report_failure(
            event, "agent hooks cannot run in this session: it cannot start agents"
        )
    task = AgentTask(
        agent=handler.agent,
        prompt=build_prompt(handler.prompt, event, payload),
        model=handler.model,
        max_turns=handler.max_turns,
    )
    return interpret_answer(event, await context.run_agent(task), ends_turn=False)


def build_prompt(prompt: str, event: HookEvent, payload: HookInput) -> str:
    """Return the prompt: the user's text, the event as JSON, and the format of the answer."""
    json = payload.encode(event).decode()
    if _ARGUMENTS in prompt:
        question = prompt.replace(_ARGUMENTS, json)
    else:
        question = f"{prompt}\n\n{json}".lstrip()
    return f"{question}\n\n{_ANSWER_FORMAT}"


def merge_verdicts(named: Sequence[NamedVerdict]) -> HookVerdict:
    """Merge the verdicts of all hooks, in the order of the settings."""
    decision, also = _strongest_decision(named)
    denied = decision is not None and decision.verdict is Verdict.DENY
    input_, inputs = _last(named, lambda verdict: None if denied else verdict.updated_input)
    output, outputs = _last(named, lambda verdict: verdict.updated_output)
    block, blocks = _first(named, lambda verdict: verdict.block)
    stop, stops = _first(named, lambda verdict: verdict.stop)
    path, paths = _first(named, lambda verdict: verdict.worktree_path or None)
    return HookVerdict(
        decision=decision,
        updated_input=input_,
        updated_output=output,
        block=block,
        stop=stop,
        context=tuple(text for _, verdict in named for text in verdict.context),
        messages=tuple(text for _, verdict in named for text in verdict.messages),
        reports=(
            *(f"{name}: {text}" for name, verdict in named for text in verdict.reports),
            *(f"{name} also says {one.verdict}: {one.reason}" for name, one in also),
            *(f"{name} also blocks: {text}" for name, text in blocks),
            *(f"{name} also stops the run: {text}" for name, text in stops),
            *(f"{name} also created a worktree, which is unused: {text}" for name, text in paths),
            *(
                f"{name} also changed the input; the change of a later hook is used"
                for name in inputs
            ),
            *(
                f"{name} also changed the output; the change of a later hook is used"
                for name in outputs
            ),
        ),
        worktree_path=path or "",
    )


def map_texts(verdict: HookVerdict, change: Callable[[str], str]) -> HookVerdict:
    """Apply `change` to every text in `verdict` for the user or the model.

    Tool input and output stay unchanged: a changed argument would be another call.
    """

    def texts(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(change(replace_surrogates(value)) for value in values)

    def text(value: str | None) -> str | None:
        return None if value is None else change(replace_surrogates(value))

    decision = verdict.decision
    if decision is not None:
        decision = Decision(decision.verdict, change(replace_surrogates(decision.reason)))
    return msgspec.structs.replace(
        verdict,
        decision=decision,
        block=text(verdict.block),
        stop=text(verdict.stop),
        context=texts(verdict.context),
        messages=texts(verdict.messages),
        reports=texts(verdict.reports),
    )


def _strongest_decision(
    named: Sequence[NamedVerdict],
) -> tuple[Decision | None, list[tuple[str, Decision]]]:
    """Return the decision with the most weight, and the others of the same weight."""
    decided = [(name, verdict.decision) for name, verdict in named if verdict.decision]
    if not decided:
        return None, []
    heaviest = max(_WEIGHT[decision.verdict] for _, decision in decided)
    equal = [pair for pair in decided if _WEIGHT[pair[1].verdict] == heaviest]
    chosen = equal[0][1]
    return chosen, [pair for pair in equal[1:] if pair[1] != chosen]


def _values(
    named: Sequence[NamedVerdict], part: Callable[[HookVerdict], Any]
) -> Iterator[tuple[str, Any]]:
    for name, verdict in named:
        value = part(verdict)
        if value is not None:
            yield name, value


def _first(
    named: Sequence[NamedVerdict], part: Callable[[HookVerdict], str | None]
) -> tuple[str | None, list[tuple[str, str]]]:
    said = list(_values(named, part))
    return (said[0][1], said[1:]) if said else (None, [])


def _last(
    named: Sequence[NamedVerdict], part: Callable[[HookVerdict], Any]
) -> tuple[Any, list[str]]:
    said = list(_values(named, part))
    if not said:
        return None, []
    value = said[-1][1]
    return value, [name for name, earlier in said[:-1] if earlier != value]
