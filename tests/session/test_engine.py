"""The context engine in a session: ladders, custom strategies, previews, recall, other models."""

from pathlib import Path

import pytest

from clew import Compact, Session, Tiered, tool
from clew.context.plan import Strategy
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.strategies.sliding_window import SlidingWindow
from clew.context.strategies.tiered import Summarize
from clew.core.entries import Compacted, SetupChanged
from clew.core.errors import ConfigError, NothingToDrop, ProviderError, SessionError
from clew.core.events import (
    CompactionEnded,
    CompactionFailed,
    CompactionProgress,
    CompactionStarted,
    Event,
    Warned,
)
from clew.core.ids import EntryId
from clew.core.messages import Role, assistant, user
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.core.usage import Usage
from clew.extensions.project.context import find_compact_instructions
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply, text_reply
from clew.session.calibrations import CalibrationFile
from clew.stores.memory import MemoryStore
from tests.event_buses import bus_for
from tests.histories import problems

pytestmark = pytest.mark.anyio

LONG = "word " * 250
WRITER = ModelFacts(name="m", window=2_000)
PLAIN = ModelFacts(name="m", window=2_000, summarises=False)
MANUAL = ContextPolicy(thresholds=Thresholds(compact=False))


def scripted(*replies: ScriptedReply, facts: ModelFacts = PLAIN) -> ScriptedProvider:
    return ScriptedProvider(replies, facts=facts)


class ModelsByName(ScriptedProvider):
    """A provider that knows every model by its name."""

    def facts(self, model: str) -> ModelFacts:
        return ModelFacts(name=model, window=2_000)


def compactions(session: Session) -> list[Compacted]:
    return [e.body for e in session.journal.entries if isinstance(e.body, Compacted)]


@pytest.mark.req("CMP-8")
async def test_the_model_is_asked_again_and_then_rules_write() -> None:
    events: list[Event] = []
    provider = scripted(LONG, LONG, LONG, "", "brief notes", facts=WRITER)
    async with Session(
        provider, model="m", policy=MANUAL, event_bus=bus_for(events.append)
    ) as session:
        for number in range(3):
            await session.run(f"question {number}")

        done = await session.compact("keep names")

        assert done.report.author == "model"
        assert done.summary.startswith("brief notes")
        assert "Be brief." in provider.requests[-1].messages[0].text
        assert "keep names" in provider.requests[-1].messages[0].text
    warned = [event.text for event in events if isinstance(event, Warned)]
    assert warned == ["the summary by m was not used: it was empty"]
    assert [(try_.author, try_.outcome) for try_ in done.report.attempts] == [
        ("m", "it was empty"),
        ("m", "used"),
    ]


@pytest.mark.req("CMP-6", "CMP-8")
async def test_another_model_may_write_and_the_own_one_steps_in() -> None:
    down = ProviderError("down", provider="scripted")
    provider = ModelsByName([LONG, LONG, LONG, down, down, "notes by the own one"])
    async with Session(provider, model="m", policy=MANUAL, summary_model="small") as session:
        for number in range(3):
            await session.run(f"question {number}")

        done = await session.compact()

        assert [request.model for request in provider.requests[3:]] == ["small", "small", "m"]
        assert done.summary.startswith("notes by the own one")


@pytest.mark.req("STR-2")
@pytest.mark.parametrize(
    "strategy", [Summarize(summary_model="brief"), Tiered(summary_model="brief")]
)
async def test_the_summary_model_of_a_strategy_wins_over_the_sessions(strategy: Strategy) -> None:
    provider = ModelsByName([LONG, LONG, LONG, "notes"])
    async with Session(
        provider, model="m", policy=MANUAL, strategy=strategy, summary_model="small"
    ) as session:
        for number in range(3):
            await session.run(f"question {number}")

        done = await session.compact()

        assert provider.requests[-1].model == "brief"
        assert done.summary.startswith("notes")


@pytest.mark.req("CTX-2")
async def test_the_context_state_never_falls_below_the_usage_floor_of_the_policy() -> None:
    provider = scripted("fine", "fine", facts=ModelFacts(name="m", window=2_000))
    policy = ContextPolicy(usage_floor=1_500)
    async with Session(provider, model="m", policy=policy) as session:
        await session.run("hello")

        state = session.get_context_state()
        assert (state.used_tokens, state.status, state.basis) == (1_500, "warning", "estimated")
    with pytest.raises(ConfigError, match="usage_floor must not be negative"):
        ContextPolicy(usage_floor=-1)


