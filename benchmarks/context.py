"""The context engine on recorded sessions: what survives, what is valid, and how fast it is.

The recordings are read from `../shared/data`; what needs them is skipped where it is absent.
"""

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import msgspec

from benchmarks.conversations import conversation, facts_said, pairs_said
from benchmarks.results import Section, write
from clew.context.clearing_plan import plan_clearing
from clew.context.compaction_plan import compact_by_rules, make_budget
from clew.context.items import Item
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.passages import split_passages
from clew.context.plan import Stuck
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.render import find_problems
from clew.context.strategies import STRATEGIES, make_strategy
from clew.context.strategies.tiered import Tiered
from clew.context.view import View, fold
from clew.context.window_state import compute_state
from clew.core.entries import Body, Entry, MessageAdded, SetupChanged
from clew.core.errors import ContextFull
from clew.core.ids import EntryId
from clew.core.messages import Message
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.dict_messages.fit import fit
from clew.importers import claude_code
from clew.importers.reader import read_session

DATA = Path(__file__).parents[2] / "shared" / "data"
SIZES = (2, 4, 8, 16, 32)
CHARS_PER_TOKEN = 3
"""As in the measure's own baselines."""
TARGETS = {4: (0.85, 0.30), 16: (0.95, 0.65), 32: (0.97, 0.80)}
NEWEST = {4: (0.45, 0.24), 16: (0.70, 0.53), 32: (0.81, 0.67)}
REPEATS = 7


def main() -> None:
    """Measure what can be measured here, and write the sections."""
    for section in (*recall_sections(), *validity_sections(), *speed_sections()):
        write(section)
        rows = (" | ".join(row) for row in (section.columns, *section.rows))
        print(f"== {section.title}", *rows, *section.notes, "", sep="\n")


def recall_sections() -> Iterator[Section]:
    """Score the view after a compaction by rules at the recorded compaction points."""
    measure = _measure()
    if measure is None:
        print(f"recall: there are no recordings in {DATA}; nothing was measured")
        return
    points = [
        (boundary, _messages(boundary.pre))
        for _, boundary in measure.session_boundaries(DATA / "sessions" / "claude_code")
    ]
    rows = []
    for size in SIZES:
        views = [sized_view(said, size * 1_000 * CHARS_PER_TOKEN) for _, said in points]
        need = [measure.recall(b.need, v) for (b, _), v in zip(points, views, strict=True)]
        lines = [
            measure.recall(b.lines, v) for (b, _), v in zip(points, views, strict=True) if b.lines
        ]
        target = TARGETS.get(size)
        met = target and statistics.mean(need) >= target[0] and statistics.mean(lines) >= target[1]
        rows.append(
            (
                f"{size}k",
                f"{statistics.mean(need):.2f}",
                f"{statistics.mean(lines):.2f}",
                "{} / {}".format(*NEWEST[size]) if size in NEWEST else "–",
                ("{} / {}, ".format(*target) + ("met" if met else "**missed**")) if target else "–",
                str(sum(not view for view in views)),
            )
        )
    yield Section(
        title="Recall",
        command="python -m benchmarks.context",
        columns=("view", "identifiers", "whole lines", "newest text", "target", "no view fits"),
        rows=rows,
        notes=[
            f"{len(points)} recorded compaction points; means; both shares on the same view, "
            f"written with no model call (default strategy, digest by rules); sizes at "
            f"{CHARS_PER_TOKEN} characters a token",
            "the recorded agent's own summaries: 0.53 / 0.06 at a median of 11,300 characters",
            "where the current request alone is larger than the view, nothing fits: counted as 0",
            *_fact_notes(),
            "with `Recall` every entry can be found and read back word for word: 1.0",
        ],
    )


