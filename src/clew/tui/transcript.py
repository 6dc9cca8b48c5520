"""Folds the events of a session into blocks: finished ones, in order, and one live block.

The fold is pure: it reads no clock and prints nothing. A finished block never changes, so a
terminal prints it once. Each piece of the model's text is in exactly one block.
"""

from collections.abc import Sequence
from typing import cast, get_args

from msgspec.structs import replace

from clew.core.events import (
    BackgroundSummary,
    CompactionStarted,
    EntryAdded,
    Envelope,
    Event,
    ModelRetry,
    PermissionDenied,
    PermissionRequest,
    PermissionResolved,
    ReasoningDelta,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    ServerToolEnded,
    ServerToolStarted,
    TextDelta,
    Thinking,
    TodosChanged,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    UserMessage,
    Warned,
)
from clew.core.task_events import BackgroundJobGroupEvent, BackgroundTaskEvent
from clew.sdk.client import SessionSnapshot
from clew.tui.blocks import (
    EXIT_PLAN_MODE,
    Block,
    CommandReply,
    Foldable,
    LiveBlock,
    Notice,
    Plan,
    RetryWait,
    Todos,
    UserPrompt,
)
from clew.tui.history import find_open_text, make_blocks
from clew.tui.open_blocks import (
    OpenAnswer,
    OpenCompaction,
    OpenThinking,
    RunningTools,
)
from clew.tui.run_notes import describe_preparation, describe_result
from clew.tui.running_tasks import TaskLines

_MAX_KEPT = 500
"""How many numbered blocks can be shown again."""
_FOLDABLE = get_args(Foldable)


