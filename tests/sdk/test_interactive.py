"""An interactive session from the outside: prompts, events, the queue, aborts, history."""

import anyio
import pytest

from clew.core.errors import (
    AlreadyRunning,
    PromptCancelled,
    ProviderRejected,
    QueueFull,
    SessionClosed,
    SessionError,
    SessionNotFound,
)
from clew.core.events import PermissionDenied, PermissionRequest
from clew.core.messages import Role, user
from clew.core.permissions import Access, Approval, Decision, PermissionMode, Risk
from clew.core.results import ExecutionResult
from clew.core.usage import Usage
from clew.providers.protocol import TextChunk
from clew.providers.scripted import Pause, ScriptedProvider, ScriptedReply, call_reply, text_reply
from clew.sdk.permission_preview import preview_request
from clew.sdk.query import create_query
from clew.sdk.session import InteractiveSession
from clew.session.history import chat_entry_to_message, get_messages_for_api, is_chat_entry
from clew.session.session import Session
from clew.stores.memory import MemoryStore
from clew.tools.builtin import builtin_tools
from clew.tools.function import tool
from tests.sdk.places import Heard, Place

pytestmark = pytest.mark.anyio

USAGE = Usage(input_tokens=100, output_tokens=10)


async def test_the_answers_of_a_run_are_separate_in_its_streaming_text(place: Place) -> None:
    calls = [call_reply(("Nothing", {}), text=text) for text in ("Let me look.", "Again.\n")]
    async with place.session([*calls, call_reply(("Nothing", {})), "Found it."]) as session:
        await session.run("hi")

        assert session.get_streaming_text() == "Let me look.\n\nAgain.\nFound it."


@pytest.mark.req("INT-1", "SES-1")
async def test_a_message_is_added_between_runs_and_refused_during_one(place: Place) -> None:
    pause = Pause()
    session = place.session([[pause, *text_reply("Hello.")]])
    await session.inject_message("user", "My name is Ariadne.")
    await session.inject_message("assistant", "Noted.")
    async with session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "hello")
            await pause.reached.wait()
            with pytest.raises(AlreadyRunning):
                await session.inject_message("user", "psst")
            pause.release()
        await session.inject_message(user("Who am I?"))

        texts = [message.text for message in session.get_messages()]
        assert texts == ["My name is Ariadne.", "Noted.", "hello", "Hello.", "Who am I?"]


@pytest.mark.req("INT-1", "INT-4")
async def test_a_prompt_is_told_from_its_first_event_to_its_last(place: Place) -> None:
    heard = Heard()
    session = place.session([text_reply("Hello friend", usage=USAGE)])
    session.on_any(heard)
    async with session:
        result = await session.run("hi")

        assert heard.names[0] == "user_message"
        assert heard.names[1] == "thinking"
        assert heard.names[-2:] == ["complete", "thinking"]
        assert [event.active for event in heard.of("thinking")] == [True, False]
        assert "".join(event.text for event in heard.of("text_delta")) == "Hello friend"
        assert session.get_streaming_text() == "Hello friend"
        assert [event.result for event in heard.of("complete")] == [result]
        assert result.response == "Hello friend"
        assert result.context_state == session.get_context_state()
        assert result.context_state == heard.of("context_update")[-1].state
        assert result.usage is not None
        assert result.usage.kind == "exact"
        assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (100, 10)
        assert result.usage.context_used_tokens == 110
        assert result.usage.cost_status == "unknown"
        assert not session.is_executing()


@pytest.mark.req("INT-1")
async def test_a_listener_that_raises_breaks_neither_the_run_nor_the_others(place: Place) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError

    heard: list[str] = []
    session = place.session(["fine"])
    session.on("text_delta", broken)
    session.on("text_delta", lambda event: heard.append(event.text))
    session.on_any(broken)
    async with session:
        result = await session.run("hi")

    assert result.response == "fine"
    assert "".join(heard) == "fine"
    with pytest.raises(SessionError, match="there is no event 'text'"):
        session.on("text", heard.append)


@pytest.mark.req("INT-1")
async def test_two_clients_hear_the_same_events_in_the_same_order(place: Place) -> None:
    one, other = Heard(), Heard()
    session = place.session([call_reply(("Glob", {"pattern": "*"})), "done", "again"])
    session.on_any(one)
    session.on_any(other)
    async with session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "first")
            tasks.start_soon(session.run, "second")
        await session.execute_command("compact", "preview")

    assert one.envelopes == other.envelopes
    assert [event.text for event in one.of("user_message")] == ["first", "second"]
    assert [event.result.response for event in one.of("complete")] == ["done", "again"]


