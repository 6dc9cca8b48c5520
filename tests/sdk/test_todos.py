"""The todo list: written by the model, seen by clients, kept through everything."""

import pytest

from clew.context.policy import ContextPolicy
from clew.core.todos import TodoItem, TodoStatus
from clew.providers.scripted import ScriptedReply, call_reply
from clew.stores.memory import MemoryStore
from tests.sdk.places import Heard, Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("TUI-3")]

WRITTEN = call_reply(
    (
        "TodoWrite",
        {
            "todos": [
                {"content": "Find the bug", "status": "completed", "activeForm": "Finding"},
                {"content": "Write a test", "status": "in_progress", "activeForm": "Writing"},
                {"content": "Ship it", "status": "pending", "activeForm": "Shipping"},
            ]
        },
    )
)
ITEMS = (
    TodoItem(content="Find the bug", status=TodoStatus.COMPLETED, active_form="Finding"),
    TodoItem(content="Write a test", status=TodoStatus.IN_PROGRESS, active_form="Writing"),
    TodoItem(content="Ship it", active_form="Shipping"),
)


async def test_the_list_survives_compaction_and_resuming(place: Place) -> None:
    store = MemoryStore()
    policy = ContextPolicy(preserve_recent_turns=1)
    replies: list[ScriptedReply] = [WRITTEN, "started", "yes " * 400, "# Notes\nThe bug is found."]
    async with place.session(replies, store=store, policy=policy) as session:
        await session.run("Fix the bug.")
        await session.run("Are you sure?")
        await session.session.compact(force=True)
        session_id = session.get_session_id()

        assert (await session.snapshot()).todos == ITEMS
        assert "Write a test" in session.get_messages()[0].text

    async with place.session(store=store, resume_session_id=session_id) as session:
        assert (await session.snapshot()).todos == ITEMS


async def test_a_rewind_and_its_undo_change_the_list_and_say_so(place: Place) -> None:
    heard = Heard()
    session = place.session([WRITTEN, "started"])
    session.on_any(heard)
    async with session:
        await session.run("Fix the bug.")
        prompt = next(item for item in session.get_full_history() if item.type == "user")

        await session.execute(f"/rewind conversation #{prompt.id}")
        await session.execute("/undo")
        await session.execute("/clear")

        assert [event.items for event in heard.of("todos")] == [ITEMS, (), ITEMS, ()]


async def test_a_list_with_wrong_arguments_is_refused(place: Place) -> None:
    wrong = call_reply(("TodoWrite", {"todos": [{"content": "x", "status": "soon"}]}))
    async with place.session([wrong, "sorry"]) as session:
        result = await session.run("go")

        assert [state.result for state in result.tool_summaries] == ["error"]
        assert (await session.snapshot()).todos == ()
