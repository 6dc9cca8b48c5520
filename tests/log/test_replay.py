"""Replaying a log gives the history of the session at every line."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew import Session, tool
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.render import render
from clew.core.entries import UnknownBody
from clew.core.errors import AbortError, ClewError, ContextOverflow, ProviderBusy, SignatureRejected
from clew.core.messages import Image, Message, Role, Text, user
from clew.core.models import ModelFacts
from clew.core.permissions import PermissionMode, Risk
from clew.core.usage import Usage
from clew.log.events import LogLevel
from clew.log.replay_state import replay_log
from clew.log.validation import validate_log
from clew.log.writer import SessionLog
from clew.providers.protocol import ReasoningChunk, TextChunk
from clew.providers.replay import ReplayProvider
from clew.providers.scripted import (
    Pause,
    ScriptedProvider,
    ScriptedReply,
    ScriptedStep,
    call_reply,
    text_reply,
)
from clew.sdk.replay import replay_session
from clew.sdk.replay_script import script_from_journal, script_from_log
from clew.stores.memory import MemoryStore

FACTS = ModelFacts(name="m", window=4_000, max_output=400)
POLICY = ContextPolicy(thresholds=Thresholds(compact=0.6), compress_tool_results=300)
USAGE = Usage(input_tokens=900, output_tokens=40)
LONG = "a long answer with many words in it. " * 20


@tool(risk=Risk.INSPECT)
def read(size: int) -> str:
    """Return that many lines."""
    return "line of a file\n" * size


class Bench:
    """A session under test, opened again at will, and its log."""

    def __init__(self, folder: Path, level: LogLevel, limit: int) -> None:
        self.replies: deque[ScriptedReply] = deque()
        self.provider = ScriptedProvider(self._replies(), FACTS, name="anthropic")
        self.store = MemoryStore()
        self.folder, self.level, self.limit = folder, level, limit
        self.session: Session | None = None
        self.points: list[tuple[int, list[Message], tuple[Message, ...]]] = []

    def _replies(self) -> Iterator[ScriptedReply]:
        while True:
            yield self.replies.popleft() if self.replies else "notes of a summary"

    async def open(self) -> Session:
        log = SessionLog(self.folder, level=self.level, inline_limit=self.limit)
        self.session = Session(
            self.provider,
            model="m",
            tools=[read],
            store=self.store,
            session_id="one",
            policy=POLICY,
            system_message="Be exact.",
            session_log=log,
        )
        return await self.session.open()

    @property
    def path(self) -> Path:
        return self.folder / "one.jsonl"

    @property
    def live(self) -> Session:
        assert self.session is not None
        return self.session


async def answer(bench: Bench, words: str) -> None:
    usage = USAGE if len(words) % 2 else None
    thought = ReasoningChunk(index=0, text="hm", signature="c2lnbmVk")
    steps: list[ScriptedStep] = [thought] if len(words) % 3 == 0 else []
    bench.replies.append([*steps, *text_reply(words, usage=usage)])
    await bench.live.run("say it")


async def use_tools(bench: Bench, words: str) -> None:
    calls: list[tuple[str, dict[str, object]]] = [
        ("read", {"size": len(words)}),
        ("read", {"size": 3}),
        ("nope", {"x": words}),
    ]
    bench.replies += [call_reply(*calls, text=words, usage=USAGE), text_reply("done")]
    await bench.live.run(Message(role=Role.USER, parts=(Text("go"), Image(data=b"\x89PNG" * 9))))


async def break_off(bench: Bench, words: str) -> None:
    busy = ProviderBusy("later", provider="anthropic", retry_after=3.0)
    bench.replies.append([TextChunk(words), busy] if len(words) % 2 else busy)
    await bench.live.run(f"do {words}")


async def overflow(bench: Bench, words: str) -> None:
    bench.replies.append(ContextOverflow("too long", provider="anthropic", limit=3_500))
    await bench.live.run(f"do {words}")


async def refuse(bench: Bench, words: str) -> None:
    thought = ReasoningChunk(index=0, text="hm", signature="c2lnbmVk")
    refusal = SignatureRejected("bad signature", provider="anthropic", status=400)
    bench.replies += [[thought, *text_reply(words)], refusal, text_reply("again")]
    await bench.live.run("think")
    await bench.live.run("go on")


async def abort(bench: Bench, words: str) -> None:
    pause = Pause()
    bench.replies.append([TextChunk(words), pause])
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            await pause.reached.wait()
            bench.live.abort()

        tasks.start_soon(stop)
        with pytest.raises(AbortError):
            await bench.live.run("tell me more")


async def compact(bench: Bench, words: str) -> None:
    await bench.live.compact(words)


async def clear(bench: Bench, words: str) -> None:
    await bench.live.clear_history()


async def undo(bench: Bench, words: str) -> None:
    await bench.live.undo()


async def rewind(bench: Bench, words: str) -> None:
    entries = bench.live.journal.entries
    await bench.live.rewind(entries[len(words) % len(entries)].id, code=False)


async def pin(bench: Bench, words: str) -> None:
    await bench.live.pin(len(words) % 9)


async def inject(bench: Bench, words: str) -> None:
    await bench.live.inject_message(user(words * 30))


async def mode(bench: Bench, words: str) -> None:
    await bench.live.set_permission_mode(PermissionMode.ACCEPT_EDITS)


async def note(bench: Bench, words: str) -> None:
    await bench.live.add_history_entry("note", words, count=len(words))


async def by_hand(bench: Bench, words: str) -> None:
    await bench.live.run_tool("read", '{"size": 40}', said=words)


async def other_model(bench: Bench, words: str) -> None:
    await bench.live.set_model("m", max_context_tokens=3_000 + len(words))


async def from_the_future(bench: Bench, words: str) -> None:
    await bench.live.journal.append(UnknownBody(b'{"kind":"hologram","n":1}'))


async def open_again(bench: Bench, words: str) -> None:
    await bench.live.shutdown()
    await bench.open()


OPERATIONS: list[Callable[[Bench, str], Awaitable[None]]] = [
    answer,
    use_tools,
    use_tools,
    break_off,
    overflow,
    refuse,
    abort,
    compact,
    clear,
    undo,
    rewind,
    pin,
    inject,
    mode,
    note,
    by_hand,
    other_model,
    from_the_future,
    open_again,
]
words = st.sampled_from(
    ["a", "two words", "three whole words", LONG, "計算機科学は楽しい", "🙂 ok"]
)
steps = st.lists(st.tuples(st.sampled_from(OPERATIONS), words), min_size=1, max_size=14)


@pytest.mark.req("LOG-1", "LOG-4", "LOG-5")
@given(steps=steps, level=st.sampled_from(LogLevel), limit=st.sampled_from([200, 8_192]))
def test_replaying_the_log_gives_the_history_of_the_session_after_any_operations(
    steps: list[tuple[Callable[[Bench, str], Awaitable[None]], str]], level: LogLevel, limit: int
) -> None:
    with TemporaryDirectory() as folder:
        anyio.run(_check, Bench(Path(folder), level, limit), steps)


async def _check(
    bench: Bench, steps: list[tuple[Callable[[Bench, str], Awaitable[None]], str]]
) -> None:
    await bench.open()
    for operation, said in steps:
        try:
            await operation(bench, said)
        except ClewError:
            bench.replies.clear()
        history, request = bench.live.get_history(), render(bench.live.journal.view)
        if bench.path.exists():
            now = replay_log(bench.path)
            assert now.history == history
            assert now.request == request
            assert now.entries == bench.live.journal.entries
            assert [str(fault) for fault in validate_log(bench.path).faults] == []
            bench.points.append((lines(bench.path), history, request))
    await bench.live.shutdown()
    for seq, history, request in bench.points:
        then = replay_log(bench.path, until=seq)
        assert (then.history, then.request) == (history, request)
    if bench.points:
        await _runs_again(bench)


async def _runs_again(bench: Bench) -> None:
    history = bench.live.get_history()
    for script in (script_from_log(bench.path), script_from_journal(bench.live.journal.entries)):
        provider = ReplayProvider(script.recording.turns)
        done = await replay_session(script, provider)

        assert (provider.difference, done.difference) == (None, None)
        assert list(done.history) == history
        assert provider.calls_left == 0


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


@pytest.mark.req("LOG-4", "LOG-5")
def test_a_log_that_an_earlier_version_wrote_still_validates_and_replays() -> None:
    path = Path(__file__).parent / "data" / "format_1" / "s.jsonl"

    report = validate_log(path)
    replayed = replay_log(path)
    script = script_from_log(path)
    provider = ReplayProvider(script.recording.turns)
    result = anyio.run(replay_session, script, provider)

    assert report.faults == ()
    assert (report.lines, report.entries, report.calls, report.payloads) == (86, 18, 6, 13)
    assert replayed.history[-1].text == "the end"
    assert (provider.difference, result.difference) == (None, None)
    assert list(result.history) == replayed.history
    assert provider.calls_left == 0
