"""Running the hooks of an event: which, side by side, and what they say together."""

import logging

import anyio

from clew.hooks.asking import ask_agent, ask_model
from clew.hooks.combining import Named, combine, mapped
from clew.hooks.command import run_command
from clew.hooks.context import Holds, HookContext
from clew.hooks.handlers import AgentHook, CommandHook, HttpHook, PromptHook, seconds_for
from clew.hooks.http import post
from clew.hooks.matching import target_of
from clew.hooks.output import failure, read_exit, read_late
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.hooks.settings import Hook, HookTable

logger = logging.getLogger(__name__)


def chosen(
    table: HookTable, event: HookEvent, payload: HookInput, holds: Holds | None = None
) -> list[Hook]:
    """Return the hooks that `event` concerns, each thing to do once, in their order."""
    target = target_of(event, payload)
    found: dict[object, Hook] = {}
    for hook in table.hooks:
        if hook.event is event and hook.matcher.matches(target):
            rule = hook.handler.if_
            if not rule or _concerns(rule, target, payload, holds):
                found.setdefault(hook.key, hook)
    return list(found.values())


class HookRunner:
    """Fires events into a table of hooks.

    What hooks in the background have said since is in the verdict of the next prompt.
    """

    def __init__(self, table: HookTable, means: HookContext) -> None:
        self.table = table
        self._means = means
        self._late: list[Named] = []

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        """Run the hooks of `event` side by side and return what they say together."""
        hooks = chosen(self.table, event, payload, self._means.holds)
        if not hooks and not self._late:
            return HookVerdict()
        said: list[HookVerdict] = [HookVerdict()] * len(hooks)
        # One limit for each event: an agent that a hook waits for may fire events of its own.
        limit = anyio.CapacityLimiter(self._means.parallel)

        async def one(index: int, hook: Hook) -> None:
            async with limit:
                said[index] = await self._run(hook, payload)

        async with anyio.create_task_group() as group:
            for index, hook in enumerate(hooks):
                if self._means.background is not None and _is_background(hook):
                    self._means.background.start_soon(self._run_behind, hook, payload)
                else:
                    group.start_soon(one, index, hook)
        named = [(hook.label, verdict) for hook, verdict in zip(hooks, said, strict=True)]
        return mapped(combine([*self._arrived(event), *named]), self._means.redact)

    async def _run(self, hook: Hook, payload: HookInput) -> HookVerdict:
        """Run one hook within its time; raises nothing but cancellation."""
        seconds: float | None = seconds_for(hook.handler, hook.event)
        if self._means.background is not None and _is_unlimited(hook):
            seconds = None
        try:
            with anyio.move_on_after(seconds):
                return await self._ask(hook, payload)
        except Exception as error:
            logger.exception("%s crashed", self._means.redact(hook.label))
            return _failed(hook, f"it crashed: {error!r}")
        return _failed(hook, f"ended after {seconds:g} s; what it said is not used")

    async def _ask(self, hook: Hook, payload: HookInput) -> HookVerdict:
        match hook.handler:
            case CommandHook() as handler:
                return await self._command(hook, handler, payload)
            case HttpHook() as handler:
                return await post(hook.event, handler, payload, self._means)
            case PromptHook() as handler:
                return await ask_model(hook.event, handler, payload, self._means)
            case AgentHook() as handler:
                return await ask_agent(hook.event, handler, payload, self._means)

    async def _command(self, hook: Hook, handler: CommandHook, payload: HookInput) -> HookVerdict:
        try:
            ended = await run_command(hook, handler, payload, self._means)
        except (OSError, ValueError) as error:
            return _failed(hook, f"it could not be started: {error}")
        if _is_background(hook):
            return self._late_words(handler, read_late(ended, rewake=handler.async_rewake))
        return read_exit(hook.event, ended)

    async def _run_behind(self, hook: Hook, payload: HookInput) -> None:
        verdict = await self._run(hook, payload)
        self._late.append((hook.label, verdict))

    def _late_words(self, handler: CommandHook, verdict: HookVerdict) -> HookVerdict:
        """Bring words that cannot wait to the model, or make them wait as context."""
        if verdict.block is None:
            return verdict
        words = "\n".join(filter(None, (handler.rewake_message, verdict.block)))
        if self._means.wake is None:
            return HookVerdict(context=(words,))
        self._means.wake(self._means.redact(words))
        return HookVerdict()

    def _arrived(self, event: HookEvent) -> list[Named]:
        if event is not HookEvent.USER_PROMPT_SUBMIT:
            return []
        arrived, self._late = self._late, []
        return arrived


def _failed(hook: Hook, why: str) -> HookVerdict:
    # A hook that nobody waits for decides nothing, not even by failing.
    return HookVerdict(reports=(why,)) if _is_background(hook) else failure(hook.event, why)


def _is_background(hook: Hook) -> bool:
    handler = hook.handler
    return isinstance(handler, CommandHook) and (handler.async_ or handler.async_rewake)


def _is_unlimited(hook: Hook) -> bool:
    handler = hook.handler
    return isinstance(handler, CommandHook) and handler.async_ and not handler.async_rewake


def _concerns(rule: str, target: tuple[str, ...], payload: HookInput, holds: Holds | None) -> bool:
    """Does a hook's `if` let it run? Where that cannot be told, it runs."""
    tool, bracket, _ = rule.partition("(")
    open_ended = "*" in tool
    if not open_ended and tool.strip() not in target:
        return False
    if holds is None or not (bracket or open_ended):
        return True
    try:
        return holds(rule, payload)
    except Exception:
        logger.exception("the rule %s could not be judged", rule)
        return True
