"""From the events of a session to the updates that an editor shows.

`EventMapper` keeps which tool calls the editor knows and what the session has cost; it does no
I/O. The updates of one envelope depend on the envelopes before it and on nothing else.
"""

from msgspec import Struct

from clew.acp.content import (
    AgentMessageChunk,
    AgentThoughtChunk,
    Cost,
    Location,
    PlanEntry,
    PlanUpdate,
    TextBlock,
    ToolCallContent,
    ToolCallStart,
    ToolCallUpdate,
    ToolContent,
    ToolStatus,
    ToolTerminal,
    Update,
    UsageUpdate,
)
from clew.acp.tool_calls import (
    find_kind,
    find_locations,
    locate_change,
    make_title,
    preview_diff,
    read_arguments,
    show_change,
    show_text,
)
from clew.core.context_state import ContextState
from clew.core.entries import spending_of
from clew.core.events import (
    BackgroundTaskEvent,
    CompactionEnded,
    CompactionFailed,
    CompactionStarted,
    ContextUpdated,
    EntryAdded,
    Envelope,
    Event,
    ModelRetry,
    ReasoningDelta,
    RunCompleted,
    RunInterrupted,
    ServerToolEnded,
    ServerToolStarted,
    TextDelta,
    TodosChanged,
    ToolEnded,
    ToolProgress,
    ToolResultsCleared,
    ToolStarted,
    Warned,
)
from clew.core.file_change import read_file_change
from clew.core.sanitize import sanitize_line
from clew.core.tasks import TaskKind, TaskState, TaskStatus
from clew.core.todos import TodoItem, TodoStatus
from clew.sdk.entries import format_cleared_results

_COMPACTION = "clew:compaction"
_CLEARING = "clew:clearing"
_MAX_TITLE = 200
_PLAN_STATUS = {
    TodoStatus.PENDING: "pending",
    TodoStatus.IN_PROGRESS: "in_progress",
    TodoStatus.COMPLETED: "completed",
}


class _Call(Struct, frozen=True):
    """A tool call that has no result yet."""

    tool_call_id: str
    name: str


