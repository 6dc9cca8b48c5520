"""Checks of `SessionClient.context`: the window as data, the same for every client."""

import anyio

from clew.core.context_state import ContextState
from clew.core.errors import ConfigError, NothingToDrop, NothingToUndo, SessionError
from clew.core.ids import EntryId
from clew.core.timeline import MarkKind, Standing
from clew.providers.scripted import ScriptedReply, call_reply
from clew.sdk.client import SessionClient, wait_for_run
from clew.testing.client_streams import SECONDS, ClientCheck, OpenClient, expect, prompt

_TURNS = 8
_LONG = "straw " * 1_500


async def shows_the_window_over_time(open_client: OpenClient) -> None:
    """Each answer is a point; a page of the timeline continues where the last one ended."""
    replies: list[ScriptedReply] = [call_reply(("Glob", {"pattern": "*"})), "one", "two"]
    with anyio.fail_after(SECONDS):
        async with open_client(replies) as client:
            empty = await client.context.timeline()
            assert (empty.points, empty.marks, empty.has_more) == ((), (), False)
            await _run(client, "first")
            first = await client.context.timeline()
            await _run(client, "second")

            whole = await client.context.timeline()

            assert len(whole.points) == 3
            assert whole.points[:2] == first.points
            later = await client.context.timeline(after=first.last_entry)
            assert later.points == whole.points[2:]
            page = await client.context.timeline(limit=1)
            assert (page.points, page.has_more) == (whole.points[:1], True)
            rest = await client.context.timeline(after=page.last_entry)
            assert rest.points == whole.points[1:]
            now = await client.context.state()
            assert whole.points[-1].tokens == now.used_tokens
            assert whole.points[-1].breakdown == now.breakdown
            assert now == (await client.snapshot()).context
            assert 0 < whole.thresholds.warn < whole.thresholds.block <= now.max_tokens


async def lists_the_journal(open_client: OpenClient) -> None:
    """Pages of any size together are the whole journal, and say where each entry stands."""
    with anyio.fail_after(SECONDS):
        async with open_client(["one", "two"]) as client:
            await _run(client, "first")
            await _run(client, "second")
            whole = await client.context.entries()

            assert whole[-1].id == (await client.snapshot()).last_entry
            for size in (1, 2, 7):
                position, pages = whole[0].id, whole[:1]
                while page := await client.context.entries(after=position, limit=size):
                    pages += page
                    position = page[-1].id
                assert pages == whole
            messages = [row for row in whole if row.kind == "message"]
            assert [(row.author, row.text) for row in messages] == [
                ("you", "first"),
                ("model", "one"),
                ("you", "second"),
                ("model", "two"),
            ]
            assert {row.standing for row in messages} == {Standing.IN_VIEW}
            assert all(row.tokens == row.tokens_in_view > 0 for row in messages)
            others = [row for row in whole if row.kind != "message"]
            assert {row.standing for row in others} == {Standing.RECORD}


async def compacts_and_undoes(open_client: OpenClient) -> None:
    """A preview changes nothing; a compaction is reported in full, and an undo reverts it."""
    with anyio.fail_after(SECONDS):
        async with open_client(["noted"] * _TURNS) as client:
            await _talk(client)
            before = await client.context.state()
            would = await client.context.preview()
            assert await client.context.state() == before

            done = (await client.context.compact(instructions="the needle")).compaction

            assert done is not None
            assert (done.kind, done.trigger, done.can_undo) == ("compaction", "manual", True)
            assert done.report.summarised == would.report.summarised
            assert done == await client.context.compaction(done.entry_id)
            timeline = await client.context.timeline()
            (mark,) = timeline.marks
            assert (mark.entry_id, mark.kind) == (done.entry_id, MarkKind.COMPACTION)
            assert timeline.undoable == (done.entry_id,)
            places = {row.id: row for row in await client.context.entries()}
            for gone in done.report.summarised:
                assert (places[gone].standing, places[gone].by) == ("summarised", done.entry_id)
            assert places[done.entry_id].standing is Standing.IN_VIEW
            assert (await client.context.state()).used_tokens < before.used_tokens
            await _undo(client, done.entry_id, before)


async def _undo(client: SessionClient, entry_id: EntryId, before: ContextState) -> None:
    await expect(NothingToUndo, client.context.undo(EntryId(1)))

    undone = await client.context.undo(entry_id)

    assert (undone.entry_id, undone.kind) == (entry_id, MarkKind.COMPACTION)
    assert undone.state == await client.context.state()
    assert undone.state.used_tokens == before.used_tokens
    mark = (await client.context.timeline()).marks[-1]
    assert (mark.kind, mark.target, mark.tokens_after) == ("undo", entry_id, before.used_tokens)
    detail = await client.context.compaction(entry_id)
    assert (detail.can_undo, detail.undone_by) == (False, mark.entry_id)
    assert {row.standing for row in await client.context.entries() if row.role} == {"in_view"}
    await expect(NothingToUndo, client.context.undo())
    await expect(SessionError, client.context.compaction(EntryId(1)))


async def keeps_pinned_messages(open_client: OpenClient) -> None:
    """A pinned message stays in the view; a search finds the others and says where they are."""
    with anyio.fail_after(SECONDS):
        async with open_client(["noted"] * _TURNS) as client:
            await expect(NothingToDrop, client.context.preview())
            await _talk(client)
            first, *_ = [row for row in await client.context.entries() if row.role == "user"]
            await client.context.pin(first.id)
            await expect(SessionError, client.context.pin(EntryId(9_999)))

            done = (await client.context.compact()).compaction

            assert done is not None
            assert first.id in done.report.kept
            assert [row.id for row in await client.context.entries() if row.pinned] == [first.id]
            found = await client.context.recall("needle", limit=3)
            hit = found.hits[0]
            assert (hit.standing, hit.by) == ("summarised", done.entry_id)
            assert "needle" in hit.excerpts[0]
            assert (await client.context.recall("absent")).missing == ("absent",)
            await client.context.unpin(first.id)
            assert not any(row.pinned for row in await client.context.entries())


async def simulates_strategies(open_client: OpenClient) -> None:
    """The session is simulated under each strategy, with a point for each of its calls."""
    with anyio.fail_after(SECONDS):
        async with open_client(["noted"] * _TURNS) as client:
            await _talk(client)

            simulation = await client.context.simulate(["none", "balanced"], window=8_000)

            none, balanced = simulation.strategies
            assert (simulation.window, none.strategy, balanced.strategy) == (
                8_000,
                "none",
                "balanced",
            )
            assert len(none.calls) == _TURNS
            assert none.relative_cost == 1.0
            assert balanced.compactions > none.compactions == 0
            assert balanced.peak_tokens < none.peak_tokens
            await expect(ConfigError, client.context.simulate(["nothing"]))


async def _talk(client: SessionClient) -> None:
    for turn in range(_TURNS):
        await _run(client, f"{_LONG} the needle of turn {turn}" if turn == 1 else _LONG)


async def _run(client: SessionClient, text: str) -> None:
    start = (await client.snapshot()).seq
    await wait_for_run(client, await client.submit(prompt(text)), after=start)


CONTEXT_CHECKS: tuple[ClientCheck, ...] = (
    shows_the_window_over_time,
    lists_the_journal,
    compacts_and_undoes,
    keeps_pinned_messages,
    simulates_strategies,
)