@pytest.mark.req("INT-1")
async def test_whoever_stops_listening_hears_no_more(place: Place) -> None:
    heard: list[str] = []
    session = place.session(["one", "two"])
    stop = session.on("text_delta", lambda event: heard.append(event.text))
    async with session:
        await session.run("hi")
        stop()
        stop()
        await session.run("hi")

    assert heard == ["one"]


@pytest.mark.req("INT-2")
async def test_one_prompt_waits_and_a_second_is_told_so(place: Place) -> None:
    pause, waits = Pause(), list[str | None]()
    session = place.session([[pause, *text_reply("first")], "second"])
    session.on("queue", lambda event: waits.append(event.prompt))
    results: list[str] = []

    async def submit(text: str) -> None:
        results.append((await session.run(text)).response)

    async with session, anyio.create_task_group() as tasks:
        tasks.start_soon(submit, "one")
        await pause.reached.wait()
        assert session.is_executing()
        assert session.get_pending_prompt() is None
        tasks.start_soon(submit, "two")
        await anyio.wait_all_tasks_blocked()
        assert session.get_pending_prompt() == "two"
        with pytest.raises(QueueFull, match="waiting already"):
            await session.run("three")
        pause.release()

    assert results == ["first", "second"]
    assert waits == ["two", None]


@pytest.mark.req("INT-2")
async def test_a_prompt_that_waits_can_be_taken_back(place: Place) -> None:
    pause, told = Pause(), list[str]()
    session = place.session([[pause, *text_reply("first")], "never"])

    async def second() -> None:
        try:
            await session.run("two")
        except PromptCancelled as error:
            told.append(str(error))

    async with session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.run, "one")
        await pause.reached.wait()
        tasks.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        assert await session.cancel_queue()
        assert not await session.cancel_queue()
        pause.release()

    assert told == ["the prompt was cancelled while it waited; it was not sent"]
    assert len(place.provider.requests) == 1


async def test_a_task_that_is_cancelled_in_the_queue_leaves_it(place: Place) -> None:
    pause = Pause()
    session = place.session([[pause, *text_reply("first")], "third"])
    async with session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.run, "one")
        await pause.reached.wait()
        with anyio.move_on_after(0.01):
            await session.run("two")
        assert session.get_pending_prompt() is None
        pause.release()
        assert (await session.run("three")).response == "third"


@pytest.mark.req("INT-2", "PRV-3")
async def test_an_abort_keeps_what_arrived_and_clears_the_queue(place: Place) -> None:
    pause, heard = Pause(), Heard()
    session = place.session([[TextChunk("Half"), pause], "whole"])
    session.on_any(heard)
    results: list[ExecutionResult] = []
    cancelled: list[str] = []

    async def first() -> None:
        results.append(await session.run("one"))

    async def second() -> None:
        try:
            await session.run("two")
        except PromptCancelled:
            cancelled.append("two")

    async with session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await pause.reached.wait()
            tasks.start_soon(second)
            await anyio.wait_all_tasks_blocked()
            session.abort()
        assert results[0].interrupted
        assert results[0].response == "Half"
        assert [event.result for event in heard.of("interrupted")] == results
        assert heard.of("complete") == []
        assert cancelled == ["two"]
        assert (await session.run("go on")).response == "whole"
    assert "Half" in str(place.provider.requests[1].messages)


@pytest.mark.req("INT-1", "SES-3")
async def test_a_failure_is_an_event_and_an_error_and_the_session_goes_on(place: Place) -> None:
    heard = Heard()
    failure = ProviderRejected("no such model", provider="scripted")
    session = place.session([failure, "better"])
    session.on_any(heard)
    async with session:
        with pytest.raises(ProviderRejected):
            await session.run("hi")
        (event,) = heard.of("error")
        assert (event.message, event.error_type) == (str(failure), "ProviderRejected")
        assert heard.names[-1] == "thinking"
        assert (await session.run("again")).response == "better"


