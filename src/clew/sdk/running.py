"""One piece of work in the foreground, from its first event to its last."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from clew.core.errors import AbortError, StoreError
from clew.core.events import Warned
from clew.core.usage import Spending
from clew.sdk.bridge import Bridge
from clew.sdk.history import TOOL_SUMMARY, history
from clew.sdk.hub import Hub
from clew.sdk.usage import snapshot
from clew.sdk.values import ExecutionResult, ToolState
from clew.session.session import Session

Work: TypeAlias = Callable[[], Awaitable[str]]
_NAMED = 5


class Foreground:
    """Tells clients how work goes, and leaves its summary in the journal.

    Each `user_message` is followed by exactly one of `complete`, `interrupted` and `error`.
    """

    def __init__(self, hub: Hub, bridge: Bridge) -> None:
        self._hub = hub
        self._bridge = bridge

    async def run(self, session: Session, work: Work, *, label: str) -> ExecutionResult:
        """Do `work`, which returns the answer; an abort is a result, other failures are raised."""
        before = session.get_cost()
        self._bridge.begin()
        self._hub.emit("user_message", label)
        self._hub.emit("thinking", True)  # noqa: FBT003
        try:
            return await self._observed(session, work, before)
        except Exception as error:
            self._hub.emit("error", error)
            raise
        finally:
            self._hub.emit("thinking", False)  # noqa: FBT003

    async def _observed(self, session: Session, work: Work, before: Spending) -> ExecutionResult:
        try:
            response = await work()
        except AbortError:
            return await self._end(session, before, None)
        except Exception:
            await self._note(session)
            raise
        except BaseException:
            # The caller's task is cancelled: nothing can be awaited, but clients must know.
            result = self._result(session, before, self._bridge.text, interrupted=True)
            self._hub.emit("interrupted", result)
            raise
        return await self._end(session, before, response)

    async def _end(
        self, session: Session, before: Spending, response: str | None
    ) -> ExecutionResult:
        """Leave the summary and tell the end, whatever becomes of the summary; None is an abort."""
        try:
            await self._note(session)
        finally:
            aborted = response is None
            text = self._bridge.text if response is None else response
            result = self._result(session, before, text, interrupted=aborted)
            self._hub.emit("interrupted" if aborted else "complete", result)
        return result

    async def _note(self, session: Session) -> None:
        """Leave in the journal what a screen showed of the tools."""
        states = self._bridge.tools.states
        if states:
            tools = [msgspec.to_builtins(state) for state in states]
            try:
                await session.add_history_entry(TOOL_SUMMARY, summary(states), tools=tools)
            except StoreError as error:
                self._bridge(Warned(f"what the tools showed was not kept: {error}"))

    def _result(
        self, session: Session, before: Spending, response: str, *, interrupted: bool = False
    ) -> ExecutionResult:
        entries = session.journal.entries
        count = len(entries)
        state = session.get_context_state()
        return ExecutionResult(
            response=response,
            tool_summaries=self._bridge.tools.states,
            context_state=state,
            usage=snapshot(before, session.get_cost(), state),
            interrupted=interrupted,
            stop_reason=self._bridge.ended.stop_reason,
            tell_history=lambda: history(entries[:count]),
        )


def summary(states: tuple[ToolState, ...]) -> str:
    """Say in a line which tools were used, and what went wrong."""
    names = list(dict.fromkeys(state.tool_name for state in states))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    failed = sum(state.result in ("error", "denied") for state in states)
    calls = f"{len(states)} tool call{'s' if len(states) > 1 else ''}"
    trouble = f", {failed} without success" if failed else ""
    return f"{calls}{trouble}: {', '.join(names[:_NAMED])}{more}"
