"""The contract of `SessionClient`, as checks that you can run on your own client.

@pytest.mark.anyio
@pytest.mark.parametrize("check", CLIENT_CHECKS)
async def test_my_client_keeps_the_contract(check, tmp_path):
    await check(open_my_client)

`open_my_client(replies)` is an async context manager: it opens a session whose model answers
with `replies` (see `clew.providers.scripted`) in an empty folder, and yields a client for it.
"""

from contextlib import suppress

import anyio

from clew.core.errors import (
    ClewError,
    ProviderRejected,
    QueueFull,
    RunError,
    SessionError,
)
from clew.core.events import (
    ModelRetry,
    PermissionRequest,
    QueueChanged,
    RunFailed,
    RunInterrupted,
    SessionUpdated,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from clew.core.ids import EntryId
from clew.core.permissions import Approval, PermissionMode
from clew.providers.protocol import RetryChunk, TextChunk
from clew.providers.scripted import Pause, ScriptedReply, call_reply, text_reply
from clew.sdk.client import (
    NewSession,
    SessionClient,
    run_line,
    wait_for_run,
)
from clew.testing.client_context import CONTEXT_CHECKS
from clew.testing.client_features import (
    attaches_files,
    completes_paths,
    leaves_the_screen_to_the_client,
    presents_a_plan,
    shows_the_todo_list,
)
from clew.testing.client_streams import (
    SECONDS,
    ClientCheck,
    EventLog,
    OpenClient,
    continues_after_any_event,
    expect,
    orders_events,
    prompt,
    refuses_numbers_it_does_not_know,
    serves_two_clients_alike,
    shows_a_late_client_what_is_happening,
    take_events,
)
from clew.testing.client_tasks import cancels_a_background_task, follows_background_tasks


async def runs_a_prompt(open_client: OpenClient) -> None:
    """A submitted prompt returns its id at once; its events report its progress."""
    with anyio.fail_after(SECONDS):
        async with open_client(["Hello there."]) as client:
            before = await client.snapshot()
            assert (before.executing, before.queue, before.history) == (False, None, ())

            run_id = await client.submit(prompt("hi"))
            result = await wait_for_run(client, run_id, after=before.seq)

            assert (result.response, result.run_id) == ("Hello there.", run_id)
            assert not result.interrupted
            after = await client.snapshot()
            assert not after.executing
            assert after.seq > before.seq
            assert [item.type for item in after.history if item.category == "chat"] == [
                "user",
                "assistant",
            ]


async def queues_one_prompt(open_client: OpenClient) -> None:
    """A second prompt waits, a third is refused, and every client sees the queue."""
    pause = Pause()
    with anyio.fail_after(SECONDS):
        async with open_client([[pause, *text_reply("first")], "second"]) as client:
            start = (await client.snapshot()).seq
            await client.submit(prompt("one"))
            await pause.reached.wait()
            second = await client.submit(prompt("two"))
            assert (await client.snapshot()).queue == "two"

            await expect(QueueFull, client.submit(prompt("three")))
            pause.release()

            assert (await wait_for_run(client, second, after=start)).response == "second"
            seen = await take_events(client, start, (await client.snapshot()).seq)
            waits = [one.event.prompt for one in seen if isinstance(one.event, QueueChanged)]
            assert waits == ["two", None]


async def cancels_the_prompt_that_waits(open_client: OpenClient) -> None:
    """A cancelled prompt is never sent, and its run ends as failed."""
    pause = Pause()
    with anyio.fail_after(SECONDS):
        async with open_client([[pause, *text_reply("first")], "never"]) as client:
            start = (await client.snapshot()).seq
            first = await client.submit(prompt("one"))
            await pause.reached.wait()
            second = await client.submit(prompt("two"))

            assert await client.cancel_queue()
            assert not await client.cancel_queue()
            pause.release()

            await expect(RunError, wait_for_run(client, second, after=start))
            assert (await wait_for_run(client, first, after=start)).response == "first"
            assert (await client.snapshot()).queue is None


async def aborts_a_run(open_client: OpenClient) -> None:
    """An abort is a result with the text that arrived; the next prompt works."""
    pause = Pause()
    with anyio.fail_after(SECONDS):
        async with open_client([[TextChunk("Half"), pause], "whole"]) as client:
            start = (await client.snapshot()).seq
            run_id = await client.submit(prompt("go"))
            await pause.reached.wait()

            client.abort()

            result = await wait_for_run(client, run_id, after=start)
            assert (result.interrupted, result.response) == (True, "Half")
            seen = await take_events(client, start, (await client.snapshot()).seq)
            assert [type(one.event) for one in seen].count(RunInterrupted) == 1
            again = await client.submit(prompt("again"))
            assert (await wait_for_run(client, again, after=start)).response == "whole"


async def reports_a_failure(open_client: OpenClient) -> None:
    """A failed run is an event with the error's name; the next prompt works."""
    failure = ProviderRejected("no such model", provider="scripted")
    with anyio.fail_after(SECONDS):
        async with open_client([failure, "better"]) as client:
            start = (await client.snapshot()).seq
            run_id = await client.submit(prompt("hi"))

            message = await expect(RunError, wait_for_run(client, run_id, after=start))

            assert message == "no such model"
            seen = await take_events(client, start, (await client.snapshot()).seq)
            (failed,) = [one.event for one in seen if isinstance(one.event, RunFailed)]
            assert (failed.error_type, failed.run_id) == ("ProviderRejected", run_id)
            again = await client.submit(prompt("again"))
            assert (await wait_for_run(client, again, after=start)).response == "better"


async def asks_for_permission(open_client: OpenClient) -> None:
    """A request reaches the client and is in the snapshot until its first answer."""
    replies: list[ScriptedReply] = [
        call_reply(("Bash", {"command": "echo yes | tee /dev/null"})),
        "done",
    ]
    with anyio.fail_after(SECONDS):
        async with open_client(replies) as client, anyio.create_task_group() as tasks:
            log = EventLog(client)
            tasks.start_soon(log.collect)
            start = (await client.snapshot()).seq
            run_id = await client.submit(prompt("run it"))
            request = (await log.until("permission_request")).event
            assert isinstance(request, PermissionRequest)
            assert (request.tool_name, request.target) == ("Bash", "echo yes | tee /dev/null")
            assert (await client.snapshot()).permission_requests == (request,)

            await client.answer(request.request_id, Approval.ONCE)

            result = await wait_for_run(client, run_id, after=start)
            assert [state.result for state in result.tool_summaries] == ["success"]
            assert (await client.snapshot()).permission_requests == ()
            await log.until("permission_resolved")
            await expect(SessionError, _answer(client, request.request_id))
            tasks.cancel_scope.cancel()


async def denies_unanswered_requests(open_client: OpenClient) -> None:
    """A client that only watches is not asked: without another one, a request is denied."""
    replies: list[ScriptedReply] = [
        call_reply(("Bash", {"command": "echo yes | tee /dev/null"})),
        "done",
    ]
    with anyio.fail_after(SECONDS):
        async with open_client(replies) as client:
            start = (await client.snapshot()).seq
            run_id = await client.submit(prompt("run it"))

            result = await wait_for_run(client, run_id, after=start)

            assert [state.result for state in result.tool_summaries] == ["denied"]


async def _answer(client: SessionClient, request_id: str) -> None:
    await client.answer(request_id, Approval.ONCE)


async def passes_a_reply_to_the_model(open_client: OpenClient) -> None:
    """A refusal can say what to do instead; the model reads it."""
    replies: list[ScriptedReply] = [call_reply(("Bash", {"command": "rm -rf build"})), "understood"]
    with anyio.fail_after(SECONDS):
        async with open_client(replies) as client, anyio.create_task_group() as tasks:
            log = EventLog(client)
            tasks.start_soon(log.collect)
            start = (await client.snapshot()).seq
            run_id = await client.submit(prompt("clean up"))
            request = (await log.until("permission_request")).event
            assert isinstance(request, PermissionRequest)

            await client.answer(request.request_id, Approval.NO, reply="use make clean")

            result = await wait_for_run(client, run_id, after=start)
            (state,) = result.tool_summaries
            assert state.result == "denied"
            assert "use make clean" in state.tool_result_data
            tasks.cancel_scope.cancel()


async def applies_the_effects_of_commands(open_client: OpenClient) -> None:
    """Name, model and language change inside the session, and every client sees it."""
    with anyio.fail_after(SECONDS):
        async with open_client([]) as client:
            start = (await client.snapshot()).seq
            for line in ("/rename the maze", "/model other", "/language de"):
                outcome, result = await run_line(client, line)
                assert (outcome.success, outcome.effect, result) == (True, None, None)

            now = await client.snapshot()
            assert (now.name, now.model, now.language) == ("the maze", "other", "de")
            seen = await take_events(client, start, now.seq)
            updates = [one.event for one in seen if isinstance(one.event, SessionUpdated)]
            assert updates[-1] == SessionUpdated(
                name="the maze", model="other", mode=now.mode, language="de"
            )


async def sets_what_it_is_told(open_client: OpenClient) -> None:
    """The setters do the same as the commands."""
    with anyio.fail_after(SECONDS):
        async with open_client([]) as client:
            await client.set_name("the maze")
            await client.set_model("other")
            await client.set_language("fr")
            await client.set_mode(PermissionMode.PLAN)

            now = await client.snapshot()

            assert (now.name, now.model, now.language) == ("the maze", "other", "fr")
            assert now.mode is PermissionMode.PLAN


async def leaves_sessions_to_the_client(open_client: OpenClient) -> None:
    """Opening another session is left to the client; the outcome says so."""
    with anyio.fail_after(SECONDS):
        async with open_client([]) as client:
            outcome = await client.execute("/reset")

            assert outcome.effect == NewSession()


async def names_unknown_commands(open_client: OpenClient) -> None:
    """A mistyped command is an error that suggests the right one."""
    with anyio.fail_after(SECONDS):
        async with open_client([]) as client:
            message = await expect(SessionError, client.execute("/contxt"))

            assert "/context" in message
            assert "context" in [command.name for command in await client.commands()]


async def runs_shell_commands(open_client: OpenClient) -> None:
    """A line with an exclamation mark runs in the shell, and joins the conversation."""
    with anyio.fail_after(SECONDS):
        async with open_client([]) as client:
            start = (await client.snapshot()).seq
            outcome = await client.execute("!echo thread")

            assert (outcome.kind, outcome.success) == ("shell", True)
            assert "thread" in outcome.message
            now = await client.snapshot()
            assert now.last_entry > 0
            seen = [one.event for one in await take_events(client, start, now.seq)]
            assert [one.by_user for one in seen if isinstance(one, ToolStarted)] == [True]


async def announces_retries(open_client: OpenClient) -> None:
    """A pause before a request is sent again is announced, with its length and the attempts."""
    pause = RetryChunk(reason="rate limited", delay=12.5, attempt=2, attempts=5)
    with anyio.fail_after(SECONDS):
        async with open_client([[pause, *text_reply("ok")]]) as client:
            start = (await client.snapshot()).seq
            result = await wait_for_run(client, await client.submit(prompt("go")), after=start)

            seen = await take_events(client, start, (await client.snapshot()).seq)
            assert result.response == "ok"
            assert [one.event for one in seen if isinstance(one.event, ModelRetry)] == [
                ModelRetry(reason="rate limited", delay=12.5, attempt=2, attempts=5)
            ]


async def reports_the_output_of_running_tools(open_client: OpenClient) -> None:
    """While a command runs, its newest line arrives; after an abort, its output is the result."""
    with anyio.fail_after(SECONDS):
        async with open_client([]) as client, anyio.create_task_group() as tasks:
            log = EventLog(client)
            tasks.start_soon(log.collect)
            tasks.start_soon(_run_until_aborted, client, "!echo step one; sleep 1000")
            await log.until("tool_progress")
            client.abort()
            await log.until("tool_end")

            seen = [one.event for one in log.envelopes]
            lines = [one.line for one in seen if isinstance(one, ToolProgress)]
            ended = [one.display for one in seen if isinstance(one, ToolEnded)]
            assert lines == ["step one"]
            assert len(ended) == 1
            assert "aborted" in ended[0]
            assert "step one" in ended[0]
            tasks.cancel_scope.cancel()


async def _run_until_aborted(client: SessionClient, line: str) -> None:
    with suppress(ClewError):
        await client.execute(line)


async def pages_through_the_history(open_client: OpenClient) -> None:
    """Pages of any size together are the whole history, without a gap or a repetition."""
    replies: list[ScriptedReply] = [call_reply(("Glob", {"pattern": "*"})), "a", "b", "c"]
    with anyio.fail_after(SECONDS):
        async with open_client(replies) as client:
            start = (await client.snapshot()).seq
            for text in ("one", "two", "three"):
                await wait_for_run(client, await client.submit(prompt(text)), after=start)
            whole = await client.history(after=EntryId(0), limit=1_000)

            for size in (1, 2, 3, 7):
                pages = []
                position = EntryId(0)
                while page := await client.history(after=position, limit=size):
                    pages += page
                    position = EntryId(int(page[-1].id.partition(".")[0]))
                assert pages == whole
            assert [item.type for item in whole if item.category == "chat"].count("user") == 3


__all__ = ["CLIENT_CHECKS", "ClientCheck", "OpenClient"]

CLIENT_CHECKS: tuple[ClientCheck, ...] = (
    runs_a_prompt,
    orders_events,
    continues_after_any_event,
    refuses_numbers_it_does_not_know,
    shows_a_late_client_what_is_happening,
    queues_one_prompt,
    cancels_the_prompt_that_waits,
    aborts_a_run,
    reports_a_failure,
    asks_for_permission,
    denies_unanswered_requests,
    passes_a_reply_to_the_model,
    applies_the_effects_of_commands,
    sets_what_it_is_told,
    leaves_sessions_to_the_client,
    names_unknown_commands,
    runs_shell_commands,
    announces_retries,
    reports_the_output_of_running_tools,
    pages_through_the_history,
    presents_a_plan,
    shows_the_todo_list,
    attaches_files,
    completes_paths,
    leaves_the_screen_to_the_client,
    serves_two_clients_alike,
    follows_background_tasks,
    cancels_a_background_task,
    *CONTEXT_CHECKS,
)
"""Every check; each takes a function that opens a client."""