@pytest.mark.req("INT-3")
async def test_tools_are_shown_with_first_argument_result_and_diff(place: Place) -> None:
    place.write("notes.txt", "one\ntwo\nthree\n")
    heard = Heard()
    session = place.session(
        [
            call_reply(("Read", {"file_path": "notes.txt"})),
            call_reply(
                (
                    "Edit",
                    {"file_path": "notes.txt", "old_string": "two", "new_string": "TWO"},
                )
            ),
            call_reply(("Bash", {"command": "rm notes.txt"})),
            call_reply(("Nonsense", {})),
            "done",
        ],
        permission_mode=PermissionMode.ACCEPT_EDITS,
    )
    session.on_any(heard)
    async with session:
        result = await session.run("edit it")
        history = session.get_full_history()

    assert [event.name for event in heard.of("tool_start")] == ["Read", "Edit", "Bash", "Nonsense"]
    assert [event.denied for event in heard.of("tool_end")] == [False, False, True, False]
    states = result.tool_summaries
    assert [(state.tool_name, state.first_arg) for state in states][:3] == [
        ("Read", "notes.txt"),
        ("Edit", "notes.txt"),
        ("Bash", "rm notes.txt"),
    ]
    assert [state.result for state in states] == ["success", "success", "denied", "error"]
    assert states[3].error_code == "unknown_tool"
    edit = states[1]
    assert edit.diff_file.endswith("notes.txt")
    assert [(line.type, line.text, line.line) for line in edit.diff_lines[1:]] == [
        ("context", "one", 1),
        ("remove", "two", 2),
        ("add", "TWO", 2),
        ("context", "three", 3),
    ]
    kinds = [entry.type for entry in history if not is_chat_entry(entry)]
    assert kinds == ["mode", *["tool-start", "tool-end"] * 4, "tool-summary"]
    kept = next(
        entry for entry in history if entry.type == "tool-end" and "diff_lines" in entry.data
    )
    assert kept.data["diff_lines"][2] == {"type": "remove", "text": "two", "line": 2}
    (summary,) = [entry for entry in history if entry.type == "tool-summary"]
    assert summary.data["summary"] == "4 tool calls, 2 failed or denied: Read, Edit, Bash, Nonsense"
    assert len(summary.data["tools"]) == 4


@pytest.mark.req("INT-3")
async def test_what_a_long_result_shows_is_bounded(place: Place) -> None:
    place.write("long.txt", "word\n" * 5_000)
    session = place.session(
        [call_reply(("Read", {"file_path": "long.txt", "note": "x" * 1_000})), "done"]
    )
    async with session:
        result = await session.run("read")

    (state,) = result.tool_summaries
    assert len(state.tool_result_data) < 4_200
    assert len(state.first_arg) <= 200


@pytest.mark.req("INT-2")
async def test_what_is_shown_and_what_hooks_see_may_differ_from_what_is_sent(place: Place) -> None:
    place.clew_home.mkdir(parents=True)
    (place.clew_home / "settings.json").write_text(
        '{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command":'
        f' "cat > {place.root}/seen.json"}}]}}]}}}}'
    )
    heard = Heard()
    session = place.session(["ok"])
    session.on_any(heard)
    async with session:
        await session.run("the long prompt", "/audit", "audit it")
        first = session.get_full_history()[0]

    assert [event.text for event in heard.of("user_message")] == ["/audit"]
    assert first.data["content"] == "/audit"
    assert chat_entry_to_message(first).text == "the long prompt"
    assert place.provider.requests[0].messages[-1].text == "the long prompt"
    assert '"prompt":"audit it"' in (place.root / "seen.json").read_text()


@pytest.mark.req("INT-3", "INT-4")
async def test_the_history_tells_what_each_turn_consumed(place: Place) -> None:
    session = place.session([text_reply("a", usage=USAGE), text_reply("b", usage=USAGE)])
    async with session:
        first = await session.run("one")
        await session.run("two")
        history = session.get_full_history()

    assert [entry.type for entry in history] == [
        *("user", "assistant", "usage-summary"),
        *("user", "assistant", "usage-summary"),
    ]
    usage = history[2].data
    assert (usage["kind"], usage["scope"], usage["total_tokens"]) == ("exact", "turn", 110)
    assert usage["context_max_tokens"] == 32_768
    assert (first.first_entry, first.last_entry) == (2, 3)
    assert [message.role for message in get_messages_for_api(history)] == [
        *(Role.USER, Role.ASSISTANT) * 2,
    ]


