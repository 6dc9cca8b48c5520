"""Replay a recorded session call by call, without network and without real tools.

The replay appends prompts, compactions and edits as they were recorded; it makes no decisions. It
repeats what a release could break: it builds each request, assembles each response, and runs the
tool calls with their recorded results.
"""

import sys
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.context.estimate import text_units
from clew.context.reasoning import ReasoningPolicy
from clew.core.entries import (
    Body,
    Compacted,
    Entry,
    MessageAdded,
    PinChanged,
    ReasoningDropped,
    Replacement,
    ResultsCleared,
    Rewound,
    SetupChanged,
    Undone,
)
from clew.core.errors import ProviderError
from clew.core.ids import CallId, EntryId, SessionId
from clew.core.messages import Message, Role, ToolCall, ToolResult
from clew.core.models import ToolSpec
from clew.core.permissions import Access, PermissionMode, Risk
from clew.core.usage import Usage
from clew.providers.protocol import Provider
from clew.providers.request_diff import Difference, compare_messages
from clew.providers.tokenizers import meter_for
from clew.sdk.replay_script import AppendEntry, RepeatCall, ReplayScript
from clew.session.config import SessionOptions
from clew.session.gate import Gate
from clew.session.journal import Journal
from clew.session.lifecycle import create_state
from clew.session.model_call import call_model
from clew.session.state import SessionState
from clew.session.tool_batch import run_calls
from clew.stores.memory import MemoryStore
from clew.tools.protocol import ToolContext, ToolOutput


class ReplayResult(Struct, frozen=True, kw_only=True):
    """The result of a replay."""

    calls: int
    tool_calls: int
    """The tool calls that were run with their recorded results."""
    usage: Usage
    """The recorded usage."""
    difference: Difference | None
    """The first response or result in the history that differs from the recording."""
    history: tuple[Message, ...]


async def replay_session(script: ReplayScript, provider: Provider) -> ReplayResult:
    """Replay `script`; `provider` answers its calls, usually a `ReplayProvider`.

    A call that `provider` rejects, or that failed in the recording, leaves the recorded entries
    in the history.
    """
    runner = await _Runner.start(script, provider)
    for step in script.steps:
        if isinstance(step, AppendEntry):
            await runner.append(step.entry)
        else:
            await runner.repeat(step)
    return ReplayResult(
        calls=runner.calls,
        tool_calls=runner.tool_calls,
        usage=runner.session.journal.spending.usage,
        difference=runner.difference,
        history=tuple(item.message for item in runner.session.journal.view.items),
    )


