"""Checks of `SessionClient.context`: the window as data, the same for every client."""

import anyio

from clew.core.timeline import Standing
from clew.providers.scripted import ScriptedReply, call_reply
from clew.sdk.client import SessionClient, wait_for_run
from clew.testing.client_streams import SECONDS, OpenClient, prompt


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


async def _run(client: SessionClient, text: str) -> None:
    start = (await client.snapshot()).seq
    await wait_for_run(client, await client.submit(prompt(text)), after=start)
