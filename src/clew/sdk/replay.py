"""Running a recorded session again, call by call, with no network and no tools of its own.

What decides is left out: compactions, edits and what people said are put into the journal as
they were recorded. What is done again is what a release might break: the request of every
call, the putting together of its answer, the running of its tool calls.
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
from clew.context.policy import ContextPolicy
from clew.context.reasoning import ReasoningPolicy
from clew.context.strategies.tiered import Tiered
from clew.core.access import Access, PermissionMode, Risk
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
    decode,
)
from clew.core.errors import ProviderError, StoreDamaged
from clew.core.ids import CallId, EntryId, SessionId
from clew.core.messages import Message, Role, ToolCall, ToolResult
from clew.core.models import ToolSpec
from clew.core.usage import Usage
from clew.importers.journal import build_journal
from clew.importers.reader import read_session
from clew.log.reader import is_log
from clew.log.replay_script import (
    AppendEntry,
    RepeatCall,
    ReplayScript,
    script_from_journal,
    script_from_log,
)
from clew.providers.protocol import Provider
from clew.providers.request_diff import Difference, compare_messages
from clew.providers.tokenizers import meter_for
from clew.session.call import call_model
from clew.session.gate import Gate
from clew.session.journal import Journal
from clew.session.loops import LoopGuard
from clew.session.state import SessionState
from clew.session.tool_calls import run_calls
from clew.stores.memory import MemoryStore
from clew.tools.protocol import ToolContext, ToolOutput


def read_replay_script(path: Path) -> ReplayScript:
    """Make a tape of a file: a session log, an exported journal, or another tool's recording.

    Raises:
        ConfigError: The file cannot be read, or is of no known kind.
    """
    if is_log(path):
        return script_from_log(path)
    entries = _journal(path)
    if entries:
        return script_from_journal(entries, session_id=path.stem)
    session = read_session(path)
    return script_from_journal(build_journal(session), session_id=session.id or path.stem)


class ReplayResult(Struct, frozen=True, kw_only=True):
    """What came of running a session again."""

    calls: int
    tool_calls: int
    """Those that were run again, with the results that were recorded."""
    usage: Usage
    """As it was recorded."""
    difference: Difference | None
    """The first place where an answer or a result in the history is not what it was."""
    history: tuple[Message, ...]


async def replay_session(tape: ReplayScript, provider: Provider) -> ReplayResult:
    """Run the session on `tape` again, its calls answered by `provider`.

    A call that `provider` refuses, or that failed when it was recorded, leaves in the history
    what it left then.
    """
    runner = await _Runner.start(tape, provider)
    for step in tape.steps:
        if isinstance(step, AppendEntry):
            await runner.keep(step.entry)
        else:
            await runner.ask(step)
    return ReplayResult(
        calls=runner.calls,
        tool_calls=runner.tool_calls,
        usage=runner.kit.journal.spending.usage,
        difference=runner.difference,
        history=tuple(item.message for item in runner.kit.journal.view.items),
    )


class _Runner:
    def __init__(self, tape: ReplayScript, kit: SessionState, clock: "_Clock") -> None:
        self.kit = kit
        self.calls = 0
        self.tool_calls = 0
        self.difference: Difference | None = None
        self._tape = tape
        self._turns = tape.recording.turns.calls
        self._clock = clock
        self._ids: dict[EntryId, EntryId] = {}
        self._results = _results(tape.entries)
        self._made: set[CallId] = set()
        """Calls whose results are in the journal already."""

    @classmethod
    async def start(cls, tape: ReplayScript, provider: Provider) -> "_Runner":
        clock = _Clock()
        cwd = Path.cwd()
        session_id = SessionId(tape.session_id) if tape.session_id else None
        journal = await Journal.open(MemoryStore(), cwd=cwd, session_id=session_id, clock=clock)
        kit = SessionState(
            journal=journal,
            provider=provider,
            tools={},
            gate=Gate(cwd=cwd, mode=PermissionMode.BYPASS),
            policy=ContextPolicy(),
            strategy=Tiered(),
            place=ToolContext(cwd=cwd),
            emit=lambda _event: None,
            loops=LoopGuard(watching=False),
            clock=clock,
        )
        return cls(tape, kit, clock)

    async def keep(self, entry: Entry) -> None:
        """Put a recorded entry into the journal, unless a call brought it already."""
        body = entry.body
        if isinstance(body, MessageAdded) and body.message.role is Role.TOOL:
            answered = {result.call_id for result in body.message.results}
            if answered and answered <= self._made:
                self._meet(entry)
                return
        self._clock.now = entry.at
        added = await self.kit.journal.append(_renumbered(body, self._ids))
        self._ids[entry.id] = added.id
        if isinstance(body, SetupChanged):
            self.kit.journal.measure_by(meter_for(body.model.name) or text_units)

    async def ask(self, step: RepeatCall) -> None:
        """Make a call again, and run the tool calls that it asks for."""
        self.calls += 1
        if step.answer is not None:
            self._clock.now = step.answer.at
        self._set_up(step.call)
        start = len(self.kit.journal.entries)
        try:
            answer = await call_model(self.kit, self.kit.state())
        except ProviderError:
            calls: Sequence[ToolCall] = ()
        else:
            calls = answer.message.calls
        self._note_results(start)
        if step.answer is not None:
            self._meet(step.answer, start)
        if calls and all(self._can_run(call) for call in calls):
            await self._run(calls)

    async def _run(self, calls: Sequence[ToolCall]) -> None:
        waiting: dict[tuple[str, str], deque[ToolResult]] = defaultdict(deque)
        for call in calls:
            key = (call.name, _plain(call.decoded()))
            waiting[key].append(self._results[call.call_id])
        self.kit.tools = {call.name: _Recorded(call.name, waiting) for call in calls}
        start = len(self.kit.journal.entries)
        await run_calls(self.kit, calls)
        self.tool_calls += len(calls)
        self._note_results(start)

    def _can_run(self, call: ToolCall) -> bool:
        try:
            call.decoded()
        except ValueError:
            return False
        return call.call_id in self._results

    def _set_up(self, call: int) -> None:
        """Take over what a recorded request says of the options of the session."""
        request = self._turns[call].request
        if request is None or request.head is None:
            return
        self.kit.request_options = request.head.get("options", {})
        self.kit.reasoning = msgspec.convert(request.head.get("reasoning", {}), ReasoningPolicy)

    def _note_results(self, start: int) -> None:
        for entry in self.kit.journal.entries[start:]:
            if isinstance(entry.body, MessageAdded):
                self._made |= {result.call_id for result in entry.body.message.results}

    def _meet(self, recorded: Entry, start: int = 0) -> None:
        """Find the entry that stands for a recorded one, and see whether it says the same."""
        assert isinstance(recorded.body, MessageAdded)  # noqa: S101 - answers and results are
        wanted = recorded.body.message
        for entry in reversed(self.kit.journal.entries[start:]):
            if isinstance(entry.body, MessageAdded) and _stands_for(entry.body.message, wanted):
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
        assert isinstance(recorded.body, MessageAdded)  # noqa: S101 - see `_meet`
        difference = compare_messages([recorded.body.message], [found])
        if difference is not None and self.difference is None:
            where = difference.where.removeprefix("message 1 ")
            self.difference = replace(
                difference, call=self.calls, where=f"entry #{recorded.id} {where}", message=None
            )


def _journal(path: Path) -> list[Entry]:
    """Read an exported journal; nothing when it is none, so that others may try."""
    try:
        lines = path.read_bytes().splitlines()
        return [decode(line) for line in lines if line.strip()]
    except (StoreDamaged, OSError):
        return []


class _Clock:
    """Says what time it was when the session was recorded."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _Recorded:
    """A tool that answers with recorded results."""

    max_output_chars = sys.maxsize

    def __init__(self, name: str, results: Mapping[tuple[str, str], deque[ToolResult]]) -> None:
        self.spec = ToolSpec(name=name, description="", schema={})
        self._results = results

    def access(self, arguments: dict[str, Any], place: ToolContext) -> Access:  # noqa: ARG002
        """Say that nothing is touched."""
        return Access(tool=self.spec.name, risk=Risk.INSPECT)

    async def run(self, arguments: dict[str, Any], place: ToolContext) -> ToolOutput:  # noqa: ARG002
        """Return the next result for these arguments."""
        result = self._results[self.spec.name, _plain(arguments)].popleft()
        return ToolOutput(text=result.text, failed=result.failed, images=result.images)


