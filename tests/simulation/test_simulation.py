"""Simulated strategies on recorded sessions: what each call would send, and its cost."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.cleared_results import make_marker
from clew.context.estimate import message_units, text_units
from clew.context.items import Item
from clew.context.plan import Budget, Plan, Reduce, Wording
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.view import View
from clew.core.entries import Entry, MessageAdded
from clew.core.errors import ConfigError
from clew.core.ids import CallId, EntryId
from clew.core.messages import Message, Reasoning, Role, ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from clew.importers.reader import read_session
from clew.importers.recorded_session import RecordedSession, RecordedStep
from clew.simulation.chart import draw_chart
from clew.simulation.recall import find_names
from clew.simulation.scenario import (
    EAGER,
    NONE,
    SCENARIOS,
    KeepEverything,
    Scenario,
    SimulationPoint,
    SimulationRun,
    make_scenario,
    make_scenarios,
    sum_runs,
    sum_sessions,
)
from clew.simulation.simulator import simulate
from tests.histories import histories

pytestmark = pytest.mark.req("SIM-1")

RECORDINGS = Path(__file__).parents[3] / "shared" / "data" / "sessions"
LARGE = ModelFacts(name="m", window=1_000_000)
SMALL = ModelFacts(name="m", window=4_000)
SYSTEM = "Be exact."
READ, WRITE = 0.1, 1.25


def session(*messages: Message, every: float = 10.0, system: str = "") -> RecordedSession:
    """Messages at an interval of `every` seconds."""
    steps = [RecordedStep(message=m, at=1_000 + n * every) for n, m in enumerate(messages)]
    return RecordedSession(source="clew", system=system, steps=tuple(steps))


def one(
    recorded: RecordedSession, way: str, model: ModelFacts = LARGE, *, lookups: bool = True
) -> SimulationRun:
    (run,) = simulate(recorded, [make_scenario(way)], model, lookups=lookups)
    return run


def units(*messages: Message) -> int:
    return sum(map(message_units, messages))


def reads(n: int, name: str, text: str) -> tuple[Message, Message]:
    call = ToolCall(call_id=CallId(f"c{n}"), name="Read", arguments=f'{{"path":"{name}"}}')
    return assistant(call), tool_result(call, text)


def long_session(turns: int = 12, chars: int = 3_000) -> RecordedSession:
    messages: list[Message] = []
    for n in range(turns):
        ask = f"Please look at part {n}. " * 4
        messages += [user(ask), *reads(n, f"src/part_{n}.py", f"line_number_{n} " * (chars // 14))]
        messages.append(assistant(f"Part {n} is in order."))
    return session(*messages)


def test_the_prefix_of_the_last_request_is_read_from_the_cache() -> None:
    a, b, c, d = user("one two three"), assistant("four"), user("five six"), assistant("seven")

    run = one(session(a, b, c, d, system=SYSTEM), NONE)

    first = text_units(SYSTEM) + units(a)
    second = first + units(b, c)
    assert run == SimulationRun(
        strategy=NONE,
        calls=2,
        input_tokens=first + second,
        cached_tokens=first,
        uncached_tokens=first + units(b, c),
        cost=first * READ + (first + units(b, c)) * WRITE,
        peak_tokens=second,
        timeline=(SimulationPoint(call=1, tokens=first), SimulationPoint(call=2, tokens=second)),
    )


@pytest.mark.parametrize(("seconds", "cached"), [(150, True), (151, False), (0, True)])
def test_the_cache_expires_after_five_minutes(seconds: float, *, cached: bool) -> None:
    a, b, c, d = user("one"), assistant("two"), user("three"), assistant("four")

    run = one(session(a, b, c, d, every=seconds), NONE)

    assert run.cached_tokens == (units(a) if cached else 0)


def test_a_recording_without_times_has_a_warm_cache() -> None:
    a, b, c, d = user("one"), assistant("two"), user("three"), assistant("four")
    steps = tuple(RecordedStep(message=message) for message in (a, b, c, d))

    run = one(RecordedSession(source="pi", steps=steps), NONE)

    assert run.cached_tokens == units(a)


def test_clearing_a_result_invalidates_the_cache_after_it() -> None:
    ask, (call, result) = user("Look."), reads(1, "a.py", "some words " * 200)
    answer, more, end = assistant("Seen."), user("And?"), assistant("Done.")

    run = one(session(ask, call, result, answer, more, end), EAGER)

    item = Item.of(EntryId(4), result)
    marker = units(tool_result(call.calls[0], make_marker(item).text))
    requests = [units(ask), units(ask, call, result), units(ask, call, answer, more) + marker]
    assert [point.tokens for point in run.timeline] == requests
    assert run.cached_tokens == units(ask) + units(ask, call)
    assert (run.clearings, run.compactions, run.invalid_requests) == (1, 0, 0)


def test_reasoning_that_the_provider_drops_is_neither_sent_nor_cached() -> None:
    thought = assistant(Reasoning(text="let me think about this for a while"), "b")
    a, c, d = user("a"), user("c"), assistant("d")
    keeps, forgets = LARGE, ModelFacts(name="deepseek-chat", window=1_000_000)

    kept, forgotten = (one(session(a, thought, c, d), NONE, m) for m in (keeps, forgets))

    assert kept.timeline[1].tokens == units(a, thought, c)
    assert forgotten.timeline[1].tokens == units(a, assistant("b"), c)
    assert kept.cached_tokens == forgotten.cached_tokens == units(a)


def test_summaries_of_recorded_compactions_are_skipped() -> None:
    summary = RecordedStep(message=user("SUMMARY " * 50), is_summary=True, compacts=True)
    steps = [
        RecordedStep(message=m) for m in (user("a"), assistant("b"), user("c"), assistant("d"))
    ]
    plain = RecordedSession(source="codex", steps=tuple(steps))
    compacted = RecordedSession(source="codex", steps=(*steps[:2], summary, *steps[2:]))
    begun = RecordedSession(source="codex", steps=(summary, *steps[1:]))

    assert one(compacted, NONE) == one(plain, NONE)
    assert one(begun, NONE).input_tokens > one(plain, NONE).input_tokens
    assert one(begun, NONE).invalid_requests == 0


def test_a_strategy_keeps_the_context_small_where_doing_nothing_does_not() -> None:
    scenarios = make_scenarios(SCENARIOS)

    runs = {run.strategy: run for run in simulate(long_session(), scenarios, SMALL)}

    assert runs[NONE].oversized_requests > 0
    assert runs[NONE].compactions == runs[NONE].clearings == 0
    for name in ("full", "balanced", "lean", "summarize", "compact", "sliding_window"):
        assert runs[name].compactions + runs[name].clearings > 0
        assert runs[name].oversized_requests == 0
        assert runs[name].peak_tokens <= SMALL.window * 0.95
    assert all(run.invalid_requests == 0 for run in runs.values())


def test_the_timeline_marks_each_compaction() -> None:
    run = one(long_session(), "summarize", SMALL)

    assert len(run.timeline) == run.calls
    assert sum(point.compacted for point in run.timeline) == run.compactions > 0
    assert [point.call for point in run.timeline] == list(range(1, run.calls + 1))


def test_max_tokens_makes_a_strategy_compact_earlier() -> None:
    recorded = long_session()
    early = make_scenarios(["summarize"], max_tokens=2_000)
    late = make_scenarios(["summarize"])

    assert simulate(recorded, early, LARGE)[0].compactions > 0
    assert simulate(recorded, late, LARGE)[0].compactions == 0


def test_the_same_recording_gives_the_same_runs() -> None:
    scenarios = make_scenarios(SCENARIOS)

    assert simulate(long_session(), scenarios, SMALL) == simulate(long_session(), scenarios, SMALL)


def test_the_agent_looks_up_names_that_left_the_view() -> None:
    call, result = reads(1, "a.py", "noise " * 300 + "compute_total_price " + "noise " * 300)
    later, found = reads(2, "b.py", "nothing")
    use = ToolCall(call_id=CallId("c9"), name="Grep", arguments='{"q":"compute_total_price"}')
    recorded = session(
        *(user("Look."), call, result, assistant("Seen."), user("More."), later, found),
        *(assistant(use), tool_result(use, "3 hits"), assistant("Done.")),
    )

    plain, eager = one(recorded, NONE), one(recorded, EAGER)

    assert (plain.lookups, plain.calls) == (0, 5)
    assert (eager.lookups, eager.calls, eager.invalid_requests) == (1, 6, 0)
    assert one(recorded, EAGER, lookups=False).calls == 5
    assert eager.cost > one(recorded, EAGER, lookups=False).cost


def test_recall_is_the_share_of_needed_names_that_stayed() -> None:
    forgetful = make_scenario("sliding_window")
    messages: list[Message] = [user("Start with secret_handle_alpha in mind.")]
    for n in range(30):
        messages += [assistant(f"Answer {n}."), user(f"Question {n}?")]
    use = ToolCall(call_id=CallId("c1"), name="Grep", arguments='{"q":"secret_handle_alpha"}')
    messages += [assistant(use), tool_result(use, "none"), assistant("Done.")]

    (run,) = simulate(session(*messages), [forgetful], LARGE, lookups=False)

    assert run.compactions > 0
    assert (run.needed_names, run.found_names, run.recall) == (1, 0, 0.0)
    assert run.lost_names == ("secret_handle_alpha",)
    assert one(session(*messages), NONE).recall is None


class Careless(KeepEverything, frozen=True, kw_only=True):
    """Drops every answer that made a call, and leaves the results behind."""

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:
        return any(item.message.calls for item in view.items)

    def plan(self, view: View, budget: Budget) -> Plan:
        torn = tuple(item for item in view.items if item.message.calls)
        return Reduce(dropped=torn, wording=Wording.NOTICE)


def test_a_strategy_that_separates_calls_from_results_is_detected() -> None:
    ask, (_, result) = user("Look."), reads(1, "a.py", "x")
    wordy = assistant("word " * 500, ToolCall(call_id=CallId("c1"), name="Read"))
    careless = Scenario(name="careless", strategy=Careless())

    (run,) = simulate(session(ask, wordy, result, assistant("Done.")), [careless], LARGE)

    assert run.compactions == 1
    assert run.invalid_requests == 1


def recording(entries: Sequence[Entry], *, every: float = 100.0) -> RecordedSession:
    messages = [e.body.message for e in entries if isinstance(e.body, MessageAdded)]
    return session(*messages, every=every, system=SYSTEM)


@pytest.mark.slow("plays long random sessions")
@settings(deadline=None, max_examples=40)
@given(histories(max_turns=8), st.sampled_from(["m", "gpt-4o", "claude-opus-4-6"]))
def test_invalid_and_oversized_requests_are_counted(history: list[Entry], name: str) -> None:
    model = ModelFacts(name=name, window=4_000)
    recorded = recording(history)
    answers = sum(step.message.role is Role.ASSISTANT for step in recorded.steps)

    for run in simulate(recorded, make_scenarios(SCENARIOS), model):
        over = sum(point.tokens > 0.95 * model.window for point in run.timeline)
        assert run.invalid_requests == 0
        assert run.oversized_requests == over
        assert run.cached_tokens + run.uncached_tokens == run.input_tokens
        assert min(run.cached_tokens, run.uncached_tokens) >= 0
        assert run.calls == len(run.timeline) == answers + run.lookups


@settings(deadline=None, max_examples=20)
@given(histories(max_turns=6))
def test_doing_nothing_reads_all_but_the_new_messages_from_the_cache(history: list[Entry]) -> None:
    run = one(recording(history, every=1.0), NONE)

    assert run.lookups == run.clearings == run.compactions == 0
    assert run.uncached_tokens == run.peak_tokens


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recordings are not here")
def test_no_strategy_sends_an_invalid_request_on_real_recordings() -> None:
    files = sorted(RECORDINGS.rglob("*.jsonl.gz"), key=lambda path: path.stat().st_size)
    thresholds = Thresholds(compact=0.7)
    scenarios = [
        make_scenario(name, policy=ContextPolicy(thresholds=thresholds)) for name in SCENARIOS
    ]

    runs = [
        simulate(read_session(path), scenarios, ModelFacts(name="m", window=40_000))
        for path in files[:12]
    ]

    summed = sum_sessions(runs)
    assert all(run.invalid_requests == 0 for run in summed)
    assert all(run.calls > 50 for run in summed)
    assert sum(run.compactions for run in summed) > 0


def test_runs_of_one_strategy_add_up() -> None:
    a = SimulationRun(
        strategy="x", calls=1, input_tokens=5, cost=2.0, peak_tokens=9, needed_names=4
    )
    b = SimulationRun(strategy="x", calls=2, input_tokens=6, cost=1.0, peak_tokens=7, found_names=1)
    a, b = replace(a, lost_names=("one", "two")), replace(b, lost_names=("two", "three"))

    assert sum_runs([a, b]) == SimulationRun(
        strategy="x",
        calls=3,
        input_tokens=11,
        cost=3.0,
        peak_tokens=9,
        needed_names=4,
        found_names=1,
        lost_names=("one", "two", "three"),
    )
    assert sum_runs([a, b]).recall == 0.25
    with pytest.raises(ValueError, match="one strategy"):
        sum_runs([a, SimulationRun(strategy="y")])


def test_an_unknown_strategy_is_reported_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'nope'.*none, eager, full, balanced, lean"):
        make_scenario("nope")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see src/clew/context/view.py:12", {"view.py"}),
        ("commit 6d94724 and 1234567", {"6d94724"}),
        ("def tail_cut_position(x)", {"tail_cut_position"}),
        ("a short word", set()),
        ("/usr/local/bin", set()),
    ],
)
def test_names_are_files_hashes_and_long_words(text: str, names: set[str]) -> None:
    assert find_names(text) == names


def test_the_chart_draws_a_line_for_each_run_and_marks_what_left_the_view() -> None:
    runs = simulate(long_session(), make_scenarios([NONE, "summarize", EAGER]), SMALL)

    drawn = ElementTree.fromstring(draw_chart(runs, title="a <b> & c", window=SMALL.window))

    space = "{http://www.w3.org/2000/svg}"
    words = [text.text for text in drawn.iter(f"{space}text")]
    assert len(list(drawn.iter(f"{space}polyline"))) == 3
    titles = [title.text or "" for title in drawn.iter(f"{space}title")]
    bars = [text for text in titles if text.startswith("eager: tool results cleared before call")]
    assert len(bars) == runs[2].clearings > 0
    assert "results cleared" in words
    assert len(list(drawn.iter(f"{space}circle"))) == runs[1].compactions + 1
    assert {"a <b> & c", "call", "tokens in the request", "none", "summarize"} <= set(words)
    assert "window: 4,000 tokens" in words
    background = drawn.find(f"{space}rect")
    assert background is not None
    assert background.get("fill") == "#ffffff"


def test_a_chart_without_runs_is_valid_svg() -> None:
    for runs in ([], [SimulationRun(strategy=NONE)]):
        assert ElementTree.fromstring(draw_chart(runs, title="", window=10)) is not None