class Transcript:
    """What a terminal has shown of a session, and what it shows now."""

    def __init__(self) -> None:
        self._answer = OpenAnswer()
        self._thinking = OpenThinking()
        self._tools = RunningTools()
        self.tasks = TaskLines()
        """The background tasks."""
        self._compaction = OpenCompaction()
        self._retry: RetryWait | None = None
        self._todos = Todos(())
        self._since: float | None = None
        """When the run began; None if nothing runs."""
        self._run_id = ""
        """The run; empty if it began before the terminal was attached."""
        self._kept: dict[int, Foldable] = {}
        self._number = 0

    @property
    def live(self) -> LiveBlock | None:
        """The unfinished block; None if the session is idle and nothing is open."""
        tools, tasks = self._tools.running, self.tasks.running
        starts = [*(tool.since for tool in tools), *(task.since for task in tasks)]
        if self._compaction.text:
            starts.append(self._compaction.since)
        if self._since is None and not (starts or self._answer.tail or self._thinking.text):
            return None
        return LiveBlock(
            since=min(starts, default=0.0) if self._since is None else self._since,
            answer=self._answer.tail,
            answer_part=self._answer.part,
            thinking=self._thinking.text,
            thinking_since=self._thinking.since,
            tools=tools,
            tasks=tasks,
            is_running=self._since is not None,
            compaction=self._compaction.text,
            retry=self._retry,
            todos=self._todos.items if self._todos.is_open else (),
        )

    @property
    def newest(self) -> Foldable | None:
        """The newest block with a number; None if there is none."""
        return self._kept.get(self._number)

    def find(self, number: int) -> Foldable | None:
        """Return the block with that number; None if there is none, or it is too old."""
        return self._kept.get(number)

    def add(self, block: Block) -> Block:
        """Add a block of the terminal itself; returns it with its number, if it has one.

        It does not end the answer that is open.
        """
        if not isinstance(block, _FOLDABLE):
            return block
        self._number += 1
        numbered = cast("Foldable", replace(block, number=self._number))
        self._kept[self._number] = numbered
        self._kept.pop(self._number - _MAX_KEPT, None)
        return numbered

    def join(self, now: SessionSnapshot, at: float) -> list[Block]:
        """Take the state of a session that was opened at that time; returns its history.

        Continue with the events after `now.seq`.
        """
        blocks = [self.add(block) for block in make_blocks(now.history)]
        self._since = at if now.executing else None
        for tool in now.active_tools:
            self._tools.join(tool, at)
        for request in now.permission_requests:
            self._tools.ask(request, at)
        self._todos = Todos(now.todos)
        for task in now.tasks:
            self.tasks.join(task, at)
        open_text = find_open_text(now) if now.executing else ""
        todos = [self._todos] if self._todos.is_open else []
        return [*blocks, *todos, *(self._answer.add(open_text) if open_text else ())]

    def apply(self, envelope: Envelope) -> list[Block]:
        """Take the next event; returns the blocks that it finishes, in order."""
        event, at = envelope.event, envelope.at
        if isinstance(event, BackgroundTaskEvent):
            made: Sequence[Block] = self.tasks.change(event, at)
        elif isinstance(event, BackgroundJobGroupEvent):
            made = self.tasks.change_group(event)
        elif envelope.task_id:
            made = self.tasks.update(envelope.task_id, event)
        else:
            made = self._apply(event, at)
        return [self.add(block) for block in made]

    def close(self, at: float) -> list[Block]:
        """Finish the text that is open, because no more events come."""
        return [self.add(block) for block in self._end_text(at)]

    def _apply(self, event: Event, at: float) -> Sequence[Block]:
        match event:
            case TextDelta(text=text):
                return self._add_text(text, at)
            case ReasoningDelta(text=text):
                return self._add_thinking(text, at)
            case ToolStarted() | ServerToolStarted():
                self._retry = None
                self._tools.start(event, at)
                return self._end_text(at)
            case PermissionRequest(tool_name=name, arguments=arguments):
                self._tools.ask(event, at)
                if name == EXIT_PLAN_MODE:
                    return [*self._end_text(at), Plan(text=str(arguments.get("plan", "")))]
            case Warned(text=text):
                return [Notice(text, "warning")]
            case _:
                return self._apply_tool(event, at)
        return []

    def _apply_tool(self, event: Event, at: float) -> Sequence[Block]:
        match event:
            case ToolProgress():
                self._tools.update(event)
            case EntryAdded(entry=entry):
                self._tools.note_entry(entry)
            case ToolEnded() | ServerToolEnded():
                return self._tools.end(event, at)
            case PermissionResolved() | PermissionDenied():
                self._tools.ask(event, at)
            case TodosChanged(items=items):
                self._todos = Todos(items)
                return [self._todos]
            case ModelRetry():
                self._retry = RetryWait(
                    reason=event.reason,
                    until=at + event.delay,
                    attempt=event.attempt,
                    attempts=event.attempts,
                )
            case _:
                return self._apply_run(event, at)
        return []

    def _apply_run(self, event: Event, at: float) -> Sequence[Block]:
        match event:
            case UserMessage(text=text, run_id=run_id):
                self._since, self._run_id = at, run_id
                return [*self._end_text(at), UserPrompt(text)]
            case Thinking(active=active):
                if active and self._since is None:
                    self._since = at
                elif not active:
                    self._since = None
            case RunFailed(run_id=run_id) if self._since and self._run_id not in ("", run_id):
                # A prompt that waited was cancelled; the run goes on.
                return describe_result(event)
            case RunCompleted() | RunInterrupted() | RunFailed():
                self._since = self._retry = None
                open_calls = self._tools.end_provider_calls(at)
                return [*self._end_text(at), *open_calls, *describe_result(event)]
            case BackgroundSummary():
                return describe_preparation(event)
            case CompactionStarted():
                self._compaction.apply(event, at)
                return self._end_text(at)
            case _:
                return self._compaction.apply(event, at)
        return []

    def _add_text(self, text: str, at: float) -> Sequence[Block]:
        self._retry = None
        return [*self._thinking.close(at), *self._answer.add(text)]

    def _add_thinking(self, text: str, at: float) -> Sequence[Block]:
        self._retry = None
        ended = self._answer.close()
        self._thinking.add(text, at)
        return ended

    def _end_text(self, at: float) -> Sequence[Block]:
        return [*self._thinking.close(at), *self._answer.close()]


def find_shown(transcript: Transcript, line: str) -> Block | None:
    """Return what `/show` or `/show #3` prints; None for every other line.

    A number is that of a block, never that of a journal entry: the session itself carries out
    `/show entry 3`.
    """
    command, _, number = line.partition(" ")
    number = number.strip().removeprefix("#")
    if command.lower() != "/show":
        return None
    if not number:
        return transcript.newest or _reject("there is no folded block yet")
    if not (number.isascii() and number.isdecimal()):
        return None
    return transcript.find(int(number[:9])) or _reject(
        f"there is no folded block #{number[:9]}; /show entry {number[:9]} shows the journal entry"
    )


def _reject(why: str) -> Block:
    return CommandReply(text=f"clew: {why}", failed=True)