@pytest.mark.req("CMP-8", "CMP-12")
async def test_a_history_larger_than_the_summarisers_window_is_read_in_chunks() -> None:
    small = ModelFacts(name="m", window=1_000)
    provider = scripted(*[LONG] * 3, *[f"notes {n}" for n in range(9)], facts=small)
    events: list[Event] = []
    async with Session(
        provider, model="m", policy=MANUAL, event_bus=bus_for(events.append)
    ) as session:
        for number in range(3):
            await session.run(f"question {number}")
        for _ in range(2):
            await session.inject_message(user(LONG))
            await session.inject_message(assistant(LONG))
        provider.requests.clear()

        done = await session.compact()

        assert len(provider.requests) > 1
        assert "Earlier notes:\n" in provider.requests[1].messages[0].text
        assert done.report.author == "model"
        assert all(len(r.messages[0].text) < 3_500 for r in provider.requests)
    progress = [event for event in events if isinstance(event, CompactionProgress)]
    assert progress[0].total == len(provider.requests)


@pytest.mark.req("STR-1")
async def test_a_sliding_window_in_a_session() -> None:
    provider = scripted(*["short answer"] * 9)
    async with Session(
        provider, model="m", strategy=SlidingWindow(max_turns=2), recall=False
    ) as session:
        for number in range(6):
            await session.run(f"question {number}")

    said = [m.text for m in provider.requests[-1].messages if m.role is Role.USER]
    assert said[0].startswith("[Context Summary]")
    assert said[1:] == ["question 4", "question 5"]


@pytest.mark.req("STR-2")
async def test_summarize_in_a_session() -> None:
    provider = scripted(*[LONG] * 4, "notes", *[LONG] * 3, facts=WRITER)
    async with Session(provider, model="m", strategy=Summarize(max_tokens=800)) as session:
        for number in range(5):
            await session.run(f"question {number}")

        assert compactions(session)[0].strategy == "summarize"
        assert session.get_history()[0].text.startswith("[Context Summary]\nnotes")


@pytest.mark.req("CMP-10")
async def test_a_preview_shows_what_would_happen_and_changes_nothing() -> None:
    async with Session(scripted(*[LONG] * 5), model="m", policy=MANUAL) as session:
        for number in range(4):
            await session.run(f"question {number}")
        before = session.journal.view

        preview = session.preview_compaction()

        assert session.journal.view == before
        done = await session.compact()
        assert preview.report == done.report
        assert preview.summary == done.summary


@pytest.mark.req("CMP-10")
async def test_a_summary_alone_is_not_compacted_again() -> None:
    async with Session(scripted(*[LONG] * 5), model="m", policy=MANUAL, recall=False) as session:
        for number in range(4):
            await session.run(f"question {number}")
        for _ in range(2):
            await session.compact()

        with pytest.raises(NothingToDrop, match="only the summary could be shortened"):
            await session.compact()
        with pytest.raises(NothingToDrop, match="only the summary could be shortened"):
            session.preview_compaction()


@pytest.mark.req("CMP-13")
async def test_a_switch_to_a_smaller_window_compacts_first_with_the_larger_model() -> None:
    large = ModelFacts(name="large", window=20_000)
    provider = scripted(*[LONG] * 8, "notes by the large one", facts=large)
    small = ScriptedProvider(["hello"], facts=ModelFacts(name="small", window=1_500))
    async with Session(provider, model="large") as session:
        for number in range(8):
            await session.run(f"question {number}")

        await session.set_model("small", provider=small)

        assert provider.requests[-1].messages[0].text.startswith("Write notes")
        assert session.get_context_state().max_tokens == 1_500
        assert session.get_context_state().used_tokens < 1_500 * 0.835
        assert await session.run("and now?") == "hello"
        assert small.requests[0].model == "small"
        assert problems(small.requests[0].messages) == []