def _plain(arguments: dict[str, Any]) -> str:
    return msgspec.json.encode(arguments).decode()


def _results(entries: Sequence[Entry]) -> dict[CallId, ToolResult]:
    """Return the results that stand alone in their message, as a session writes them."""
    found: dict[CallId, ToolResult] = {}
    for entry in entries:
        if isinstance(entry.body, MessageAdded) and len(entry.body.message.parts) == 1:
            for result in entry.body.message.results:
                found.setdefault(result.call_id, result)
    return found


def _stands_for(found: Message, wanted: Message) -> bool:
    if found.role is not wanted.role:
        return False
    return {r.call_id for r in found.results} == {r.call_id for r in wanted.results}


def _renumbered(body: Body, ids: Mapping[EntryId, EntryId]) -> Body:
    """Return a body that names entries by the numbers that they have here."""

    def here(entry_id: EntryId) -> EntryId:
        return ids.get(entry_id, entry_id)

    def all_here(changes: Sequence[Replacement]) -> tuple[Replacement, ...]:
        return tuple(replace(change, entry_id=here(change.entry_id)) for change in changes)

    match body:
        case Undone(target=target) | PinChanged(target=target):
            return replace(body, target=here(target))
        case ReasoningDropped(targets=targets):
            return replace(body, targets=tuple(map(here, targets)))
        case ResultsCleared(replaced=replaced):
            return replace(body, replaced=all_here(replaced))
        case Compacted(dropped=dropped, replaced=replaced):
            return replace(body, dropped=tuple(map(here, dropped)), replaced=all_here(replaced))
        case Rewound(before=int(before)):
            return replace(body, before=here(before))
        case _:
            return body
