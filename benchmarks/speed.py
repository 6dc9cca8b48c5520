"""How fast the context engine decides: a turn, and a whole list, beside a peer in the same run."""

import gc
import importlib.util
import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from benchmarks.conversations import conversation
from benchmarks.recordings import session_files
from benchmarks.results import Section, judge, publish
from clew.context.clearing_plan import plan_clearing
from clew.context.compaction_plan import compact_by_rules
from clew.context.lazy_list import Memo
from clew.context.plan import Stuck
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.strategies.tiered import Tiered
from clew.context.view import View, fold
from clew.context.window_state import compute_state
from clew.core.entries import Body, Compacted, Entry, MessageAdded, SetupChanged
from clew.core.ids import EntryId
from clew.core.messages import Message
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.dict_messages.fit import fit
from clew.importers.reader import read_session

LENGTHS = (10_000, 100_000)
REPEATS, FEWER_REPEATS = 7, 3


def main() -> None:
    """Measure, print and write the section."""
    publish(measure())


def measure() -> Section:
    """Time a turn and whole passes at several lengths, beside a peer in the same run."""
    turns = {length: _turn_seconds(length) for length in (10, 1_000, *LENGTHS)}
    base = turns[10]
    rows = [
        (f"a turn at {length:,} messages", _milliseconds(t), f"{t / base:.2f} of that at 10")
        for length, t in turns.items()
    ]
    passes = {length: _Passes.measure(conversation(length)) for length in LENGTHS}
    for length, found in passes.items():
        rows += found.describe(length)
    shorter, longer = (passes[length] for length in LENGTHS)
    rows += _measure_recorded(LENGTHS[0])
    return Section(
        title="Speed of the context engine",
        command="python -m benchmarks speed",
        columns=("what", "median ms", "ratio"),
        rows=rows,
        notes=[
            "10,000 messages are about a million tokens; processor time; the median of "
            f"{REPEATS} runs of {LENGTHS[0]:,} messages, {FEWER_REPEATS} of {LENGTHS[1]:,}",
            "a turn is adding a call and its result, reading the state and deciding what to do",
            "cold: from a list of messages to a shorter one with a digest; first: the first "
            "compaction of an open view; warm: the next one, a call and its result later; again: "
            "one of the compacted view, 100 messages later",
            "recorded messages: those of recorded sessions, one after another; their texts are "
            "longer than the made-up ones, and the peer takes only the length of a text",
            "memory: what an open view holds for a message beside its text, before and after the "
            "first digest, in bytes",
            _verdict("a turn at 10,000 at most 1.5× that at 10", turns[10_000] / base, 1.5),
            _verdict("a turn at 100,000 at most 1.5× that at 10", turns[100_000] / base, 1.5),
            _verdict("a cold pass no longer than trim_messages", shorter.ratio(shorter.cold), 1.0),
            _verdict("a warm pass a tenth of it", shorter.ratio(shorter.warm), 0.1),
            _verdict("a cold pass over 100,000 no longer", longer.ratio(longer.cold), 1.0),
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passes:
    """Seconds of each kind of pass over one conversation, and what a view of it holds."""

    cold: float
    window: float
    first: float
    warm: float
    again: float
    adding_up: float
    peer: float | None
    bytes_per_message: tuple[float, float]

    @classmethod
    def measure(cls, said: Sequence[Message]) -> "_Passes":
        repeats = REPEATS if len(said) <= LENGTHS[0] else FEWER_REPEATS
        view, held = _measure_memory(said)
        later = _continue(_view_of(said))
        growing = _Growing(view)
        works: dict[str, Callable[[], object]] = {
            "cold": lambda: fit(said, max_tokens=100_000),
            "window": lambda: fit(said, max_tokens=100_000, strategy="sliding_window"),
            "first": lambda: _compact(replace(view, memo=Memo())),
            "warm": growing.compact,
            "again": lambda: _compact(later),
            "adding_up": lambda: sum(len(m.text) // 4 for m in said),
        }
        peer = _find_peer(said)
        if peer is not None:
            works["peer"] = peer
        seconds = _time_in_turn(works, repeats)
        return cls(
            **{name: seconds[name] for name in works if name != "peer"},
            peer=seconds.get("peer"),
            bytes_per_message=(held[0] / len(said), held[1] / len(said)),
        )

    def ratio(self, seconds: float) -> float | None:
        return seconds / self.peer if self.peer else None

    def describe(self, length: int) -> list[tuple[str, str, str]]:
        named = [
            ("cold pass to 100k, default strategy", self.cold),
            ("cold pass to 100k, sliding window", self.window),
            ("first compaction of an open view", self.first),
            ("warm: the next one, 2 messages later", self.warm),
            ("again, of the compacted view, 100 messages later", self.again),
            ("adding up characters ÷ 4", self.adding_up),
        ]
        named += [("langchain-core trim_messages", self.peer)] if self.peer else []
        rows = [
            (
                f"{length:,} messages: {name}",
                _milliseconds(seconds),
                "–" if (ratio := self.ratio(seconds)) is None else f"{ratio:.2f} of trim",
            )
            for name, seconds in named
        ]
        before, after = self.bytes_per_message
        held = f"{before:.0f} bytes, {after:.0f} after a digest"
        return [*rows, (f"{length:,} messages: memory per message", held, "–")]


def _measure_recorded(length: int) -> list[tuple[str, str, str]]:
    """Time a cold pass over messages of recordings; no row where they are absent."""
    recorded = [m for path in session_files() for m in read_session(str(path)).messages][:length]
    peer = _find_peer(recorded) if recorded else None
    if peer is None:
        return []
    works = {"cold": lambda: fit(recorded, max_tokens=100_000), "peer": peer}
    seconds = _time_in_turn(works, FEWER_REPEATS)
    ratio = f"{seconds['cold'] / seconds['peer']:.2f} of trim"
    what = f"{len(recorded):,} recorded messages: "
    return [
        (f"{what}cold pass to 100k, default strategy", _milliseconds(seconds["cold"]), ratio),
        (f"{what}langchain-core trim_messages", _milliseconds(seconds["peer"]), "1.00 of trim"),
    ]


class _Growing:
    """A view that is compacted after every two messages, and never shrinks."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._more = iter(conversation(1_000)[1:])

    def compact(self) -> object:
        for message in (next(self._more), next(self._more)):
            body = MessageAdded(message=message)
            entry_id = EntryId(len(self._view.items) + 10)
            self._view = self._view.apply(Entry(id=entry_id, at=1.0, body=body))
        return _compact(self._view)


def _compact(view: View) -> Compacted | Stuck:
    return compact_by_rules(view, _FIT_100K, Tiered(max_tokens=100_000), trigger="manual")


def _continue(view: View) -> View:
    """Return the view after a compaction and 100 more messages."""
    first = _compact(view)
    assert isinstance(first, Compacted)
    number = len(view.items) + 10
    view = view.apply(Entry(id=EntryId(number), at=1.0, body=first))
    for message in conversation(100):
        number += 1
        view = view.apply(Entry(id=EntryId(number), at=1.0, body=MessageAdded(message=message)))
    return view


def _measure_memory(messages: Sequence[Message]) -> tuple[View, tuple[int, int]]:
    """Return the view of some messages, and the bytes that it holds beside them.

    The second number is after a digest, which remembers what it read.
    """
    tracemalloc.start()
    view = _view_of(messages)
    before, _ = tracemalloc.get_traced_memory()
    _compact(view)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return view, (before, after)


_FIT_100K = ContextPolicy(thresholds=Thresholds(compact=0.5))


def _turn_seconds(length: int) -> float:
    view = _view_of(conversation(length))
    policy, strategy = ContextPolicy(), Tiered()
    extra = conversation(400)[1:]
    started = time.process_time()
    for number, message in enumerate(extra, start=length + 2):
        usage = Usage(input_tokens=length * 100) if message.calls else None
        body = MessageAdded(message=message, usage=usage)
        view = view.apply(Entry(id=EntryId(number), at=1.0, body=body))
        state = compute_state(view, policy.thresholds, window=10_000_000)
        plan_clearing(view, policy, strategy, now=1.0)
        strategy.due(view, used=state.used_tokens, threshold=9_000_000)
    return (time.process_time() - started) / len(extra)


def _view_of(messages: Sequence[Message]) -> View:
    setup = SetupChanged(model=ModelFacts(name="m", window=10_000_000))
    bodies: list[Body] = [setup, *(MessageAdded(message=message) for message in messages)]
    return fold(Entry(id=EntryId(n), at=1.0, body=b) for n, b in enumerate(bodies, start=1))


def _find_peer(messages: Sequence[Message]) -> Callable[[], object] | None:
    if importlib.util.find_spec("langchain_core") is None:
        return None
    from benchmarks.peers import trim_with_langchain  # noqa: PLC0415 - the peer may be absent

    return trim_with_langchain(messages, max_tokens=100_000)


def _time_in_turn(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median of each work; each round runs all, so that a busy machine slows all."""
    gc.collect()
    gc.freeze()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats + 1):
        for name, work in works.items():
            started = time.process_time()
            work()
            times[name].append(time.process_time() - started)
    gc.unfreeze()
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1_000:.3f}" if seconds < 0.001 else f"{seconds * 1_000:.1f}"


def _verdict(target: str, measured: float | None, limit: float) -> str:
    if measured is None:
        return f"target: {target}: not compared, langchain-core is not installed"
    return f"target: {target}: {measured:.2f}, {judge(measured <= limit)}"


if __name__ == "__main__":
    main()
