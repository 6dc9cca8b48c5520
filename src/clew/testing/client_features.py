"""Checks of `SessionClient` for plans, todo lists, attachments and completion."""

import anyio

from clew.core.events import PermissionRequest, TodosChanged
from clew.core.permissions import Approval, PermissionMode
from clew.core.todos import TodoItem, TodoStatus
from clew.providers.scripted import ScriptedReply, call_reply
from clew.sdk.client import CopyText, SetTheme, ShowEntry, wait_for_run
from clew.testing.client_streams import SECONDS, EventLog, OpenClient, prompt, take_events


async def presents_a_plan(open_client: OpenClient) -> None:
    """A plan is a permission request; an approval with a reply changes the plan and the mode."""
    replies: list[ScriptedReply] = [call_reply(("ExitPlanMode", {"plan": "1. Look"})), "done"]
    with anyio.fail_after(SECONDS):
        async with open_client(replies) as client, anyio.create_task_group() as tasks:
            log = EventLog(client)
            tasks.start_soon(log.collect)
            await client.set_mode(PermissionMode.PLAN)
            start = (await client.snapshot()).seq
            run_id = await client.submit(prompt("plan it"))
            request = (await log.until("permission_request")).event
            assert isinstance(request, PermissionRequest)
            assert (request.tool_name, request.arguments) == ("ExitPlanMode", {"plan": "1. Look"})
            assert "acceptEdits" in request.session_scope

            await client.answer(request.request_id, Approval.SESSION, reply="1. Look twice")

            await wait_for_run(client, run_id, after=start)
            now = await client.snapshot()
            assert now.mode is PermissionMode.ACCEPT_EDITS
            (told,) = [item.message for item in now.history if item.type == "tool"]
            assert told is not None
            assert "1. Look twice" in told.results[0].text
            tasks.cancel_scope.cancel()


async def shows_the_todo_list(open_client: OpenClient) -> None:
    """The list that the model writes is an event and part of the snapshot."""
    todos = [{"content": "Test it", "status": "in_progress", "activeForm": "Testing it"}]
    replies: list[ScriptedReply] = [call_reply(("TodoWrite", {"todos": todos})), "done"]
    wanted = (TodoItem(content="Test it", status=TodoStatus.IN_PROGRESS, active_form="Testing it"),)
    with anyio.fail_after(SECONDS):
        async with open_client(replies) as client:
            start = (await client.snapshot()).seq
            await wait_for_run(client, await client.submit(prompt("go")), after=start)

            now = await client.snapshot()

            assert now.todos == wanted
            seen = await take_events(client, start, now.seq)
            assert [one.event for one in seen if isinstance(one.event, TodosChanged)] == [
                TodosChanged(wanted)
            ]


async def completes_paths(open_client: OpenClient) -> None:
    """What follows an `@` is completed by the letters of a path."""
    with anyio.fail_after(SECONDS):
        async with open_client([]) as client:
            await client.execute("!mkdir -p source/parts && touch source/parts/view.py 'a b.txt'")

            found = await client.complete_path("sopaview")
            quoted = await client.complete_path("a b", limit=1)

            assert [match.text for match in found] == ["source/parts/view.py"]
            assert [match.text for match in quoted] == ['"a b.txt"']
            assert (await client.complete_path("parts"))[0].is_folder


async def attaches_files(open_client: OpenClient) -> None:
    """A file that the prompt names with an `@` is read after it."""
    with anyio.fail_after(SECONDS):
        async with open_client(["seen"]) as client:
            await client.execute("!echo minotaur > maze.txt")
            before = await client.snapshot()

            run_id = await client.submit(prompt("what is in @maze.txt?"))
            await wait_for_run(client, run_id, after=before.seq)

            items = await client.history(after=before.last_entry, limit=20)
            chat = [item for item in items if item.message is not None]
            assert [item.type for item in chat] == ["user", "assistant", "tool", "assistant"]
            assert chat[2].message is not None
            assert "minotaur" in chat[2].message.results[0].text


async def leaves_the_screen_to_the_client(open_client: OpenClient) -> None:
    """What only a client can do is a typed effect: copy a text, show an entry, change colours."""
    with anyio.fail_after(SECONDS):
        async with open_client(["the answer"]) as client:
            before = await client.snapshot()
            await wait_for_run(client, await client.submit(prompt("ask")), after=before.seq)
            last = (await client.snapshot()).last_entry

            copied = await client.execute("/copy")
            shown = await client.execute(f"/show #{last}")
            painted = await client.execute("/theme light")

            assert copied.effect == CopyText("the answer")
            assert shown.effect == ShowEntry(last)
            assert "the answer" in shown.message
            assert painted.effect == SetTheme("light")