@pytest.mark.req("INT-5")
async def test_a_session_is_kept_after_each_prompt_and_goes_on(place: Place) -> None:
    session = place.session(["first"], name="the maze")
    async with session:
        await session.run("one")
        session_id = session.get_session_id()
    again = place.session(["second"], resume_session_id=session_id)
    async with again:
        assert again.get_session_id() == session_id
        assert again.get_name() == "the maze"
        await again.run("two")
    copy = place.session(["third"], resume_session_id=session_id, fork_session=True)
    async with copy:
        assert copy.get_session_id() != session_id
        await copy.set_name("a copy")
        await copy.run("three")
        store = copy.parts.store
        records = {record.id: record for record in await store.sessions()}
        original = records[session_id]
        assert original.name == "the maze"
        assert original.messages == 4
        assert records[copy.get_session_id()].name == "a copy"

    said = [message.text for message in place.provider.requests[0].messages]
    assert said == ["one", "first", "two", "second", "three"]
    with pytest.raises(SessionNotFound):
        await place.session(resume_session_id="nobody").open()


@pytest.mark.req("INT-5")
async def test_a_name_that_is_given_before_the_first_word_is_kept(place: Place) -> None:
    store = MemoryStore()
    async with place.session(["yes"], store=store) as session:
        await session.set_name("early")
        assert await store.sessions() == []
        await session.run("hi")
        assert [record.name for record in await store.sessions()] == ["early"]


@pytest.mark.req("INT-2")
async def test_a_shutdown_ends_what_runs_and_takes_no_more(place: Place) -> None:
    pause, results = Pause(), list[ExecutionResult]()
    session = place.session([[TextChunk("Half"), pause]])

    async def submit() -> None:
        results.append(await session.run("one"))

    await session.open()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(submit)
        await pause.reached.wait()
        await session.shutdown(reason="prompt_input_exit", message="the user left")
    await session.shutdown()

    assert results[0].interrupted
    with pytest.raises(SessionClosed):
        await session.run("more")


@pytest.mark.req("PRM-3", "INT-1")
async def test_clients_that_listen_are_asked_and_the_first_answer_counts(place: Place) -> None:
    heard = Heard()
    session = place.session([call_reply(("Bash", {"command": "echo yes | tee /dev/null"})), "done"])
    session.on_any(heard)

    def answer(request: object) -> None:
        asked = request
        assert isinstance(asked, PermissionRequest)
        assert (asked.tool_name, asked.target, asked.risk) == (
            "Bash",
            "echo yes | tee /dev/null",
            Risk.EXECUTE,
        )
        session.answer(asked.request_id, Approval.ONCE)
        with pytest.raises(SessionError, match="answered already"):
            session.answer(asked.request_id, Approval.NO)

    session.on("permission_request", answer)
    async with session:
        result = await session.run("run it")

    assert [state.result for state in result.tool_summaries] == ["success"]
    assert len(heard.of("permission_resolved")) == 1


@pytest.mark.req("PRM-3")
async def test_without_anybody_to_ask_a_question_is_a_no_and_is_told(place: Place) -> None:
    denied: list[tuple[str, str]] = []

    session = place.session([call_reply(("Bash", {"command": "echo yes | tee /dev/null"})), "done"])

    def note(event: PermissionDenied) -> None:
        denied.append((event.target, event.remedy))
        assert "there is no user to ask" in event.reason

    session.on("permission_denied", note)
    async with session:
        result = await session.run("run it")

    assert [state.result for state in result.tool_summaries] == ["denied"]
    assert denied == [
        ("echo yes | tee /dev/null", "--permission-mode bypassPermissions would allow it")
    ]


@pytest.mark.req("PRM-3")
async def test_a_question_about_a_command_shows_what_the_model_says_it_is_for(
    place: Place,
) -> None:
    shown: list[list[str]] = []
    call = {"description": "Publish\nit", "command": "echo yes > public.txt"}
    session = place.session([call_reply(("Bash", call)), "done"])

    def answer(request: PermissionRequest) -> None:
        shown.append(preview_request(request))
        session.answer(request.request_id, Approval.ONCE)

    session.on("permission_request", answer)
    async with session:
        await session.run("run it")

    assert shown == [["the model says: Publish it"]]
    assert (place.project / "public.txt").read_text() == "yes\n"


