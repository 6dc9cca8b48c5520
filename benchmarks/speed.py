"""How fast the context engine decides: a turn, and a whole list, beside a peer in the same run."""

import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence

from benchmarks.conversations import conversation
from benchmarks.results import Section, judge, publish
from clew.context.clearing_plan import plan_clearing
from clew.context.compaction_plan import compact_by_rules
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.strategies.tiered import Tiered
from clew.context.view import View, fold
from clew.context.window_state import compute_state
from clew.core.entries import Body, Entry, MessageAdded, SetupChanged
from clew.core.ids import EntryId
from clew.core.messages import Message
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.dict_messages.fit import fit

REPEATS = 7


def main() -> None:
    """Measure, print and write the section."""
    publish(measure())


def measure() -> Section:
    """Time a turn and a cold pass at several lengths, beside a peer in the same run."""
    turns = {length: _turn_seconds(length) for length in (10, 1_000, 10_000)}
    base = turns[10]
    rows = [
        (f"a turn at {length:,} messages", _milliseconds(t), f"{t / base:.2f} of that at 10")
        for length, t in turns.items()
    ]
    said = conversation(10_000)
    peer = _peer(said)
    cold = _median(lambda: fit(said, max_tokens=100_000))
    window = _median(lambda: fit(said, max_tokens=100_000, strategy="sliding_window"))
    view = _view_of(said)
    warm = _median(lambda: compact_by_rules(view, _FIT_100K, Tiered(max_tokens=100_000)))
    for name, seconds in (
        ("cold pass to 100k, default strategy", cold),
        ("cold pass to 100k, sliding window", window),
        ("warm pass to 100k, default strategy", warm),
        ("adding up characters ÷ 4", _median(lambda: sum(len(m.text) // 4 for m in said))),
    ):
        rows.append(
            (name, _milliseconds(seconds), f"{seconds / peer:.2f} of trim" if peer else "–")
        )
    if peer:
        rows.append(("langchain-core trim_messages", _milliseconds(peer), "1"))
    return Section(
        title="Speed of the context engine",
        command="python -m benchmarks speed",
        columns=("what", "median ms", "ratio"),
        rows=rows,
        notes=[
            f"10,000 messages, about a million tokens; {REPEATS} repeats; a turn is adding a call "
            "and its result, reading the state and deciding what to do",
            _verdict("a turn at 10,000 at most 1.5× that at 10", turns[10_000] / base, 1.5),
            _verdict("a cold pass no longer than trim_messages", cold / peer if peer else 0, 1.0),
            _verdict("a warm pass a tenth of it", warm / peer if peer else 0, 0.1),
        ],
    )


_FIT_100K = ContextPolicy(thresholds=Thresholds(compact=0.5))


def _turn_seconds(length: int) -> float:
    view = _view_of(conversation(length))
    policy, strategy = ContextPolicy(), Tiered()
    extra = conversation(400)[1:]
    started = time.perf_counter()
    for number, message in enumerate(extra, start=length + 2):
        usage = Usage(input_tokens=length * 100) if message.calls else None
        body = MessageAdded(message=message, usage=usage)
        view = view.apply(Entry(id=EntryId(number), at=1.0, body=body))
        state = compute_state(view, policy.thresholds, window=10_000_000)
        plan_clearing(view, policy, strategy, now=1.0)
        strategy.due(view, used=state.used_tokens, threshold=9_000_000)
    return (time.perf_counter() - started) / len(extra)


def _view_of(messages: Sequence[Message]) -> View:
    setup = SetupChanged(model=ModelFacts(name="m", window=10_000_000))
    bodies: list[Body] = [setup, *(MessageAdded(message=message) for message in messages)]
    return fold(Entry(id=EntryId(n), at=1.0, body=b) for n, b in enumerate(bodies, start=1))


def _peer(messages: Sequence[Message]) -> float | None:
    if importlib.util.find_spec("langchain_core") is None:
        return None
    from benchmarks.peers import trim_with_langchain  # noqa: PLC0415 - the peer may be absent

    return _median(trim_with_langchain(messages, max_tokens=100_000))


def _median(work: Callable[[], object]) -> float:
    times = []
    work()
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1_000:.3f}" if seconds < 0.001 else f"{seconds * 1_000:.1f}"


def _verdict(target: str, measured: float, limit: float) -> str:
    return f"target: {target}: {measured:.2f}, {judge(measured <= limit)}"


if __name__ == "__main__":
    main()
