"""`clew acp`, driven by the client of the official SDK: sessions, prompts and questions."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import acp.schema
import anyio
import pytest
from acp import RequestError

from clew.sdk.launch import launch
from clew.sdk.session_spec import SessionSpec
from clew.testing.fake_openai import (
    ScriptedResponse,
    Stall,
    delta,
    error_response,
    fake_openai,
    text_response,
    tool_call_response,
)
from tests.acp.editor import Editor, connect

pytestmark = [pytest.mark.anyio, pytest.mark.req("ACP-1")]
WRITE = json.dumps({"file_path": "new.txt", "content": "one\ntwo\n"})


def stalling(*words: str) -> tuple[ScriptedResponse, Stall]:
    """Return an answer that stops in its middle, and what it waits for."""
    stall = Stall()
    return ScriptedResponse(steps=[*(delta(content=word) for word in words), stall]), stall


async def test_a_prompt_streams_its_answer_and_ends_the_turn(tmp_path: Path) -> None:
    async with (
        fake_openai(text_response("Hel", "lo")) as server,
        connect(tmp_path, server.url) as desk,
    ):
        session_id = await desk.open()
        result = await desk.ask(session_id, "hi")

    assert result.stop_reason == "end_turn"
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens) == (10, 2)
    assert desk.editor.text() == "Hello"
    assert {one["sessionId"] for one in desk.editor.updates} == {session_id}


async def test_the_gauge_of_the_editor_is_the_context_state(tmp_path: Path) -> None:
    async with (
        fake_openai(text_response(*["word "] * 1_500)) as server,
        connect(tmp_path, server.url) as desk,
    ):
        session_id = await desk.open()
        await desk.ask(session_id, "hi")
        last = desk.editor.of("usage_update")[-1]
        desk.editor.updates.clear()
        await desk.ask(session_id, "/context")

    assert (last["used"], last["size"]) == (1_510, 32_768)
    assert "1,510 of 32,768" in desk.editor.text()


async def test_a_write_is_asked_for_and_shown_as_a_diff(tmp_path: Path) -> None:
    async with (
        fake_openai(tool_call_response("Write", WRITE), text_response("done")) as server,
        connect(tmp_path, server.url) as desk,
    ):
        result = await desk.ask(await desk.open(), "write it")

    path = str(desk.cwd / "new.txt")
    (question,) = desk.editor.questions
    (start,) = desk.editor.of("tool_call")
    *_, end = desk.editor.of("tool_call_update")
    assert result.stop_reason == "end_turn"
    assert Path(path).read_text() == "one\ntwo\n"
    assert [option.kind for option in question.options] == [
        "allow_once",
        "allow_always",
        "allow_always",
        "reject_once",
    ]
    assert question.tool_call.tool_call_id == start["toolCallId"] == end["toolCallId"]
    assert (start["kind"], start["title"]) == ("edit", "Write new.txt")
    assert start["locations"] == [{"path": path}]
    assert end["status"] == "completed"
    assert end["content"] == [{"type": "diff", "path": path, "newText": "one\ntwo\n"}]


@pytest.mark.parametrize("answer", ["no", "cancelled", "nonsense"])
async def test_a_refused_call_fails_and_changes_nothing(tmp_path: Path, answer: str) -> None:
    async with (
        fake_openai(tool_call_response("Write", WRITE), text_response("ok")) as server,
        connect(tmp_path, server.url, editor=Editor(answer=answer)) as desk,
    ):
        await desk.ask(await desk.open(), "write it")

    assert desk.editor.of("tool_call_update")[-1]["status"] == "failed"
    assert not (desk.cwd / "new.txt").exists()


async def test_cancelling_ends_the_turn_and_keeps_what_was_said(tmp_path: Path) -> None:
    answer, _ = stalling("Half", " an")
    async with (
        fake_openai(answer, text_response("again")) as server,
        connect(tmp_path, server.url) as desk,
    ):
        session_id = await desk.open()
        results: list[acp.PromptResponse] = []

        async def ask() -> None:
            results.append(await desk.ask(session_id, "talk"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            while desk.editor.text() != "Half an":
                await anyio.lowlevel.checkpoint()
            await desk.agent.cancel(session_id=session_id)
        again = await desk.ask(session_id, "and now")

    assert [one.stop_reason for one in results] == ["cancelled"]
    assert again.stop_reason == "end_turn"
    assert desk.editor.text() == "Half anagain"


async def test_cancelling_withdraws_an_open_question(tmp_path: Path) -> None:
    editor = Editor(answer="cancelled", answering=anyio.Event())
    editor.answering = anyio.Event()
    async with (
        fake_openai(tool_call_response("Write", WRITE), text_response("ok")) as server,
        connect(tmp_path, server.url, editor=editor) as desk,
    ):
        session_id = await desk.open()
        results: list[acp.PromptResponse] = []

        async def ask() -> None:
            results.append(await desk.ask(session_id, "write it"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await editor.asked.wait()
            await desk.agent.cancel(session_id=session_id)
        editor.answering.set()

    assert [one.stop_reason for one in results] == ["cancelled"]
    assert not (desk.cwd / "new.txt").exists()


async def test_a_loaded_session_is_shown_again(tmp_path: Path) -> None:
    script = (tool_call_response("Write", WRITE), text_response("done"), text_response("more"))
    async with fake_openai(*script) as server:
        async with connect(tmp_path, server.url) as first:
            session_id = await first.open()
            await first.ask(session_id, "write it")
        async with connect(tmp_path, server.url) as desk:
            loaded = await desk.agent.load_session(cwd=str(desk.cwd), session_id=session_id)
            shown = list(desk.editor.updates)
            await desk.ask(session_id, "more")

    kinds = [one["sessionUpdate"] for one in shown]
    assert loaded.modes is not None
    assert kinds[:4] == [
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "agent_message_chunk",
    ]
    assert shown[0]["content"]["text"] == "write it"
    assert shown[2]["status"] == "completed"
    assert shown[2]["content"][0]["newText"] == "one\ntwo\n"
    assert shown[3]["content"]["text"] == "done"
    assert desk.editor.text() == "donemore"
    ids = [one["toolCallId"] for one in desk.editor.of("tool_call")]
    assert len(ids) == len(set(ids))


async def test_sessions_are_listed_resumed_forked_and_closed(tmp_path: Path) -> None:
    async with (
        fake_openai(text_response("one"), text_response("two")) as server,
        connect(tmp_path, server.url) as desk,
    ):
        session_id = await desk.open()
        await desk.ask(session_id, "first words")
        await desk.agent.close_session(session_id=session_id)
        with pytest.raises(RequestError, match="is not open"):
            await desk.ask(session_id, "hi")
        listed = await desk.agent.list_sessions(cwd=str(desk.cwd))
        await desk.agent.resume_session(cwd=str(desk.cwd), session_id=session_id)
        fork = await desk.agent.fork_session(cwd=str(desk.cwd), session_id=session_id)
        await desk.ask(fork.session_id, "second words")
        with pytest.raises(RequestError, match="there is no session"):
            await desk.agent.load_session(cwd=str(desk.cwd), session_id="none")

    assert [(one.session_id, one.title) for one in listed.sessions] == [(session_id, "first words")]
    assert desk.editor.of("user_message_chunk") == []
    said = [message["content"] for message in server.requests[-1]["messages"][1:]]
    assert fork.session_id != session_id
    assert [text for text in said if text in ("first words", "one", "second words")] == [
        "first words",
        "one",
        "second words",
    ]


async def test_modes_and_options_are_offered_and_changed(tmp_path: Path) -> None:
    async with (
        fake_openai(tool_call_response("Write", WRITE), text_response("ok")) as server,
        connect(tmp_path, server.url, model="gpt-oss") as desk,
    ):
        opened = await desk.agent.new_session(cwd=str(desk.cwd), mcp_servers=[])
        session_id = opened.session_id
        await desk.agent.set_session_mode(session_id=session_id, mode_id="acceptEdits")
        changed = await desk.agent.set_config_option(
            session_id=session_id, config_id="effort", value="high"
        )
        for name, value in (("effort", "most"), ("colour", "red"), ("mode", "none")):
            with pytest.raises(RequestError):
                await desk.agent.set_config_option(
                    session_id=session_id, config_id=name, value=value
                )
        await desk.ask(session_id, "write it")
        other = await desk.agent.set_config_option(
            session_id=session_id, config_id="model", value="m"
        )
        with pytest.raises(RequestError, match="no choice of reasoning effort"):
            await desk.agent.set_config_option(
                session_id=session_id, config_id="effort", value="low"
            )

    assert opened.modes is not None
    assert opened.modes.current_mode_id == "default"
    assert {one.id: one.current_value for one in other.config_options}["model"] == "m"
    values = {one.id: one.current_value for one in changed.config_options}
    assert values == {"mode": "acceptEdits", "model": "gpt-oss", "effort": "high"}
    assert desk.editor.of("current_mode_update")[0]["currentModeId"] == "acceptEdits"
    assert desk.editor.questions == []
    assert (server.requests[-1]["model"], server.requests[-1]["reasoning_effort"]) == (
        "gpt-oss",
        "high",
    )


async def test_commands_are_offered_and_carried_out(tmp_path: Path) -> None:
    async with fake_openai() as server, connect(tmp_path, server.url) as desk:
        session_id = await desk.open()
        result = await desk.ask(session_id, "/context")

    (offered,) = desk.editor.of("available_commands_update")
    names = {one["name"] for one in offered["availableCommands"]}
    assert result.stop_reason == "end_turn"
    assert {"context", "compact", "model"} <= names
    assert not {"theme", "resume"} & names
    assert "tokens" in desk.editor.text()
    assert server.bodies == []


async def test_a_prompt_has_images_links_and_resources(tmp_path: Path) -> None:
    pixel = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    async with (
        fake_openai(text_response("seen")) as server,
        connect(tmp_path, server.url) as desk,
    ):
        (desk.cwd / "linked.txt").write_text("LINKED CONTENT\n")
        (desk.cwd / "secret.txt").write_text("NOT TO BE READ\n")
        uri = (desk.cwd / "linked.txt").as_uri()
        await desk.agent.prompt(
            session_id=await desk.open(),
            prompt=[
                acp.schema.TextContentBlock(type="text", text="compare "),
                acp.schema.ResourceContentBlock(type="resource_link", name="linked.txt", uri=uri),
                acp.schema.ImageContentBlock(type="image", data=pixel, mime_type="image/png"),
                acp.schema.EmbeddedResourceContentBlock(
                    type="resource",
                    resource=acp.schema.TextResourceContents(
                        uri="file:///elsewhere/b.txt", text="EMBEDDED @secret.txt"
                    ),
                ),
            ],
        )

    sent = server.bodies[0].decode()
    assert "LINKED CONTENT" in sent
    assert "EMBEDDED @secret.txt" in sent
    assert "NOT TO BE READ" not in sent
    assert pixel in sent


OWN_FILES = acp.schema.ClientCapabilities(
    fs=acp.schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
)


async def test_unsaved_changes_of_the_editor_are_read_and_edited(tmp_path: Path) -> None:
    path = tmp_path / "project" / "a.txt"
    edit = {"file_path": "a.txt", "old_string": "unsaved", "new_string": "edited"}
    script = (
        tool_call_response("Read", json.dumps({"file_path": "a.txt"})),
        tool_call_response("Edit", json.dumps(edit), call_id="call_2"),
        text_response("done"),
    )
    editor = Editor(files={str(path): "unsaved text\n"})
    async with (
        fake_openai(*script) as server,
        connect(tmp_path, server.url, editor=editor, capabilities=OWN_FILES) as desk,
    ):
        path.write_bytes(b"text on disk\r\n")
        await desk.ask(await desk.open(), "change it")

    assert "unsaved text" in json.dumps(server.requests[1]["messages"])
    assert editor.files == {str(path): "edited text\r\n"}
    assert desk.editor.of("tool_call_update")[-1]["status"] == "completed"


async def test_files_that_the_editor_does_not_have_are_read_from_disk(tmp_path: Path) -> None:
    script = (
        tool_call_response("Read", json.dumps({"file_path": "a.txt"})),
        tool_call_response("Write", WRITE, call_id="call_2"),
        text_response("done"),
    )
    async with (
        fake_openai(*script) as server,
        connect(tmp_path, server.url, capabilities=OWN_FILES) as desk,
    ):
        (desk.cwd / "a.txt").write_text("text on disk\n")
        await desk.ask(await desk.open(), "read it")

    assert "text on disk" in json.dumps(server.requests[1]["messages"])
    assert desk.editor.files == {str(desk.cwd / "new.txt"): "one\ntwo\n"}


async def test_an_editor_that_cannot_save_fails_the_call(tmp_path: Path) -> None:
    class Broken(Editor):
        async def write_text_file(self, path: str, content: str, **_: object) -> Any:
            raise RequestError.internal_error({"details": "the disk is full"})

    async with (
        fake_openai(tool_call_response("Write", WRITE), text_response("ok")) as server,
        connect(tmp_path, server.url, editor=Broken(), capabilities=OWN_FILES) as desk,
    ):
        await desk.ask(await desk.open(), "write it")

    assert desk.editor.of("tool_call_update")[-1]["status"] == "failed"
    assert "the editor refuses" in json.dumps(server.requests[1]["messages"])
    assert not (desk.cwd / "new.txt").exists()


async def test_mcp_servers_of_the_editor_are_servers_of_the_session(tmp_path: Path) -> None:
    program = Path(__file__).parents[1] / "tools" / "mcp" / "plain_server.py"
    server = acp.schema.McpServerStdio(
        name="own", command=sys.executable, args=[str(program)], env=[]
    )
    (tmp_path / "clew").mkdir()
    (tmp_path / "clew" / "clew.toml").write_text("[mcp]\nstartupWait = 60000\n")
    async with fake_openai(text_response("ok")) as model, connect(tmp_path, model.url) as desk:
        opened = await desk.agent.new_session(cwd=str(desk.cwd), mcp_servers=[server])
        await desk.ask(opened.session_id, "hi")

    offered = [one["function"]["name"] for one in model.requests[0]["tools"]]
    assert [name for name in offered if name.startswith("mcp__own__")]


OWN_TERMINAL = acp.schema.ClientCapabilities(terminal=True)


async def test_commands_run_in_the_terminal_of_the_editor(tmp_path: Path) -> None:
    commands = ("mkdir sub && cd sub && echo $EDITOR_TOKEN-$CLEW", "pwd; exit 3")
    calls = [
        tool_call_response("Bash", json.dumps({"command": one}), call_id=one[:5])
        for one in commands
    ]
    async with (
        fake_openai(*calls, text_response("ok")) as server,
        connect(tmp_path, server.url, capabilities=OWN_TERMINAL) as desk,
    ):
        await desk.ask(await desk.open(), "go")

    said = [one["content"] for one in server.requests[-1]["messages"] if one["role"] == "tool"]
    assert said[0].startswith("-1\n")
    assert said[1].endswith(f"{desk.cwd}/sub\n[exit code 3]")
    assert len(desk.editor.questions) == 1  # The second command only reads.
    assert desk.editor.closed == ["release 0", "release 1"]
    ends = [one for one in desk.editor.of("tool_call_update") if "status" in one]
    assert [one["content"] for one in ends] == [
        [{"type": "terminal", "terminalId": number}] for number in "01"
    ]
    assert not desk.checker.failures


async def test_a_denied_command_does_not_reach_the_terminal(tmp_path: Path) -> None:
    script = tool_call_response("Bash", json.dumps({"command": "make"})), text_response("ok")
    async with (
        fake_openai(*script) as server,
        connect(
            tmp_path, server.url, editor=Editor(answer="no"), capabilities=OWN_TERMINAL
        ) as desk,
    ):
        await desk.ask(await desk.open(), "go")

    assert desk.editor.terminals == []


async def test_cancelling_kills_the_command_in_the_terminal(tmp_path: Path) -> None:
    script = [tool_call_response("Bash", json.dumps({"command": "sleep 600"}))]
    async with (
        fake_openai(*script) as server,
        connect(tmp_path, server.url, capabilities=OWN_TERMINAL) as desk,
        anyio.create_task_group() as tasks,
    ):
        session_id = await desk.open()
        tasks.start_soon(desk.ask, session_id, "go")
        await desk.editor.started.wait()
        await desk.agent.cancel(session_id=session_id)

    assert desk.editor.closed == ["kill 0", "release 0"]


async def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    slow = json.dumps({"command": "sleep 600", "timeout": 0.1})
    script = tool_call_response("Bash", slow), text_response("ok")
    async with (
        fake_openai(*script) as server,
        connect(tmp_path, server.url, capabilities=OWN_TERMINAL) as desk,
    ):
        await desk.ask(await desk.open(), "go")

    assert "timed out after 0.1 s" in json.dumps(server.requests[1]["messages"])
    assert desk.editor.closed == ["kill 0", "release 0"]


async def test_a_command_runs_without_a_terminal_that_cannot_be_opened(tmp_path: Path) -> None:
    class Broken(Editor):
        async def create_terminal(self, *_: Any, **__: Any) -> Any:
            raise acp.RequestError.internal_error()

    script = tool_call_response("Bash", json.dumps({"command": "echo hi"})), text_response("ok")
    async with (
        fake_openai(*script) as server,
        connect(tmp_path, server.url, editor=Broken(), capabilities=OWN_TERMINAL) as desk,
    ):
        await desk.ask(await desk.open(), "go")

    assert server.requests[1]["messages"][-1]["content"] == "hi"


async def test_a_call_on_demand_is_shown_as_that_of_its_tool(tmp_path: Path) -> None:
    program = Path(__file__).parents[1] / "tools" / "mcp" / "plain_server.py"
    server = acp.schema.McpServerStdio(
        name="own", command=sys.executable, args=["-S", str(program)], env=[]
    )
    (tmp_path / "clew").mkdir()
    settings = "[mcp]\nstartupWait = 60000\ndeferThreshold = 0\n"
    (tmp_path / "clew" / "clew.toml").write_text(settings)
    wanted = {"tool": "mcp__own__fail", "arguments": {"text": "hello"}}
    script = tool_call_response("CallMcpTool", json.dumps(wanted)), text_response("ok")
    async with fake_openai(*script) as model:
        async with connect(tmp_path, model.url) as desk:
            opened = await desk.agent.new_session(cwd=str(desk.cwd), mcp_servers=[server])
            await desk.ask(opened.session_id, "go")
        async with connect(tmp_path, model.url) as later:
            await later.agent.load_session(cwd=str(later.cwd), session_id=opened.session_id)

    asked = [one.tool_call.model_dump(mode="json", by_alias=True) for one in desk.editor.questions]
    shown = [*desk.editor.of("tool_call"), *asked, *later.editor.of("tool_call")]
    assert [(one["title"], one["rawInput"]) for one in shown] == [
        ("mcp__own__fail hello", {"text": "hello"})
    ] * 3


async def test_the_todo_list_is_a_plan(tmp_path: Path) -> None:
    todos = [
        {"content": "Look", "status": "completed", "activeForm": "Looking"},
        {"content": "Write", "status": "in_progress", "activeForm": "Writing"},
    ]
    call = tool_call_response("TodoWrite", json.dumps({"todos": todos}))
    async with (
        fake_openai(call, text_response("ok")) as server,
        connect(tmp_path, server.url) as desk,
    ):
        await desk.ask(await desk.open(), "plan")

    assert desk.editor.of("plan")[-1]["entries"] == [
        {"content": "Look", "priority": "medium", "status": "completed"},
        {"content": "Write", "priority": "medium", "status": "in_progress"},
    ]


async def test_a_failed_run_is_an_error_that_says_why(tmp_path: Path) -> None:
    refused = error_response(400, {"error": {"message": "no such thing"}})
    async with fake_openai(refused) as server, connect(tmp_path, server.url) as desk:
        with pytest.raises(RequestError, match="no such thing"):
            await desk.ask(await desk.open(), "hi")


async def test_a_second_prompt_waits_and_a_third_is_refused(tmp_path: Path) -> None:
    answer, _ = stalling("one")
    async with (
        fake_openai(answer, text_response("two")) as server,
        connect(tmp_path, server.url) as desk,
    ):
        session_id = await desk.open()
        ends: list[str] = []
        refused = anyio.Event()

        async def ask(text: str) -> None:
            try:
                ends.append((await desk.ask(session_id, text)).stop_reason)
            except RequestError as error:
                ends.append(str(error.code))
                refused.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "first")
            while desk.editor.text() != "one":
                await anyio.lowlevel.checkpoint()
            tasks.start_soon(ask, "second")
            tasks.start_soon(ask, "third")
            await refused.wait()
            await desk.agent.cancel(session_id=session_id)

    assert ends == ["-32600", "cancelled", "cancelled"]


async def test_a_waiting_prompt_that_is_not_wanted_leaves_the_one_that_works(
    tmp_path: Path,
) -> None:
    stall = Stall()
    answer = ScriptedResponse(steps=[delta(content="one"), stall, *text_response("two").steps])
    async with fake_openai(answer) as server, connect(tmp_path, server.url) as desk:
        session_id = await desk.open()
        ends: list[str] = []

        async def ask() -> None:
            ends.append((await desk.ask(session_id, "first")).stop_reason)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            while desk.editor.text() != "one":
                await anyio.lowlevel.checkpoint()
            prompt = {
                "sessionId": session_id,
                "prompt": [{"type": "text", "text": "second"}],
            }
            for method, params, number in (
                ("session/prompt", prompt, {"id": "second"}),
                ("$/cancel_request", {"requestId": "second"}, {}),
            ):
                line = {"jsonrpc": "2.0", "method": method, "params": params, **number}
                await desk.transport.send_raw(json.dumps(line).encode() + b"\n")
            await desk.agent.list_sessions()
            assert ends == []
            stall.release()

    assert ends == ["end_turn"]
    assert desk.editor.text() == "onetwo"


async def test_closing_a_session_ends_its_turn(tmp_path: Path) -> None:
    answer, _ = stalling("Half")
    async with fake_openai(answer) as server, connect(tmp_path, server.url) as desk:
        session_id = await desk.open()
        ends: list[str] = []

        async def ask() -> None:
            ends.append((await desk.ask(session_id, "talk")).stop_reason)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            while desk.editor.text() != "Half":
                await anyio.lowlevel.checkpoint()
            await desk.agent.close_session(session_id=session_id)

    assert ends == ["cancelled"]


async def test_wrong_lines_get_errors_and_the_connection_lives(tmp_path: Path) -> None:
    async with fake_openai(text_response("ok")) as server, connect(tmp_path, server.url) as desk:
        for line in (
            b"nonsense\n",
            b"[]\n",
            b"{}\n",
            b'{"jsonrpc":"2.0","method":"session/unknown"}\n',
            b'{"jsonrpc":"2.0","id":"x","method":"session/cancel","params":{"sessionId":"s"}}\n',
            b"\xff\xfe\n",
        ):
            await desk.transport.send_raw(line)
        with pytest.raises(RequestError, match="there is no method") as unknown:
            await desk.agent.ext_method("clew/none", {})
        with pytest.raises(RequestError, match="wrong parameters") as wrong:
            await desk.agent._conn.send_request("session/new", {"cwd": 7})
        with pytest.raises(RequestError, match="not an absolute path"):
            await desk.agent.new_session(cwd="relative")
        result = await desk.ask(await desk.open(), "hi")

    assert (unknown.value.code, wrong.value.code) == (-32601, -32602)
    assert result.stop_reason == "end_turn"


async def test_a_session_that_cannot_be_opened_is_an_error_that_says_why(tmp_path: Path) -> None:
    async with fake_openai(text_response("ok")) as server, connect(tmp_path, server.url) as desk:
        with pytest.raises(RequestError, match="nowhere") as failed:
            await desk.agent.new_session(cwd=str(tmp_path / "nowhere"), mcp_servers=[])
        result = await desk.ask(await desk.open(), "hi")

    assert failed.value.data == {"type": "ConfigError"}
    assert result.stop_reason == "end_turn"


async def test_the_editor_shows_that_a_folder_is_not_trusted(tmp_path: Path) -> None:
    async with fake_openai(text_response("ok")) as server, connect(tmp_path, server.url) as desk:
        (desk.cwd / "clew.toml").write_text('[permissions]\nallow = ["Bash(*)"]\n')
        await desk.ask(await desk.open(), "hi")

    assert "permissions.allow" in desk.editor.text("agent_thought_chunk")


async def test_an_editor_that_leaves_in_mid_run_loses_nothing(tmp_path: Path) -> None:
    answer, _ = stalling("Half", " an")
    async with fake_openai(answer) as server:
        async with connect(tmp_path, server.url) as desk, anyio.create_task_group() as tasks:
            session_id = await desk.open()

            async def ask() -> None:
                with pytest.raises((ConnectionError, RequestError)):
                    await desk.ask(session_id, "talk")

            tasks.start_soon(ask)
            while desk.editor.text() != "Half an":
                await anyio.lowlevel.checkpoint()
            await desk.agent.close()
        environ = {"HOME": str(tmp_path), "CLEW_HOME": str(tmp_path / "clew")}
        async with launch(
            SessionSpec(cwd=str(desk.cwd), resume=session_id), environ=environ
        ) as launched:
            messages = launched.session.get_messages()

    assert [message.text for message in messages] == ["talk", "Half an"]
    assert messages[-1].interrupted