async def test_a_switch_to_a_larger_window_compacts_nothing() -> None:
    provider = scripted("one")
    async with Session(provider, model="m") as session:
        await session.run("hi")
        await session.set_model("other", max_context_tokens=50_000)

        assert session.get_context_state().max_tokens == 50_000
        assert compactions(session) == []


@pytest.mark.req("CMP-10")
async def test_the_model_can_look_up_what_left_the_view() -> None:
    provider = scripted(
        *[LONG] * 4,
        call_reply(("Recall", {"query": "code word"})),
        call_reply(("Recall", {"entry": 2})),
        "MARIGOLD-7",
    )
    async with Session(provider, model="m", policy=MANUAL) as session:
        await session.run(LONG + "The code word is MARIGOLD-7.")
        for number in range(3):
            await session.run(f"question {number}")
        await session.compact()
        assert EntryId(2) not in [item.entry_id for item in session.journal.view.items]

        assert await session.run("What was the code word?") == "MARIGOLD-7"

        results = [m.results[0] for m in session.get_history() if m.results]
        assert "#2 user (" in results[0].text
        assert "The code word is MARIGOLD-7." in results[0].text
        assert results[1].text.startswith("#2 user (")
        assert results[1].text.endswith("more characters of #2: offset=1100]")
        assert not any(result.failed for result in results)


@pytest.mark.req("CMP-10")
async def test_the_model_finds_what_happened_in_the_current_turn() -> None:
    @tool(risk=Risk.INSPECT)
    def probe() -> str:
        """Probe."""
        return "the port is 8417"

    provider = scripted(
        call_reply(("probe", {})),
        call_reply(("Recall", {"query": "which port?"})),
        call_reply(("Recall", {"range": "2-4"}), ("Recall", {"query": "tool:Recall"})),
        call_reply(("Recall", {"query": "port since:soon"}), ("Recall", {"range": "9-2"})),
        "8417",
    )
    async with Session(provider, model="m", tools=[probe]) as session:
        await session.run("Which port do we use?")

        first, whole, own, when, backwards = (
            m.results[0].text
            for m in session.get_history()
            if m.results and m.results[0].name == "Recall"
        )

    assert first.startswith("#4 probe (")
    assert "the port is 8417" in first
    assert "#2 user" not in first
    assert "#2 user" in whole
    assert "#4 probe" in whole
    assert own.startswith("Nothing in this session matches")
    assert "'soon' is not a time" in when
    assert "is not a range" in backwards


@pytest.mark.req("CMP-10")
async def test_the_model_gets_the_latest_version_of_a_file_with_its_edits() -> None:
    @tool(name="Write", risk=Risk.INSPECT)
    def write(file_path: str, content: str) -> str:
        """Write."""
        return "ok"

    @tool(name="Edit", risk=Risk.INSPECT)
    def edit(file_path: str, old_string: str, new_string: str) -> str:
        """Edit."""
        return "ok"

    where = {"file_path": "src/app.py"}
    provider = scripted(
        call_reply(("Write", {**where, "content": "a = 1\nb = 2\n"})),
        call_reply(("Edit", {**where, "old_string": "b = 2", "new_string": "b = 3"})),
        call_reply(("Recall", {"latest_file": "app.py"}), ("Recall", {"latest_file": "no.py"})),
        call_reply(("Recall", {"entry": 6})),
        "done",
    )
    async with Session(provider, model="m", tools=[write, edit]) as session:
        await session.run("go")
        latest, missing, diff = (m.results[0].text for m in session.get_history()[5:] if m.results)

    assert latest == "src/app.py as of #4, with the edits of #6:\na = 1\nb = 3\n"
    assert "no call of this session names a file no.py" in missing
    assert "- b = 2\n+ b = 3" in diff


async def test_recall_answers_odd_questions_in_words() -> None:
    provider = scripted(
        call_reply(
            ("Recall", {}),
            ("Recall", {"entry": 99}),
            ("Recall", {"query": "unicorn"}),
            ("Recall", {"entry": 2, "offset": 3}),
            ("Recall", {"entry": 2, "offset": 300}),
        ),
        "done",
    )
    async with Session(provider, model="m") as session:
        await session.run("hello")

        texts = [m.results[0].text for m in session.get_history() if m.results]
        assert "give `query`" in texts[0]
        assert "no text under #99" in texts[1]
        assert "Nothing in this session matches 'unicorn'" in texts[2]
        assert texts[3].endswith("5 characters)\nlo")
        assert "300 is past the end" in texts[4]


