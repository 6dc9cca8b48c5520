"""`session.context`: the window as data, and changes to it, through an interactive session."""

from pathlib import Path

import anyio
import msgspec
import pytest

from clew.context.loss_report import build_clearing
from clew.core.context_state import Basis
from clew.core.entries import Replacement
from clew.core.errors import AlreadyRunning, ConfigError, NothingToUndo, SessionError
from clew.core.ids import EntryId
from clew.core.messages import Role
from clew.core.timeline import MarkKind, Standing
from clew.importers.journal import import_session
from clew.importers.reader import read_session
from clew.providers.scripted import Pause, ScriptedReply, call_reply, text_reply
from clew.sdk.client import PromptInput
from clew.sdk.client_json import METHODS
from clew.sdk.context_client import ContextClient, ContextTimeline
from clew.sdk.session import InteractiveSession
from clew.stores.memory import MemoryStore
from tests.importers.real_sessions import RECORDINGS
from tests.sdk.places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("INT-7")]
LONG = "straw " * 1_500


async def talk(session: InteractiveSession, turns: int) -> None:
    for _ in range(turns):
        await session.run(LONG)


async def test_changes_are_undone_newest_first(tmp_path: Path) -> None:
    async with Place(tmp_path).session(["noted"] * 24) as session:
        context = session.context
        await talk(session, 8)
        first = (await context.compact()).compaction
        await talk(session, 8)
        second = (await context.compact()).compaction
        assert first is not None
        assert second is not None

        detail = await context.compaction(first.entry_id)

        assert (detail.can_undo, detail.undo_first) == (False, (second.entry_id,))
        with pytest.raises(NothingToUndo, match=f"undo #{second.entry_id} before"):
            await context.undo(first.entry_id)
        with pytest.raises(NothingToUndo, match="not a change in force"):
            await context.undo(EntryId(2))
        assert (await context.undo(second.entry_id)).entry_id == second.entry_id
        assert (await context.compaction(first.entry_id)).can_undo
        places = {row.id: row for row in await context.entries(limit=1_000)}
        assert places[first.entry_id].standing is Standing.IN_VIEW
        assert places[second.entry_id].standing is Standing.UNDONE


async def test_during_a_run_a_compaction_waits_and_an_undo_is_refused(tmp_path: Path) -> None:
    pause = Pause()
    replies: list[ScriptedReply] = [*["noted"] * 8, [pause, *text_reply("last")], *["noted"] * 4]
    with anyio.fail_after(60):
        async with Place(tmp_path).session(replies) as session:
            await talk(session, 8)
            await session.submit(PromptInput(text="one more"))
            await pause.reached.wait()

            outcome = await session.context.compact()

            assert (outcome.deferred, outcome.compaction) == (True, None)
            assert (await session.context.timeline()).marks == ()
            with pytest.raises(AlreadyRunning):
                await session.context.undo()
            pause.release()
            await session.run("when it is done")
            (mark,) = (await session.context.timeline()).marks
            assert (mark.kind, mark.trigger) == (MarkKind.COMPACTION, "manual")


