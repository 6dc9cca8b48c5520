"""The parts of a transcript that are unfinished: answer, thinking, running tools."""

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from clew.core.entries import Entry, MessageAdded
from clew.core.events import (
    CompactionEnded,
    CompactionFailed,
    CompactionProgress,
    CompactionStarted,
    Event,
    PermissionDenied,
    PermissionRequest,
    PermissionResolved,
    ServerToolEnded,
    ServerToolStarted,
    ToolEnded,
    ToolProgress,
    ToolResultsCleared,
    ToolStarted,
)
from clew.core.json_text import decode_json
from clew.core.todos import TODO_WRITE
from clew.core.tool_states import ToolState
from clew.tui.blocks import (
    EXIT_PLAN_MODE,
    Answer,
    Block,
    ClearedBlock,
    Compaction,
    Plan,
    RunningTool,
    ServerToolBlock,
    ShellOutput,
    ThinkingBlock,
    ToolCallBlock,
)
from clew.tui.run_notes import (
    describe_compaction,
    describe_failed_compaction,
    describe_progress,
)

if TYPE_CHECKING:
    from clew.tui.markdown_blocks import MarkdownSplitter

NO_RESULT = "the run ended before the result arrived"

_Question: TypeAlias = PermissionRequest | PermissionResolved | PermissionDenied


class OpenAnswer:
    """The answer that is arriving. Its complete Markdown blocks are finished at once."""

    def __init__(self) -> None:
        self.part = 0
        """The number of the part that is open."""
        self._splitter: MarkdownSplitter | None = None

    @property
    def tail(self) -> str:
        """The text that is in no finished block."""
        return "" if self._splitter is None else self._splitter.tail

    def add(self, text: str) -> list[Block]:
        """Add a piece of the answer; returns the parts that it completes."""
        if self._splitter is None:
            # Importing the Markdown parser is slow, and only an answer needs it.
            from clew.tui.markdown_blocks import MarkdownSplitter  # noqa: PLC0415

            self._splitter = MarkdownSplitter()
        return self._make_parts(self._splitter.feed(text))

    def close(self) -> list[Block]:
        """End the answer; returns its last part."""
        parts = [] if self._splitter is None else self._make_parts([self._splitter.close()])
        self.part = 0
        return parts

    def _make_parts(self, texts: list[str]) -> list[Block]:
        parts: list[Block] = []
        for text in texts:
            if text.strip(" \t\r\n"):
                parts.append(Answer(text=text, part=self.part))
                self.part += 1
        return parts