@pytest.mark.req("CMP-10")
async def test_a_number_without_a_hash_is_an_entry_and_a_word() -> None:
    said = ["the port is 8080", "pages 10-20 of 2026-11", "rule 2 applies"]
    async with Session(scripted(*["ok"] * 3), model="m") as session:
        for text in said:
            await session.run(text)

        for query, place in {"8080": 0, "10-20": 1, "2026-11": 1, "4000-8080": 0}.items():
            answer = await session.recall(query)
            assert answer.found.hits[0].unit.text == said[place]
        both = await session.recall("2")
        assert both.text.startswith("#2 user")
        assert "the port is 8080" in both.text
        assert [hit.unit.text for hit in both.found.hits] == ["rule 2 applies"]
        assert 'Entries that contain "2":' in both.text
        for query in ("#2", "3"):
            assert (await session.recall(query)).found.hits == ()
        for query in ("#8080", "9090", "#10-20000", "30-90000"):
            with pytest.raises(SessionError, match=r"no text under|is not a range"):
                await session.recall(query)


async def test_recall_reads_a_long_entry_page_by_page_and_can_be_switched_off() -> None:
    provider = scripted(call_reply(("Recall", {"entry": 2})), "done", facts=WRITER)
    async with Session(
        provider, model="m", max_context_tokens=200_000, recall=True, policy=MANUAL
    ) as session:
        await session.run("x" * 30_000)
        text = session.get_history()[2].results[0].text
        assert "[18,400 more characters of #2: offset=11600]" in text
    bare = scripted("hi")
    async with Session(bare, model="m", recall=False) as session:
        await session.run("hello")
    assert bare.requests[0].tools == ()


@pytest.mark.req("CTX-4")
async def test_what_is_learned_of_a_model_is_used_by_the_next_session(tmp_path: Path) -> None:
    file = CalibrationFile(tmp_path / "calibration.json")
    facts = ModelFacts(name="claude-x", window=100_000)
    replies = [text_reply("ok", usage=Usage(input_tokens=n * 3_000)) for n in range(1, 9)]
    provider = ScriptedProvider(replies, facts=facts)
    async with Session(provider, model="claude-x", calibrations=file) as session:
        for _ in range(8):
            await session.run("word " * 1_000)
        rate = session.journal.view.calibration.rate
    async with Session(provider, model="claude-x", calibrations=file) as session:
        first = session.journal.entries[0].body
        assert isinstance(first, SetupChanged)
        assert first.calibration is not None
        assert session.journal.view.calibration.rate == pytest.approx(rate, rel=0.1)
        assert rate > 1.5


@pytest.mark.req("CMP-3")
async def test_lines_that_every_summary_must_carry_are_carried() -> None:
    async with Session(
        scripted(*[LONG] * 5),
        model="m",
        policy=MANUAL,
        extra_facts=lambda: ["Running in the background: make bench (job 3)"],
    ) as session:
        for number in range(4):
            await session.run(f"question {number}")

        done = await session.compact()

        assert done.summary.endswith("Running in the background: make bench (job 3)")


@pytest.mark.req("CMP-5")
async def test_a_compaction_that_cannot_help_is_announced_neither_begun_nor_paid_for() -> None:
    events: list[Event] = []
    provider = scripted(*["ok"] * 6, facts=WRITER)
    async with Session(provider, model="m", event_bus=bus_for(events.append)) as session:
        await session.run("word " * 1_480)
        await session.pin(2)
        for _ in range(4):
            await session.run("hi")

    assert len(provider.requests) == 5
    kinds = [type(event) for event in events]
    assert kinds.count(CompactionStarted) == kinds.count(CompactionFailed) == 0


async def test_what_was_cleared_does_not_come_back_in_a_summary() -> None:
    store = MemoryStore()
    async with Session(scripted(*[LONG] * 9), model="m", store=store, policy=MANUAL) as session:
        await session.run("SECRET question")
        for _ in range(3):
            await session.run("more")
        await session.compact()
        await session.clear_history()
        for number in range(4):
            await session.run(f"question {number}")

        done = await session.compact()

        assert "SECRET" not in done.summary
        assert done.report.kept[0] > 10


