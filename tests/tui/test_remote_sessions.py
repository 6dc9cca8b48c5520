"""`clew --connect`: the terminal UI and print mode on a session of a server."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from clew.testing.fake_openai import text_response, tool_call_response
from clew.testing.server import ScriptedResponse, Stall
from tests.server.places import serving
from tests.tui.emulated import Place, clew_for

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.req("SRV-4")]


async def test_two_terminals_share_a_session_of_a_server(tmp_path: Path) -> None:
    place = Place.below(tmp_path)
    answers = (
        text_response("Hello there."),
        tool_call_response("Bash", '{"command": "touch new"}'),
        text_response("Made it."),
    )
    with anyio.fail_after(120):
        async with (
            serving(tmp_path, *answers) as api,
            clew_for(place, "--connect", api.server.url) as first,
        ):
            greeting = await first.prompted()
            assert greeting[0].startswith(f"session of {api.server.url}, in the folder")
            assert {"model: gpt-4o", "permission mode: default"} <= set(greeting)
            assert await first.says("hi") == ["Hello there."]
            async with clew_for(place, "--connect", api.server.url, "--continue") as second:
                assert "❯ hi" in await second.prompted()
                first.enters("make a file")
                await first.asked("touch new")
                await second.asked("touch new")
                await second.answers("y")
                await first.sees("Made it.")
                await second.sees("Made it.")
                await second.leaves()
            await first.prompted()
            assert (await first.leaves())[-1].startswith(
                f"resume with: clew --connect {api.server.url} --resume "
            )
    assert (place.project / "new").exists()


async def test_print_mode_answers_from_a_session_of_a_server(tmp_path: Path) -> None:
    place = Place.below(tmp_path)
    call = tool_call_response("Bash", '{"command": "touch new"}')
    answers = (text_response("One."), call, text_response("Not allowed."))
    async with serving(tmp_path, *answers) as api:
        connect = ("--connect", api.server.url)
        done = await place.runs(*connect, "-p", "hi")
        assert (done.returncode, done.stdout) == (0, "One.\n")

        done = await place.runs(*connect, "--continue", "-p", "make a file")
        assert (done.returncode, done.stdout.endswith("Not allowed.\n")) == (0, True), done.stderr
        assert not (place.project / "new").exists()

        done = await place.runs(*connect, "--sandbox", "off", "-p", "hi")
        assert done.returncode == 2
        assert "--sandbox is for the server" in done.stderr


async def test_print_mode_ends_when_its_session_is_closed(tmp_path: Path) -> None:
    place = Place.below(tmp_path)
    with anyio.fail_after(60):
        async with (
            serving(tmp_path, ScriptedResponse(steps=[Stall()])) as api,
            anyio.create_task_group() as tasks,
        ):

            async def close_when_it_runs() -> None:
                running: list[dict[str, Any]] = []
                while not running:
                    listed = (await api.call("GET", "/sessions"))["sessions"]
                    running = [one for one in listed if one.get("executing")]
                await api.call("POST", f"/sessions/{running[0]['id']}/close")

            tasks.start_soon(close_when_it_runs)
            done = await place.runs("--connect", api.server.url, "-p", "hi")

    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr


async def test_a_server_that_does_not_answer_is_a_clear_error(tmp_path: Path) -> None:
    place = Place.below(tmp_path)
    async with serving(tmp_path) as api:
        url = api.server.url

    done = await place.runs("--connect", url, "-p", "hi")

    assert done.returncode == 1
    assert f"cannot reach the server at {url}" in done.stderr