def sized_view(messages: Sequence[Message], chars: int) -> str:
    """Return the largest view of at most `chars` characters, or nothing when none fits."""
    best = ""
    low, high = 200, chars
    while low <= high:
        middle = (low + high) // 2
        try:
            text = _text(fit(messages, max_tokens=middle).messages)
        except ContextFull:
            low = middle + 1
            continue
        if len(text) > chars:
            high = middle - 1
        else:
            best = max(best, text, key=len)
            low = middle + 1
    return best


def _fact_notes() -> Iterator[str]:
    for name, said in (("BFCL memory", facts_said(DATA)), ("key-value pairs", pairs_said(DATA))):
        found = {
            size: [_found(messages, wanted, size) for messages, wanted in said] for size in (4, 16)
        }
        shares = ", ".join(f"{statistics.mean(v):.2f} at {k}k" for k, v in found.items() if v)
        if shares:
            yield f"{name}: share of answers that stand in the view: {shares}"


def _found(messages: Sequence[Message], wanted: Sequence[str], size: int) -> float:
    view = sized_view(messages, size * 1_000 * CHARS_PER_TOKEN).casefold()
    return statistics.mean(one.casefold() in view for one in wanted)


def validity_sections() -> Iterator[Section]:
    """Compact every recorded session before every call it made, under every strategy."""
    files = sorted((DATA / "sessions").rglob("*.jsonl.gz"))
    if not files:
        print("validity: no recordings; nothing was measured")
        return
    counts = {name: [0, 0, 0] for name in STRATEGIES}
    for path in files:
        for view in _views_before_calls(path):
            for name in STRATEGIES:
                tried, made, invalid = _compact_once(view, name)
                counts[name][0] += tried
                counts[name][1] += made
                counts[name][2] += invalid
    yield Section(
        title="Validity",
        command="python -m benchmarks.context",
        columns=("strategy", "points", "compactions", "invalid requests"),
        rows=[(name, *(f"{n:,}" for n in numbers)) for name, numbers in counts.items()],
        notes=[
            f"{len(files)} recorded sessions, before every call they made, in a window of 40,000",
            "checked before `render` could repair anything",
        ],
    )


def _views_before_calls(path: Path) -> Iterator[View]:
    session = read_session(path)
    setup = SetupChanged(model=ModelFacts(name=session.model, window=40_000), system="")
    view = View().apply(Entry(id=EntryId(1), at=0.0, body=setup))
    for number, step in enumerate(session.steps, start=2):
        if step.model and not step.is_summary:
            yield view
        body = MessageAdded(message=step.message)
        view = view.apply(Entry(id=EntryId(number), at=step.at, body=body))


def _compact_once(view: View, name: str) -> tuple[int, int, int]:
    strategy = make_strategy(name)
    plan = strategy.plan(view, make_budget(view, ContextPolicy(), strategy))
    if isinstance(plan, Stuck):
        return 1, 0, 0
    summary = WrittenSummary(text="What was said." if plan.dropped else "", author="rules")
    body = build_compaction(view, plan, summary, trigger="auto", strategy=name)
    shown = view.apply(Entry(id=EntryId(10**9), at=0.0, body=body))
    messages = [item.message for item in shown.items]
    wrong = [text for text in find_problems(messages) if "first message" not in text]
    return 1, 1, int(bool(wrong))


def speed_sections() -> Iterator[Section]:
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
    yield Section(
        title="Speed of the context engine",
        command="python -m benchmarks.context",
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
    outcome = "met" if measured <= limit else "**missed**"
    return f"target: {target}: {measured:.2f}, {outcome}"


def _messages(lines: Sequence[dict[str, object]]) -> list[Message]:
    return list(claude_code.parse([msgspec.json.encode(line) for line in lines]).messages)


def _text(messages: Sequence[Message]) -> str:
    items = [Item.of(EntryId(n), message) for n, message in enumerate(messages)]
    return "\n".join(passage.text for passage in split_passages(items))


def _measure() -> ModuleType | None:
    path = DATA / "recall_measure.py"
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("recall_measure", path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
