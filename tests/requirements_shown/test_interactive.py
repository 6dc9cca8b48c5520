"""Interactive sessions and queries: the events that a client hears, and what each one says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from clew import InteractiveSession, PermissionMode, Usage, create_query
from clew.core.errors import ProviderRejected, TurnLimitReached
from clew.core.events import Envelope
from clew.providers.protocol import TextChunk
from clew.providers.scripted import (
    Pause,
    ScriptedProvider,
    ScriptedReply,
    call_reply,
    text_reply,
)
from tests.sdk.places import Heard, Place

pytestmark = pytest.mark.anyio

LONG = "some words about the labyrinth " * 60


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def subscribe(session: InteractiveSession, *names: str) -> list[tuple[str, Any]]:
    """Collect the named events through `on`, in the order in which they come."""
    seen: list[tuple[str, Any]] = []

    def listener(name: str) -> Callable[[Any], None]:
        return lambda event: seen.append((name, event))

    for name in names:
        session.on(name, listener(name))
    return seen


def without_deltas(seen: list[tuple[str, Any]]) -> list[str]:
    return [name for name, _ in seen if name != "text_delta"]


@pytest.mark.req("INT-1")
async def test_a_run_with_a_tool_is_reported_step_by_step(place: Place) -> None:
    place.write("gate.txt", "seven cubits")
    usage = Usage(input_tokens=500, output_tokens=20)
    replies: list[ScriptedReply] = [
        call_reply(("Read", {"file_path": "gate.txt"}), text="Let me look. "),
        text_reply("It is seven.", usage=usage),
    ]
    session = place.session(replies)
    names = ("thinking", "text_delta", "tool_start", "tool_end", "context_update", "complete")
    seen = subscribe(session, *names, "error", "interrupted", "compaction")
    async with session:
        result = await session.run("How wide is the gate?")
        state = session.get_context_state()

    assert without_deltas(seen) == [
        *("thinking", "context_update", "context_update"),
        *("tool_start", "tool_end"),
        *("context_update", "context_update", "complete", "thinking"),
    ]
    events = {name: [event for kind, event in seen if kind == name] for name in names}
    assert "".join(event.text for event in events["text_delta"]) == "Let me look. It is seven."
    assert [event.active for event in events["thinking"]] == [True, False]
    (started,), (ended,) = events["tool_start"], events["tool_end"]
    assert (started.name, "gate.txt" in started.arguments) == ("Read", True)
    assert ended.call_id == started.call_id
    assert (ended.name, ended.failed, bool(ended.display)) == ("Read", False, True)
    assert events["context_update"][-1].state == state
    assert state.used_tokens == 520
    assert [event.result for event in events["complete"]] == [result]
    assert result.response == "It is seven."


@pytest.mark.req("INT-1")
async def test_a_failed_run_is_reported_once_and_not_as_complete(place: Place) -> None:
    failure = ProviderRejected("the key is wrong", provider="scripted")
    session = place.session([failure, "fine"])
    seen = subscribe(session, "error", "complete", "interrupted")
    async with session:
        with pytest.raises(ProviderRejected):
            await session.run("hi")
        assert [name for name, _ in seen] == ["error"]
        assert "the key is wrong" in seen[0][1].message
        await session.run("again")

    assert [name for name, _ in seen] == ["error", "complete"]


@pytest.mark.req("INT-1")
async def test_an_aborted_run_is_reported_with_the_words_that_had_arrived(place: Place) -> None:
    pause = Pause()
    session = place.session([[TextChunk("half an "), pause]])
    seen = subscribe(session, "interrupted", "complete", "error")
    async with session:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:

                async def abort() -> None:
                    await pause.reached.wait()
                    session.abort()

                tasks.start_soon(abort)
                result = await session.run("hi")

    assert [name for name, _ in seen] == ["interrupted"]
    assert seen[0][1].result == result
    assert result.response == "half an "


@pytest.mark.req("INT-1", "CMP-5")
async def test_a_compaction_is_reported_with_its_summary_and_both_states(place: Place) -> None:
    session = place.session([LONG] * 12, max_context_tokens=8_000)
    seen = subscribe(session, "compaction")
    async with session:
        for number in range(12):
            await session.run(f"question {number}")
        seen.clear()
        before = session.get_context_state()
        await session.session.compact()
        after = session.get_context_state()

    ((_, event),) = seen
    assert (event.trigger, event.before, event.after) == ("manual", before, after)
    assert event.summary
    assert after.used_tokens < before.used_tokens


def agent_replies() -> list[ScriptedReply]:
    large = Usage(input_tokens=20_000, output_tokens=10)
    small = Usage(input_tokens=700, output_tokens=10)
    return [
        call_reply(("Agent", {"prompt": "count the walls"}), usage=small),
        text_reply("There are nine.", usage=large),
        text_reply("Nine walls.", usage=Usage(input_tokens=800, output_tokens=10)),
    ]


@pytest.mark.req("INT-1")
async def test_the_start_and_the_end_of_a_subagent_are_reported(place: Place) -> None:
    session = place.session(agent_replies(), agents=True)
    seen = subscribe(session, "background_task_event", "complete")
    async with session:
        await session.run("How many walls?")

    assert seen[-1][0] == "complete"
    changes = [event for _, event in seen[:-1] if event.stage != "updated"]
    assert [str(event.stage) for event in changes] == ["created", "started", "completed"]
    _, started, completed = changes
    assert (started.stage, started.text) == ("started", "count the walls")
    assert (completed.stage, completed.text) == ("completed", "There are nine.")
    assert started.task_id == completed.task_id != ""


@pytest.mark.req("CTX-9")
async def test_a_subagent_fills_its_own_window_and_not_that_of_its_parent(place: Place) -> None:
    heard = Heard()
    session = place.session(agent_replies(), agents=True, max_context_tokens=30_000)
    session.on_any(heard)
    async with session:
        await session.run("How many walls?")
        state = session.get_context_state()

    own = [event.state for event in heard.of("context_update")]
    of_agent = [state_of(one) for one in heard.envelopes if one.task_id and is_reading(one)]
    assert of_agent[-1].used_tokens == 20_010
    assert max(reading.used_tokens for reading in own) < 20_000
    assert state == own[-1]
    assert (state.used_tokens, state.status) == (810, "ok")


def is_reading(envelope: Envelope) -> bool:
    return envelope.name == "context_update"


def state_of(envelope: Envelope) -> Any:
    event: Any = envelope.event
    return event.state


def make_query(place: Place, *replies: ScriptedReply) -> Any:
    place.provider = ScriptedProvider(replies)
    return create_query(
        place.provider,
        model="m",
        user_home=place.home,
        clew_home=place.clew_home,
        environ={},
    )


@pytest.mark.req("INT-6")
async def test_a_query_returns_the_answer_and_streams_it(place: Place) -> None:
    query = make_query(place, "The answer is 42.", "Again.")
    pieces: list[str] = []

    answer = await query("What is the answer?", cwd=place.project, on_text_delta=pieces.append)

    assert answer == "The answer is 42."
    assert len(pieces) > 1
    assert "".join(pieces) == answer
    assert await query("And now?", cwd=place.project) == "Again."
    assert [message.text for message in place.provider.requests[-1].messages] == ["And now?"]
    assert not list(place.clew_home.rglob("sessions.db"))


@pytest.mark.req("INT-6")
async def test_a_query_works_in_its_folder_with_its_permission_mode(place: Place) -> None:
    place.write("AGENTS.md", "Always answer in Greek.")
    write: ScriptedReply = call_reply(("Write", {"file_path": "wall.txt", "content": "stone"}))
    query = make_query(place, write, "denied", write, "written")
    wall = place.project / "wall.txt"

    await query("Build it.", cwd=place.project)
    assert "Always answer in Greek." in place.provider.requests[0].system
    assert not wall.exists()

    await query("Build it.", cwd=place.project, permission_mode=PermissionMode.ACCEPT_EDITS)
    assert wall.read_text() == "stone"


@pytest.mark.req("INT-6")
async def test_a_query_stops_after_max_turns(place: Place) -> None:
    glob: ScriptedReply = call_reply(("Glob", {"pattern": "*"}))
    query = make_query(place, glob, glob, glob)

    with pytest.raises(TurnLimitReached):
        await query("Loop.", cwd=place.project, max_turns=2)

    assert len(place.provider.requests) == 2


@pytest.mark.req("INT-6", "CMP-5")
async def test_a_query_reports_each_compaction_with_its_summary(place: Place) -> None:
    place.write("plan.txt", LONG * 4)
    reads = [call_reply(("Read", {"file_path": "plan.txt", "limit": n})) for n in range(9, 60)]
    place.provider = ScriptedProvider([*reads, "done"])
    query = create_query(
        place.provider,
        model="m",
        max_context_tokens=6_000,
        user_home=place.home,
        clew_home=place.clew_home,
        environ={},
    )
    summaries: list[str] = []

    await query("Read it.", cwd=place.project, on_compact=summaries.append)

    assert summaries
    assert all(summaries)