@pytest.mark.req("CMP-8", "CMP-11")
@pytest.mark.parametrize("strategy", [Tiered(), SlidingWindow(), Summarize(), Compact()])
async def test_a_large_pin_leaves_room_for_the_rest(strategy: Strategy) -> None:
    provider = scripted(*["word " * 120] * 30, facts=ModelFacts(name="m", window=3_000))
    async with Session(provider, model="m", strategy=strategy) as session:
        await session.run("pinned " * 1_100)
        await session.pin(2)
        for number in range(20):
            await session.run(f"question {number}")

        assert any(message.text.startswith("pinned") for message in session.get_history())


@pytest.mark.req("CMP-13", "CTX-8")
@pytest.mark.parametrize("strategy", [Tiered(), SlidingWindow(), Summarize(), Compact()])
async def test_a_huge_unanswered_result_does_not_stop_a_session(strategy: Strategy) -> None:
    @tool(risk=Risk.INSPECT)
    def chatter() -> str:
        """Talk."""
        return "some words to read " * 900

    down = ProviderError("down", provider="scripted")
    provider = scripted(
        call_reply(("chatter", {})), down, "fine", facts=ModelFacts(name="m", window=20_000)
    )
    async with Session(provider, model="m", tools=[chatter], strategy=strategy) as session:
        with pytest.raises(ProviderError):
            await session.run("go")
        await session.set_model("m", max_context_tokens=2_000)

        assert await session.run("and now?") == "fine"
        assert problems(provider.requests[-1].messages) == []


@pytest.mark.req("CMP-6")
async def test_what_a_project_wants_kept_reaches_the_summariser() -> None:
    notes = """# Project

## Compact Instructions
Keep every migration number.

### Also
And the API names.

## Style
Tabs.
"""
    provider = scripted(LONG, LONG, LONG, "notes", facts=WRITER)
    wishes = find_compact_instructions(notes)
    async with Session(provider, model="m", policy=MANUAL, compact_instructions=wishes) as session:
        for number in range(3):
            await session.run(f"question {number}")

        await session.compact("and the numbers")

        asked = provider.requests[-1].messages[0].text
        for expected in ("Keep every migration number.", "And the API names.", "and the numbers"):
            assert expected in asked
        assert "Tabs." not in asked
    assert find_compact_instructions("# Nothing of the sort") == ""


@pytest.mark.req("CTX-9")
async def test_a_session_inside_a_tool_has_a_context_of_its_own() -> None:
    inner = scripted(text_reply(LONG, usage=Usage(input_tokens=900)))
    seen: list[int] = []

    @tool(risk=Risk.INSPECT)
    async def delegate(task: str) -> str:
        """Hand a task to another agent."""
        async with Session(inner, model="m") as child:
            answer = await child.run(task)
            seen.append(child.get_context_state().used_tokens)
            return answer[:20]

    provider = scripted(
        call_reply(("delegate", {"task": "read everything"})),
        text_reply("done", usage=Usage(input_tokens=100)),
    )
    async with Session(provider, model="m", tools=[delegate]) as session:
        await session.run("go")

        assert seen == [900]
        assert session.get_context_state().used_tokens == 100


@pytest.mark.req("CMP-5")
async def test_a_compaction_can_be_refused_before_it_begins_and_is_told_afterwards() -> None:
    asked: list[str] = []
    events: list[Event] = []

    async def before(trigger: str) -> str | None:
        asked.append(trigger)
        return "the build is running" if len(asked) < 3 else None

    async with Session(
        scripted(*[LONG] * 12), model="m", before_compact=before, event_bus=bus_for(events.append)
    ) as session:
        while not asked:
            await session.run("more")
        assert compactions(session) == []
        with pytest.raises(NothingToDrop, match="the build is running"):
            await session.compact()

        done = await session.compact()

        assert asked == ["auto", "manual", "manual"]
        (ended,) = [event for event in events if isinstance(event, CompactionEnded)]
        assert ended.summary == done.summary
        assert ended.after.used_tokens < ended.before.used_tokens
    assert any("was refused" in event.text for event in events if isinstance(event, Warned))
