"""A session on a real model: streaming, usage, abort, compaction, resume."""

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from clew import AbortError, Session
from clew.core.context_state import Basis
from clew.core.entries import Compacted
from clew.core.events import Event, RunCompleted, TextDelta
from clew.providers.catalogue import SMOLLM2
from clew.providers.embedded.model_file import model_path
from clew.providers.embedded.provider import Embedded
from clew.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools
from tests.event_buses import bus_for
from tests.histories import problems

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None or not model_path().is_file(),
        reason="needs the extra 'embedded' and the model: clew models get",
    ),
]

SYSTEM = "You are a friendly guide. Answer in one short sentence."


@pytest.fixture
async def provider() -> AsyncIterator[Embedded]:
    made = Embedded()
    yield made
    await made.aclose()


@pytest.mark.req("PRV-1", "PRV-2", "CTX-2")
async def test_it_streams_counts_and_reads_its_cache(provider: Embedded) -> None:
    events: list[Event] = []
    async with Session(
        provider, model=SMOLLM2.name, system_message=SYSTEM, event_bus=bus_for(events.append)
    ) as session:
        with anyio.fail_after(60):
            answer = await session.run("Name a colour.")
            await session.run("Name another one.")

        deltas = [event.text for event in events if isinstance(event, TextDelta)]
        assert len(deltas) > 3
        assert "".join(deltas).startswith(answer)
        first, second = [e.result.last_call for e in events if isinstance(e, RunCompleted)]
        assert first is not None
        assert second is not None
        assert first.input_tokens > 10
        assert second.cache_read_tokens > 10
        state = session.get_context_state()
        assert state.basis is Basis.EXACT
        assert state.used_tokens == second.context_tokens
        assert state.max_tokens == 8_192


@pytest.mark.req("PRV-3")
async def test_an_abort_keeps_what_had_arrived_and_the_next_run_works(provider: Embedded) -> None:
    session: Session

    def stop(event: Event) -> None:
        if isinstance(event, TextDelta):
            session.abort()

    session = Session(provider, model=SMOLLM2.name, event_bus=bus_for(stop))
    with anyio.fail_after(60):
        with pytest.raises(AbortError):
            await session.run("Tell me a long story about a labyrinth.")
        interrupted = session.get_history()[-1]
        assert interrupted.interrupted
        assert interrupted.text
        again = Session(provider, model=SMOLLM2.name)
        assert await again.run("Name a colour.")


@pytest.mark.req("CMP-1", "CMP-10", "STO-3")
async def test_it_fills_compacts_undoes_and_resumes(provider: Embedded, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("the quick brown fox jumps\n" * 40, encoding="utf-8")
    store = SqliteStore(tmp_path / "s.db")
    session = Session(
        provider,
        model=SMOLLM2.name,
        system_message=SYSTEM,
        tools=builtin_tools(),
        store=store,
        cwd=tmp_path,
        max_context_tokens=1_500,
    )
    with anyio.fail_after(110):
        async with session:
            await session.run("The code word is MARIGOLD-7.")
            while session.get_context_state().used_percentage < 83.5:
                await session.run_tool("Bash", '{"command":"cat long.txt"}', said="!cat long.txt")
            full = session.get_history()
            await session.run("How are you?")

            (body,) = [e.body for e in session.journal.entries if isinstance(e.body, Compacted)]
            assert body.trigger == "auto"
            assert body.report.author == "rules"
            assert session.get_context_state().used_tokens < 1_500 * 0.95
            assert any("MARIGOLD-7" in message.text for message in session.get_history())
            await session.undo()
            assert session.get_history()[: len(full)] == full
            assert problems(session.get_history()) == []
            view, session_id = session.journal.view, session.session_id
        async with Session(
            provider,
            model=SMOLLM2.name,
            system_message=SYSTEM,
            tools=builtin_tools(),
            store=store,
            session_id=session_id,
            cwd=tmp_path,
            max_context_tokens=1_500,
        ) as again:
            assert again.journal.view == view
    await store.aclose()