class OpenThinking:
    """The reasoning that is arriving."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.since = 0.0

    @property
    def text(self) -> str:
        """What has arrived."""
        return "".join(self._pieces)

    def add(self, text: str, at: float) -> None:
        """Add a piece."""
        if not self._pieces:
            self.since = at
        self._pieces.append(text)

    def close(self, at: float) -> list[Block]:
        """End the reasoning; returns its block, if it has text."""
        text, self._pieces = self.text, []
        return [ThinkingBlock(text=text, seconds=max(0.0, at - self.since))] if text.strip() else []


class OpenCompaction:
    """The compaction that is in progress."""

    def __init__(self) -> None:
        self.text = ""
        """How far it is; empty if there is none."""
        self.since = 0.0

    def apply(self, event: Event, at: float) -> list[Block]:
        """Take the next event; returns the block of a compaction that ended."""
        match event:
            case CompactionStarted():
                self.text, self.since = describe_compaction(event), at
            case CompactionProgress():
                self.text = describe_progress(event) or self.text
            case CompactionEnded():
                self.text = ""
                return [
                    Compaction(
                        trigger=event.trigger,
                        before=event.before,
                        after=event.after,
                        report=event.report,
                        summary=event.summary,
                    )
                ]
            case CompactionFailed():
                self.text = ""
                return [describe_failed_compaction(event)]
            case ToolResultsCleared():
                return [ClearedBlock(trigger=event.trigger, report=event.report)]
            case _:
                pass
        return []


class RunningTools:
    """The tool calls that have no result yet."""

    def __init__(self) -> None:
        self._calls: dict[str, RunningTool] = {}
        self._by_user: set[str] = set()
        self._by_provider: set[str] = set()
        self._requests: dict[str, str] = {}
        """The calls that permission requests are about."""
        self._remedies: dict[str, str] = {}
        self._truncated: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    @property
    def running(self) -> tuple[RunningTool, ...]:
        """The calls, in the order in which they started."""
        return tuple(self._calls.values())

    def start(self, event: ToolStarted | ServerToolStarted, at: float) -> None:
        """Add a call."""
        self._calls[event.call_id] = RunningTool(
            call_id=event.call_id, name=event.name, arguments=event.arguments, since=at
        )
        if isinstance(event, ServerToolStarted):
            self._by_provider.add(event.call_id)
        elif event.by_user:
            self._by_user.add(event.call_id)

    def join(self, tool: ToolState, at: float) -> None:
        """Add a call that started before."""
        self._calls[tool.call_id] = RunningTool(
            call_id=tool.call_id, name=tool.tool_name, arguments=tool.first_arg, since=at
        )

    def update(self, event: ToolProgress) -> None:
        """Take the newest line of a call's output."""
        if (call := self._calls.get(event.call_id)) is not None:
            self._calls[event.call_id] = replace(call, line=event.line)

    def note_entry(self, entry: Entry) -> None:
        """Take note of the result for the model, and of one that it gets only in part."""
        body = entry.body
        if not isinstance(body, MessageAdded):
            return
        for result in body.message.results:
            if result.call_id not in self._calls:
                continue
            self._texts[result.call_id] = body.full_text or result.text
            if body.full_text is not None:
                self._truncated[result.call_id] = (
                    f"long output: the model reads {len(result.text):,} of"
                    f" {len(body.full_text):,} characters; /recall #{entry.id} has all of it"
                )

    def ask(self, event: _Question, at: float) -> None:
        """Take note of a permission request, or of its answer; the call runs from then on."""
        match event:
            case PermissionRequest(request_id=request_id, call_id=call_id):
                self._requests[request_id] = call_id
                self._mark(call_id, at, is_asking=True)
            case PermissionResolved(request_id=request_id):
                self._mark(self._requests.pop(request_id, ""), at, is_asking=False)
            case PermissionDenied(call_id=call_id, remedy=remedy):
                if call_id in self._calls:
                    # At the prompt, a command changes the mode.
                    self._remedies[call_id] = remedy.replace("--permission-mode ", "/mode ")

    def end(self, event: ToolEnded | ServerToolEnded, at: float) -> list[Block]:
        """Remove a call that has its result; returns its block."""
        call = self._calls.pop(event.call_id, None) or RunningTool(
            call_id=event.call_id, name=event.name, arguments="", since=at
        )
        seconds = max(0.0, at - call.since)
        if isinstance(event, ServerToolEnded):
            self._by_provider.discard(event.call_id)
            return [
                ServerToolBlock(
                    name=event.name,
                    arguments=call.arguments,
                    text=event.text,
                    failed=event.failed,
                    seconds=seconds,
                )
            ]
        remedy = self._remedies.pop(event.call_id, "")
        truncated = self._truncated.pop(event.call_id, "")
        text = self._texts.pop(event.call_id, "")
        if event.call_id in self._by_user:
            self._by_user.discard(event.call_id)
            command = str(_decode(call.arguments).get("command", ""))
            return [ShellOutput(command=command, text=event.display, failed=event.failed)]
        if event.name == TODO_WRITE and not event.failed:
            return []  # `TodosChanged` shows the list.
        changed = _find_changed_plan(call, event)
        return [
            *([Plan(text=changed)] if changed else []),
            ToolCallBlock(
                name=call.name,
                arguments=call.arguments,
                outcome="denied" if event.denied else "error" if event.failed else "success",
                error_code=event.error_code,
                display=event.display,
                text="" if text == event.display else text,
                data=event.data,
                seconds=seconds,
                remedy=remedy,
                truncated=truncated,
            ),
        ]

    def end_provider_calls(self, at: float) -> list[Block]:
        """Remove the calls of the provider without a result, because the run is over."""
        open_calls = [self._calls[one] for one in self._calls if one in self._by_provider]
        return [
            block
            for call in open_calls
            for block in self.end(
                ServerToolEnded(call_id=call.call_id, name=call.name, text=NO_RESULT, failed=True),
                at,
            )
        ]

    def _mark(self, call_id: str, at: float, *, is_asking: bool) -> None:
        if (call := self._calls.get(call_id)) is not None:
            self._calls[call_id] = replace(call, is_asking=is_asking, since=at)


def _find_changed_plan(call: RunningTool, event: ToolEnded) -> str:
    """Return the plan that the user edited and approved; empty for any other call."""
    if event.name != EXIT_PLAN_MODE or not isinstance(event.data, dict):
        return ""
    plan, presented = event.data.get("plan"), _decode(call.arguments).get("plan")
    is_changed = isinstance(plan, str) and plan.strip() != str(presented).strip()
    return str(plan) if is_changed and event.data.get("approved") else ""


def _decode(arguments: str) -> dict[str, Any]:
    try:
        values = decode_json(arguments or "{}")
    except msgspec.DecodeError:
        return {}
    return values if isinstance(values, dict) else {}