async def test_cleared_results_have_a_report_and_a_place(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("a.txt", LONG)
    replies: list[ScriptedReply] = [call_reply(("Read", {"file_path": "a.txt"})), "read"]
    async with place.session(replies) as session:
        await session.run("read it")
        view = session.session.journal.view
        (result,) = [item for item in view.items if item.message.role is Role.TOOL]
        marker = Replacement(entry_id=result.entry_id, text="[cleared]")
        body = build_clearing(view, (marker,), trigger="economy", why="old")

        entry = await session.session.journal.append(body)

        detail = await session.context.compaction(entry.id)
        assert (detail.kind, detail.trigger) == (MarkKind.RESULTS_CLEARED, "economy")
        assert detail.report.cleared == (result.entry_id,)
        assert len(detail.report.kept) == len(view.items) - 1
        assert (detail.summary, detail.can_undo) == ("", True)
        (row,) = [row for row in await session.context.entries() if row.id == result.entry_id]
        assert (row.standing, row.by, row.role) == (Standing.CLEARED, entry.id, "tool")
        assert 0 < row.tokens_in_view < row.tokens
        assert (await session.context.undo()).kind is MarkKind.RESULTS_CLEARED


async def test_a_message_is_pinned_once(tmp_path: Path) -> None:
    async with Place(tmp_path).session(["noted"]) as session:
        await session.run("hello")
        entries = session.session.journal.entries
        (message, *_) = [row for row in await session.context.entries() if row.role]

        for _ in range(2):
            await session.context.pin(message.id)
        count = len(entries)
        for _ in range(2):
            await session.context.unpin(message.id)

        assert [row.kind for row in await session.context.entries()][-2:] == ["pin", "pin"]
        assert len(entries) == count + 1


async def test_a_preview_can_use_another_strategy(tmp_path: Path) -> None:
    async with Place(tmp_path).session(["noted"] * 12) as session:
        await talk(session, 12)

        own = await session.context.preview()
        other = await session.context.preview(strategy="compact")

        assert (own.strategy, other.strategy) == ("tiered", "compact")
        assert own.report.tokens_after < own.report.tokens_before
        with pytest.raises(ConfigError):
            await session.context.preview(strategy="nothing")


async def test_a_query_can_name_entries(tmp_path: Path) -> None:
    async with Place(tmp_path).session(["noted"]) as session:
        await session.run("the colour is marigold")

        answer = await session.context.recall("#2")

        assert (answer.hits, answer.total) == ((), 0)
        assert "marigold" in answer.text
        with pytest.raises(SessionError):
            await session.context.recall("?!")


async def test_a_simulation_can_be_cancelled(tmp_path: Path) -> None:
    async with Place(tmp_path).session(["noted"] * 4) as session:
        await talk(session, 4)

        with anyio.move_on_after(0) as scope:
            await session.context.simulate()

        assert scope.cancelled_caught
        simulation = await session.context.simulate(["none"])
        assert [len(one.calls) for one in simulation.strategies] == [4]


async def test_a_reopened_session_has_the_same_timeline(tmp_path: Path) -> None:
    place, store = Place(tmp_path), MemoryStore()
    async with place.session(["noted"] * 8, store=store) as session:
        await talk(session, 8)
        await session.context.compact()
        before = await session.context.timeline()
        session_id = session.get_session_id()

    async with place.session(store=store, session_id=session_id) as again:
        after = await again.context.timeline()

    assert (after.points, after.marks) == (before.points, before.marks)
    assert after.undoable == before.undoable


async def check_pages(context: ContextClient, whole: ContextTimeline) -> None:
    """Every tail of the timeline is the timeline after that entry."""
    ids = [point.entry_id for point in whole.points]
    ids = sorted([*ids, *(mark.entry_id for mark in whole.marks)])
    assert len(set(ids)) == len(ids)
    for after in (ids[0], ids[len(ids) // 2], ids[-1]):
        tail = await context.timeline(after=after)
        assert tail.points == tuple(point for point in whole.points if point.entry_id > after)
        assert tail.marks == tuple(mark for mark in whole.marks if mark.entry_id > after)
    page = await context.timeline(limit=7)
    assert (len(page.points) + len(page.marks), page.has_more) == (min(7, len(ids)), len(ids) > 7)


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recordings are not here")
@pytest.mark.parametrize("source", ["claude_code", "codex", "pi", "gemini_cli"])
async def test_a_recorded_session_shows_what_its_provider_counted(
    source: str, tmp_path: Path
) -> None:
    file = max((RECORDINGS / source).iterdir(), key=lambda path: path.stat().st_size)
    store = MemoryStore()
    session_id = await import_session(store, read_session(file))
    async with Place(tmp_path).session(store=store, session_id=session_id) as session:
        whole = await session.context.timeline(limit=10_000)
        rows = await session.context.entries(limit=10_000)

        for point in whole.points:
            parts = msgspec.structs.astuple(point.breakdown)
            assert sum(parts) == point.tokens
            assert min(parts) >= 0
            if point.usage is not None:
                assert (point.basis, point.tokens) == (Basis.EXACT, point.usage.context_tokens)
        view = session.session.journal.view
        shown = {row.id for row in rows if row.standing in (Standing.IN_VIEW, Standing.CLEARED)}
        assert shown == set(view.items.ids)
        assert [mark.entry_id for mark in whole.marks if mark.kind is MarkKind.COMPACTION] == [
            row.id for row in rows if row.kind == "compaction"
        ]
        await check_pages(session.context, whole)


def test_every_method_of_a_context_client_can_be_called_from_elsewhere() -> None:
    own = {name for name in vars(ContextClient) if not name.startswith("_")}

    assert {name for name in METHODS if name.startswith("context.")} == {
        f"context.{name}" for name in own
    }