@pytest.mark.req("PRM-3")
async def test_a_no_of_the_user_names_nothing_that_would_allow_the_call(place: Place) -> None:
    remedies: list[str] = []

    async def refuse(_: Access, __: Decision) -> Approval:
        return Approval.NO

    call = call_reply(("Bash", {"command": "echo yes | tee /dev/null"}))
    session = place.session([call, "done"], permission_handler=refuse)
    session.on("permission_denied", lambda event: remedies.append(event.remedy))
    async with session:
        await session.run("run it")

    assert remedies == [""]


@pytest.mark.req("PRM-3")
async def test_what_is_allowed_for_the_project_is_not_asked_again(place: Place) -> None:
    asked: list[str] = []

    async def allow(access: Access, _: Decision) -> Approval:
        asked.append(access.target)
        return Approval.PROJECT

    replies: list[ScriptedReply] = [call_reply(("Bash", {"command": "git status"})), "done"]
    for _ in range(2):
        async with place.session(replies, permission_handler=allow) as session:
            result = await session.run("look")
            assert [state.result for state in result.tool_summaries] in (["success"], ["error"])

    assert asked == ["git status"]
    local = (place.project / ".clew" / "settings.local.json").read_text()
    assert "Bash(git status" in local


@pytest.mark.req("INT-6")
async def test_a_query_is_one_line_and_leaves_nothing_behind(place: Place) -> None:
    provider = ScriptedProvider(["The answer is 42.", call_reply(("Bash", {"command": "ls"})), "b"])
    query = create_query(
        provider,
        cwd=place.project,
        model="m",
        user_home=place.home,
        clew_home=place.clew_home,
        environ={},
    )
    words: list[str] = []

    assert await query("What is the answer?", on_text_delta=words.append) == "The answer is 42."
    assert "".join(words) == "The answer is 42."
    with pytest.raises(SessionError, match="1 time"):
        await query("Loop", max_turns=1, permission_mode=PermissionMode.BYPASS)
    assert not list(place.clew_home.rglob("sessions.db"))
    assert len(provider.requests[1].messages) == 1


async def test_an_option_that_is_misspelt_is_named(place: Place) -> None:
    with pytest.raises(TypeError, match="modell"):
        place.session(modell="x")  # type: ignore[call-arg]


@pytest.mark.req("SES-1")
async def test_nothing_can_be_asked_of_a_session_that_is_not_open(place: Place) -> None:
    session = place.session()
    with pytest.raises(SessionError, match="not open"):
        session.get_messages()
    await session.shutdown()


@pytest.mark.req("INT-1")
async def test_a_session_that_exists_already_gets_commands_and_clients(place: Place) -> None:
    provider, store = (
        ScriptedProvider([call_reply(("Bash", {"command": "touch x"})), "done"]),
        MemoryStore(),
    )
    heard = Heard()
    inner = Session(provider, model="m", store=store, tools=builtin_tools(), cwd=place.project)
    async with inner:
        session = InteractiveSession(
            session=inner, user_home=place.home, clew_home=place.clew_home, environ={}
        )
        session.on_any(heard)
        session.on(
            "permission_request", lambda asked: session.answer(asked.request_id, Approval.NO)
        )
        async with session:
            result = await session.run("look")
            await session.execute("/rename the maze")

            assert session.session is inner
            assert result.response == "done"
            assert [state.result for state in result.tool_summaries] == ["denied"]
            assert (await store.sessions())[0].name == "the maze"
        assert heard.names[0] == "user_message"
        assert not inner.state.is_closed
    with pytest.raises(TypeError, match="provider"):
        InteractiveSession(session=inner, provider=provider)
    with pytest.raises(TypeError, match="max_turns"):
        InteractiveSession(session=inner, max_turns=3)
    with pytest.raises(TypeError, match="needs a provider"):
        InteractiveSession()


@pytest.mark.req("TOL-3")
async def test_a_call_that_an_abort_cuts_short_says_so_in_its_error_code(place: Place) -> None:
    started = anyio.Event()

    @tool(risk=Risk.INSPECT)
    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await anyio.sleep_forever()
        return ""

    heard = Heard()
    session = place.session([call_reply(("wait", {}))], extra_tools=[wait])
    session.on_any(heard)
    async with session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.run, "go")
        await started.wait()
        session.abort()

    (ended,) = heard.of("tool_end")
    assert (ended.failed, ended.error_code) == (True, "interrupted")