class _OpenCalls:
    """The tool calls that run, by their subagent and id, and how the editor knows them."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], _Call] = {}
        self._used: dict[str, int] = {}

    def start(self, key: tuple[str, str], name: str) -> _Call:
        """Add a call; an id that a provider uses again gets a number."""
        base = _join(*key)
        count = self._used[base] = self._used.get(base, 0) + 1
        call = self._open[key] = _Call(base if count == 1 else f"{base}#{count}", name)
        return call

    def get(self, key: tuple[str, str]) -> _Call | None:
        """Return a call that runs."""
        return self._open.get(key)

    def end(self, key: tuple[str, str]) -> _Call | None:
        """Remove a call; None if it does not run."""
        return self._open.pop(key, None)


def _join(task_id: str, call_id: str) -> str:
    return f"{task_id}/{call_id}" if task_id else call_id


class EventMapper:
    """Turns the envelopes of one session into updates, in order.

    Args:
        cwd: The folder of the session, which relative paths start at.
        cost_usd: What the session has cost before.
    """

    def __init__(self, cwd: str, *, cost_usd: float = 0.0) -> None:
        self._cwd = cwd
        self._cost_usd = cost_usd
        self._calls = _OpenCalls()
        self._terminals: dict[str, ToolTerminal] = {}
        """Where the commands of calls run."""

    def map(self, envelope: Envelope) -> list[Update]:
        """Return what an editor shows for an envelope.

        Of subagents, only their tool calls: their text is the result of the call that started
        them.
        """
        event, task = envelope.event, envelope.task_id
        match event:
            case ToolStarted() | ToolProgress() | ToolEnded():
                return self._map_call(event, task)
            case BackgroundTaskEvent(state=TaskState(mode="background") as state):
                return self._map_task(state)
            case _ if task:
                return []
            case ServerToolStarted(call_id=call_id, name=name, arguments=arguments):
                return [self.start_call(call_id, name, arguments)]
            case ServerToolEnded(call_id=call_id, name=name, text=text, failed=failed):
                return [self.end_call(("", call_id), name, show_text(name, text), failed=failed)]
            case CompactionStarted() | CompactionEnded() | CompactionFailed():
                return self._map_compaction(event)
            case ToolResultsCleared():
                return self._map_clearing(event)
            case _:
                return self._map_text(event)

    def find_call(self, call_id: str, task_id: str = "") -> str:
        """Return the id by which the editor knows a tool call."""
        call = self._calls.get((task_id, call_id))
        return call.tool_call_id if call is not None else _join(task_id, call_id)

    def attach_terminal(self, call_id: str, terminal_id: str) -> list[Update]:
        """Show a call as the terminal in which its command runs."""
        shown = self._terminals[call_id] = ToolTerminal(terminal_id)
        call = self._calls.get(("", call_id))
        return [ToolCallUpdate(tool_call_id=call.tool_call_id, content=(shown,))] if call else []

    def start_call(
        self, call_id: str, name: str, arguments: str, *, task_id: str = ""
    ) -> ToolCallStart:
        """Return a call that runs now; ids that a provider uses again get a number."""
        values = read_arguments(arguments)
        call = self._calls.start((task_id, call_id), name)
        return ToolCallStart(
            tool_call_id=call.tool_call_id,
            title=make_title(name, arguments),
            kind=find_kind(name),
            status="in_progress",
            content=preview_diff(name, values, self._cwd) or self._find_terminal(call_id),
            locations=find_locations(name, values, self._cwd) or None,
            raw_input=values or None,
        )

    def usage(self, state: ContextState) -> UsageUpdate:
        """Return the numbers of the gauge, and what the session has cost so far."""
        cost = Cost(amount=self._cost_usd) if self._cost_usd else None
        return UsageUpdate(used=state.used_tokens, size=state.max_tokens, cost=cost)

    def _map_call(self, event: ToolStarted | ToolProgress | ToolEnded, task: str) -> list[Update]:
        key = (task, str(event.call_id))
        match event:
            case ToolStarted(name=name, arguments=arguments):
                return [self.start_call(key[1], name, arguments, task_id=task)]
            case ToolProgress(name=name, line=line):
                call = self._calls.get(key)
                if call is None or self._find_terminal(key[1]):
                    return []
                content = show_text(name, line)
                return [ToolCallUpdate(tool_call_id=call.tool_call_id, content=content)]
            case ToolEnded(name=name, failed=failed, display=display, data=data):
                change = None if failed else read_file_change(data)
                if change is None:
                    result = self._find_terminal(key[1]) or show_text(name, display)
                    self._terminals.pop(key[1], None)
                    return [self.end_call(key, name, result, failed=failed)]
                places = locate_change(change, self._cwd)
                shown = show_change(change, self._cwd)
                return [self.end_call(key, name, shown, failed=failed, locations=places)]

    def _map_task(self, state: TaskState) -> list[Update]:
        """Return a background task as a tool call that lasts until the task ends."""
        key = ("", f"clew:task:{state.task_id}")
        title = sanitize_line(state.label or state.prompt or state.task_id, _MAX_TITLE)
        if not state.status.is_terminal:
            if self._calls.get(key):
                return []
            call = self._calls.start(key, title)
            is_agent = state.kind is TaskKind.AGENT
            start = ToolCallStart(
                tool_call_id=call.tool_call_id,
                title=title,
                kind="think" if is_agent else "execute",
                status="in_progress",
            )
            return [start]
        if not self._calls.get(key):
            # It is reported again when it is closed.
            return []
        failed = state.status is not TaskStatus.COMPLETED
        text = state.error if failed and state.error else state.result
        name = "Agent" if state.kind is TaskKind.AGENT else ""
        return [self.end_call(key, title, show_text(name, text), failed=failed)]

    def _map_text(self, event: Event) -> list[Update]:
        match event:
            case TextDelta(text=text) if text:
                return [AgentMessageChunk(TextBlock(text))]
            case ReasoningDelta(text=text) if text:
                return [AgentThoughtChunk(TextBlock(text))]
            case Warned(text=text):
                return [_note(text)]
            case ModelRetry(reason=reason, delay=delay):
                return [_note(f"{reason}; trying again in {delay:.0f} s")]
            case TodosChanged(items=items):
                return [make_plan(items)]
            case ContextUpdated(state=state):
                return [self.usage(state)]
            case RunCompleted(result=result) | RunInterrupted(result=result):
                return [self.usage(result.context_state)]
            case EntryAdded(entry=entry):
                self._cost_usd += spending_of(entry.body).usd
        return []

    def _map_compaction(
        self, event: CompactionStarted | CompactionEnded | CompactionFailed
    ) -> list[Update]:
        key = ("", _COMPACTION)
        match event:
            case CompactionStarted():
                call = self._calls.start(key, "")
                start = ToolCallStart(
                    tool_call_id=call.tool_call_id,
                    title="Compact the conversation",
                    kind="think",
                    status="in_progress",
                )
                return [start]
            case CompactionEnded(after=after, summary=summary):
                content = (ToolContent(TextBlock(summary)),) if summary else ()
                return [self.end_call(key, "", content, failed=False), self.usage(after)]
            case CompactionFailed(why=why):
                return [self.end_call(key, "", (ToolContent(TextBlock(why)),), failed=True)]

    def _map_clearing(self, event: ToolResultsCleared) -> list[Update]:
        title, _, how = format_cleared_results(event.report, event.trigger).partition(", ")
        content = (ToolContent(TextBlock(how)),)
        done = self.end_call(("", _CLEARING), title, content, failed=False)
        return [done, self.usage(event.after)]

    def end_call(
        self,
        key: tuple[str, str],
        name: str,
        content: tuple[ToolCallContent, ...],
        *,
        failed: bool,
        locations: tuple[Location, ...] | None = None,
    ) -> Update:
        """Return the end of a call: of the subagent and with the id that `key` names."""
        status: ToolStatus = "failed" if failed else "completed"
        call = self._calls.end(key)
        if call is None:
            # The call started before this client was attached, or takes no time.
            call = self._calls.start(key, name)
            self._calls.end(key)
            return ToolCallStart(
                tool_call_id=call.tool_call_id,
                title=name or "Compact the conversation",
                kind=find_kind(name),
                status=status,
                content=content,
                locations=locations,
            )
        return ToolCallUpdate(
            tool_call_id=call.tool_call_id,
            status=status,
            # An empty result keeps what the start of the call shows.
            content=content or None,
            locations=locations,
        )

    def _find_terminal(self, call_id: str) -> tuple[ToolTerminal, ...] | None:
        found = self._terminals.get(call_id)
        return (found,) if found is not None else None


def make_plan(items: tuple[TodoItem, ...]) -> PlanUpdate:
    """Return a todo list as a plan; the protocol has no cancelled steps, so they are left out."""
    return PlanUpdate(
        tuple(
            PlanEntry(content=one.content, status=_PLAN_STATUS[one.status])  # type: ignore[arg-type]
            for one in items
            if one.status is not TodoStatus.CANCELLED
        )
    )


def _note(text: str) -> AgentThoughtChunk:
    """Return a message of Clew, which is not part of the answer."""
    return AgentThoughtChunk(TextBlock(f"{text}\n\n"))