class _Runner:
    def __init__(self, script: ReplayScript, session: SessionState, clock: "_Clock") -> None:
        self.session = session
        self.calls = 0
        self.tool_calls = 0
        self.difference: Difference | None = None
        self._script = script
        self._turns = script.recording.turns.calls
        self._clock = clock
        self._ids: dict[EntryId, EntryId] = {}
        self._results = _results(script.entries)
        self._answered: set[CallId] = set()
        """Calls whose results are already in the journal."""

    @classmethod
    async def start(cls, script: ReplayScript, provider: Provider) -> "_Runner":
        clock = _Clock()
        cwd = Path.cwd()
        session_id = SessionId(script.session_id) if script.session_id else None
        journal = await Journal.open(MemoryStore(), cwd=cwd, session_id=session_id, clock=clock)
        options: SessionOptions = {
            "cwd": cwd,
            "gate": Gate(cwd=cwd, mode=PermissionMode.BYPASS),
            "recall": False,
            "detect_loops": False,
            "redact": False,
        }
        session = create_state(provider, "", options)
        session.journal, session.clock, session.is_open = journal, clock, True
        return cls(script, session, clock)

    async def append(self, entry: Entry) -> None:
        """Append a recorded entry, unless a repeated call already produced it."""
        body = entry.body
        if isinstance(body, MessageAdded) and body.message.role is Role.TOOL:
            answered = {result.call_id for result in body.message.results}
            if answered and answered <= self._answered:
                self._match(entry)
                return
        self._clock.now = entry.at
        added = await self.session.journal.append(_renumber(body, self._ids))
        self._ids[entry.id] = added.id
        if isinstance(body, SetupChanged):
            self.session.journal.measure_by(meter_for(body.model.name) or text_units)

    async def repeat(self, step: RepeatCall) -> None:
        """Repeat a call, and run the tool calls of its response."""
        self.calls += 1
        if step.answer is not None:
            self._clock.now = step.answer.at
        self._apply_options(step.call)
        start = len(self.session.journal.entries)
        try:
            answer = await call_model(self.session, self.session.used_tokens)
        except ProviderError:
            calls: Sequence[ToolCall] = ()
        else:
            calls = answer.message.calls
        self._remember_results(start)
        if step.answer is not None:
            self._match(step.answer, start)
        if calls and all(self._can_run(call) for call in calls):
            await self._run(calls)

    async def _run(self, calls: Sequence[ToolCall]) -> None:
        waiting: dict[tuple[str, str], deque[ToolResult]] = defaultdict(deque)
        for call in calls:
            key = (call.name, _encode(call.decode_arguments()))
            waiting[key].append(self._results[call.call_id])
        self.session.tools = {call.name: _RecordedTool(call.name, waiting) for call in calls}
        start = len(self.session.journal.entries)
        await run_calls(self.session, calls)
        self.tool_calls += len(calls)
        self._remember_results(start)

    def _can_run(self, call: ToolCall) -> bool:
        try:
            call.decode_arguments()
        except ValueError:
            return False
        return call.call_id in self._results

    def _apply_options(self, call: int) -> None:
        """Apply the session options of a recorded request."""
        request = self._turns[call].request
        if request is None or request.head is None:
            return
        self.session.request_options = request.head.get("options", {})
        self.session.reasoning = msgspec.convert(request.head.get("reasoning", {}), ReasoningPolicy)

    def _remember_results(self, start: int) -> None:
        for entry in self.session.journal.entries[start:]:
            if isinstance(entry.body, MessageAdded):
                self._answered |= {result.call_id for result in entry.body.message.results}

    def _match(self, recorded: Entry, start: int = 0) -> None:
        """Find the entry that corresponds to a recorded one, and compare the two."""
        assert isinstance(recorded.body, MessageAdded)  # noqa: S101 - answers and results are
        wanted = recorded.body.message
        for entry in reversed(self.session.journal.entries[start:]):
            if isinstance(entry.body, MessageAdded) and _corresponds(entry.body.message, wanted):
                self._ids[recorded.id] = entry.id
                self._compare(recorded, entry.body.message)
                return
        if self.difference is None:
            self.difference = Difference(
                call=self.calls,
                where=f"entry #{recorded.id}",
                expected=f"a message of the {wanted.role}",
                found="nothing",
            )

    def _compare(self, recorded: Entry, found: Message) -> None:
        assert isinstance(recorded.body, MessageAdded)  # noqa: S101 - see `_match`
        difference = compare_messages([recorded.body.message], [found])
        if difference is not None and self.difference is None:
            where = difference.where.removeprefix("message 1 ")
            self.difference = replace(
                difference, call=self.calls, where=f"entry #{recorded.id} {where}", message=None
            )


class _Clock:
    """Returns the recorded time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _RecordedTool:
    """A tool that returns recorded results."""

    max_output_chars = sys.maxsize

    def __init__(self, name: str, results: Mapping[tuple[str, str], deque[ToolResult]]) -> None:
        self.spec = ToolSpec(name=name, description="", schema={})
        self._results = results

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """Return an access without side effects."""
        return Access(tool=self.spec.name, risk=Risk.INSPECT)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:  # noqa: ARG002
        """Return the next result for these arguments."""
        result = self._results[self.spec.name, _encode(arguments)].popleft()
        return ToolOutput(text=result.text, failed=result.failed, images=result.images)


def _encode(arguments: dict[str, Any]) -> str:
    return msgspec.json.encode(arguments).decode()


def _results(entries: Sequence[Entry]) -> dict[CallId, ToolResult]:
    """Return the results that are alone in their message, as a session writes them."""
    found: dict[CallId, ToolResult] = {}
    for entry in entries:
        if isinstance(entry.body, MessageAdded) and len(entry.body.message.parts) == 1:
            for result in entry.body.message.results:
                found.setdefault(result.call_id, result)
    return found


def _corresponds(found: Message, wanted: Message) -> bool:
    if found.role is not wanted.role:
        return False
    return {r.call_id for r in found.results} == {r.call_id for r in wanted.results}


def _renumber(body: Body, ids: Mapping[EntryId, EntryId]) -> Body:
    """Return a body with the entry ids of the replayed journal."""

    def renumber(entry_id: EntryId) -> EntryId:
        return ids.get(entry_id, entry_id)

    def renumber_all(changes: Sequence[Replacement]) -> tuple[Replacement, ...]:
        return tuple(replace(change, entry_id=renumber(change.entry_id)) for change in changes)

    match body:
        case Undone(target=target) | PinChanged(target=target):
            return replace(body, target=renumber(target))
        case ReasoningDropped(targets=targets):
            return replace(body, targets=tuple(map(renumber, targets)))
        case ResultsCleared(replaced=replaced):
            return replace(body, replaced=renumber_all(replaced))
        case Compacted(dropped=dropped, replaced=replaced):
            return replace(
                body, dropped=tuple(map(renumber, dropped)), replaced=renumber_all(replaced)
            )
        case Rewound(before=int(before)):
            return replace(body, before=renumber(before))
        case _:
            return body
