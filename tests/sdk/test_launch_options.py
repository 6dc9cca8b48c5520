"""The flags that shape a session: tools, folders, instructions, and the list of models."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.core.errors import ConfigError, SessionBusy
from clew.sdk.launch import launch
from clew.sdk.session import InteractiveSession
from clew.sdk.session_spec import SessionSpec
from clew.testing.fake_openai import FakeOpenAI, fake_openai, text_response, tool_call_response
from clew.testing.server import ScriptedResponse, serve

pytestmark = [pytest.mark.anyio, pytest.mark.req("CLI-2")]


@asynccontextmanager
async def opened(
    folder: Path, server: FakeOpenAI, **fields: Any
) -> AsyncIterator[InteractiveSession]:
    """Launch a session in `folder / project`."""
    (folder / "project").mkdir(exist_ok=True)
    usual = {"base_url": server.url, "model": "gpt-4o", "sandbox": "off"}
    spec = SessionSpec(cwd=str(folder / "project"), **{**usual, **fields})
    async with launch(spec, environ={"CLEW_HOME": str(folder / "clew")}) as launched:
        yield launched.session


def results(server: FakeOpenAI) -> list[str]:
    return [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]


async def test_rules_of_the_flags_allow_and_deny(tmp_path: Path) -> None:
    async with fake_openai(
        tool_call_response("Write", '{"file_path":"a.txt","content":"x"}'),
        tool_call_response("Write", '{"file_path":"b.txt","content":"x"}', call_id="call_2"),
        text_response("done"),
    ) as server:
        rules: dict[str, Any] = {
            "allowed_tools": ("Write",),
            "disallowed_tools": ("Bash", "Write(b.txt)"),
        }
        async with opened(tmp_path, server, **rules) as session:
            await session.run("go")
        tools = {tool["function"]["name"] for tool in server.requests[0]["tools"]}

        assert "Write" in tools
        assert "Bash" not in tools
        assert "denied" in results(server)[1]
    assert (tmp_path / "project" / "a.txt").exists()
    assert not (tmp_path / "project" / "b.txt").exists()


async def test_another_folder_can_be_read_and_the_instructions_are_appended(
    tmp_path: Path,
) -> None:
    other = tmp_path / "other [1]"
    other.mkdir()
    (other / "notes.txt").write_text("the answer is 42")
    call = '{"file_path":"' + str(other / "notes.txt") + '"}'
    async with fake_openai(tool_call_response("Read", call), text_response("done")) as server:
        async with opened(
            tmp_path, server, add_dirs=(str(other),), append_system_prompt="Speak like a pirate."
        ) as session:
            await session.run("go")

        assert "the answer is 42" in results(server)[0]
        system = server.requests[0]["messages"][0]["content"]
        assert system.endswith("\n\nSpeak like a pirate.")


async def test_the_effort_is_sent_and_kept_by_a_resume(tmp_path: Path) -> None:
    async with fake_openai(text_response("one"), text_response("two")) as server:
        async with opened(tmp_path, server, effort="low", model="gpt-5-mini") as session:
            await session.run("go")
        async with opened(tmp_path, server, latest=True, model="") as session:
            await session.run("on")

        assert [request["reasoning_effort"] for request in server.requests] == ["low", "low"]


async def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    async with fake_openai() as server:
        with pytest.raises(ConfigError, match="--add-dir nowhere: there is no such folder"):
            async with opened(tmp_path, server, add_dirs=("nowhere",)):
                pass


async def test_a_busy_session_is_answered_with_the_command_for_a_copy(tmp_path: Path) -> None:
    async with fake_openai(text_response("one")) as server, opened(tmp_path, server) as session:
        await session.run("go")
        session_id = session.get_session_id()

        with pytest.raises(SessionBusy, match=f"clew --fork {session_id}"):
            async with opened(tmp_path, server, resume=session_id):
                pass


async def test_model_and_its_completion_list_what_the_server_offers(tmp_path: Path) -> None:
    listing = ScriptedResponse(
        steps=[msgspec.json.encode({"data": [{"id": "tiny"}, {"id": "gpt-huge"}]})],
        content_type="application/json",
    )
    async with (
        serve(listing, method="GET", path="/v1/models") as server,
        fake_openai() as chat,
    ):
        server.url += "/v1"
        async with opened(tmp_path, server) as session:
            outcome = await session.execute("/model")
            (command,) = [one for one in await session.commands() if one.name == "model"]

            assert "openai_chat offers: tiny, gpt-huge" in outcome.message
            assert [one.name for one in command.subcommands] == ["tiny", "gpt-huge"]

            switched = await session.execute("/model gpt-huge")

            assert switched.message == "switched to gpt-huge: the same provider"
        async with opened(tmp_path, chat) as session:
            assert "offers" not in (await session.execute("/model")).message
    assert len(server.bodies) == 1
