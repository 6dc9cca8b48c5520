"""The first start in a folder: who answers when nothing is configured, and whom to trust."""

import socket
from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest

from clew.config.settings import Settings
from clew.providers.profiles import PROFILES
from clew.sdk.local_servers import USUAL, find_local_server
from clew.sdk.model_choice import ModelChoice, ModelChooser
from clew.sdk.session_spec import SessionSpec
from clew.testing.fake_openai import (
    ScriptedResponse,
    error_response,
    fake_openai,
    text_response,
    tool_call_response,
)
from clew.testing.server import FakeServer, serve
from tests.tui.emulated import CTRL_C, Person, Place, clew_for

pytestmark = pytest.mark.anyio

NOTHING_ASKED = SessionSpec(cwd=".")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.below(tmp_path)


async def choose(addresses: dict[str, str], **environ: str) -> ModelChoice:
    """Return what is chosen where servers could only be at these addresses."""
    chooser = ModelChooser(Settings(), environ)
    choice = await chooser.choose_first(NOTHING_ASKED, partial(find_local_server, addresses))
    await choice.provider.aclose()
    return choice


def lists(*names: str) -> ScriptedResponse:
    return ScriptedResponse(steps=[msgspec.json.encode({"data": [{"id": name} for name in names]})])


def is_free(family: str) -> bool:
    """Does nothing listen where the servers of a family usually are?"""
    port = int(PROFILES[family].base_url.rpartition(":")[2].removesuffix("/v1"))
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


NOWHERE = "http://127.0.0.1:9/v1"


@pytest.mark.req("CLI-1", "PRV-1")
async def test_ollama_is_looked_for_where_its_variable_says() -> None:
    async with serve(error_response(404, {"error": "no such page"}), lists("qwen3:8b")) as server:
        found = await find_local_server(environ={"OLLAMA_HOST": server.url.removeprefix("http://")})
        assert found is not None
        await found.provider.aclose()

    assert (found.provider.name, found.model) == ("ollama", "qwen3:8b")


@pytest.mark.req("CLI-1", "PRV-1")
@pytest.mark.parametrize("family", USUAL)
async def test_a_server_on_this_machine_answers_where_no_key_is_set(family: str) -> None:
    own_list = () if family == "llama_cpp" else (error_response(404, {"error": "no such page"}),)
    async with serve(*own_list, lists("qwen3:8b", "gemma")) as server:
        choice = await choose({family: f"{server.url}/v1"})

    assert (choice.provider.name, choice.model) == (family, "qwen3:8b")
    assert choice.why == f"{family} answers on this machine, and no key is set"


@pytest.mark.req("CLI-1", "PRV-1")
async def test_a_server_that_is_silent_or_has_no_model_is_passed_over() -> None:
    async with serve(lists()) as empty, serve(lists("gemma")) as full:
        choice = await choose(
            {"ollama": NOWHERE, "lm_studio": f"{empty.url}/v1", "llama_cpp": f"{full.url}/v1"}
        )

    assert (choice.provider.name, choice.model) == ("llama_cpp", "gemma")


@pytest.mark.req("CLI-1", "PRV-1")
async def test_without_key_and_server_the_embedded_model_answers() -> None:
    choice = await choose(dict.fromkeys(USUAL, NOWHERE))

    assert (choice.provider.name, choice.model) == ("embedded", "smollm2-135m")
    assert choice.why == "the embedded model, on this machine"


@pytest.mark.req("CLI-1", "PRV-1")
async def test_a_key_in_the_environment_counts_above_a_server_on_this_machine() -> None:
    async with serve(lists("gemma")) as server:
        choice = await choose({"llama_cpp": f"{server.url}/v1"}, GEMINI_API_KEY="k")

    assert (choice.provider.name, choice.model) == ("gemini", "gemini-2.5-flash")
    assert choice.why == "gemini, as GEMINI_API_KEY is set"
    assert server.paths == []


@pytest.mark.req("CLI-1")
async def test_clew_starts_with_nothing_but_a_server_on_this_machine(place: Place) -> None:
    # Not at the usual port: every other `clew` of this machine would find the server there.
    async with (
        serve(
            error_response(404, {"error": "?"}),
            lists("qwen3:8b"),
            text_response("Hello"),
        ) as server,
        clew_for(place, OLLAMA_HOST=server.url) as person,
    ):
        shown = await person.prompted()
        assert shown[0] == "qwen3:8b: ollama answers on this machine, and no key is set"
        assert await person.says("hi") == ["Hello"]
        assert person.status.startswith("qwen3:8b · default · ")

    assert server.paths[:2] == ["/api/tags", "/v1/models"]


@pytest.mark.req("CLI-1")
async def test_clew_starts_with_nothing_but_a_key(place: Place) -> None:
    async with clew_for(place, ANTHROPIC_API_KEY="secret-key") as person:
        shown = await person.prompted()
        assert shown[0] == "claude-sonnet-4-6: anthropic, as ANTHROPIC_API_KEY is set"
        assert await person.leaves() == []
        assert "secret-key" not in "\n".join(person.lines)


@pytest.mark.req("CLI-1")
async def test_clew_starts_with_nothing_at_all(place: Place) -> None:
    if not all(is_free(family) for family in USUAL):
        pytest.skip("a server of models runs on this machine")
    async with clew_for(place) as person:
        shown = await person.prompted()
        assert shown[0] == "smollm2-135m: the embedded model, on this machine"
        assert person.status.startswith("smollm2-135m · default · ")
        assert await person.leaves() == []


def demanding(place: Place, *, touched: str = "hooked") -> Path:
    """Write settings that ask for more than a folder may; return what their hook makes."""
    hook = {"type": "command", "command": f"touch {touched}"}
    settings = {
        "permissions": {"allow": ["Bash(make:*)"]},
        "hooks": {"SessionStart": [{"hooks": [hook]}]},
    }
    place.write(".claude/settings.json", msgspec.json.encode(settings).decode())
    return place.project / touched


def at(server: FakeServer) -> tuple[str, ...]:
    return ("--base-url", server.url, "--model", "gpt-4o")


async def is_asked(person: Person, *, touched: str = "hooked") -> None:
    """See the question with all that the settings ask for."""
    shown = await person.sees("Do you trust this folder?", "Esc for none")
    assert f"hooks.SessionStart[0].hooks[0] runs `touch {touched}` on SessionStart" in " ".join(
        shown
    )
    assert any("permissions.allow allows Bash(make:*) without asking" in line for line in shown)


@pytest.mark.req("CFG-1", "CLI-1")
async def test_a_folder_is_trusted_once_and_asked_about_again_when_it_changes(
    place: Place,
) -> None:
    hooked = demanding(place)
    async with fake_openai() as server:
        async with clew_for(place, *at(server)) as person:
            await is_asked(person)
            assert not hooked.exists()
            person.types("x")
            assert not hooked.exists()
            person.types("y")
            await person.sees("accepted until one of these files changes")
            await person.prompted()
            assert hooked.exists()
            assert "allow: Bash(make:*)" in "\n".join(await person.says("/permissions"))
            await person.leaves()
        async with clew_for(place, *at(server)) as person:
            assert "trust" not in "\n".join(await person.prompted())
            await person.leaves()
        changed = demanding(place, touched="changed")
        async with clew_for(place, *at(server)) as person:
            await is_asked(person, touched="changed")
            assert not changed.exists()


@pytest.mark.req("CFG-1", "CLI-1")
async def test_a_no_is_remembered_until_the_settings_change(place: Place) -> None:
    hooked = demanding(place)
    async with fake_openai(
        tool_call_response("Bash", '{"command":"./a.sh all"}'), text_response("ok")
    ) as server:
        async with clew_for(place, *at(server)) as person:
            await is_asked(person)
            person.types("n")
            await person.sees("these settings are ignored; `clew config accept` accepts them later")
            await person.prompted()
            person.enters("go")
            shown = await person.asked("./a.sh all")
            assert not any(line.startswith("  p  ") for line in shown)
            await person.answers("n")
            await person.prompted()
            assert "nothing is allowed for this session" in await person.says("/permissions")
            await person.leaves()
        async with clew_for(place, *at(server)) as person:
            shown = await person.prompted()
            assert "Do you trust" not in "\n".join(shown)
            assert "some settings of this folder have no effect" in "\n".join(shown)
            await person.leaves()
        demanding(place, touched="changed")
        async with clew_for(place, *at(server)) as person:
            await is_asked(person, touched="changed")
            person.types(CTRL_C)
            with anyio.fail_after(60):
                assert await person.process.wait() == 130

    assert not hooked.exists()
    assert {path.name for path in place.project.iterdir()} == {".claude"}


@pytest.mark.req("CFG-1", "CLI-1")
async def test_without_a_terminal_there_is_no_question_and_nothing_runs(place: Place) -> None:
    hooked = demanding(place)
    async with fake_openai(text_response("Hello")) as server:
        done = await place.runs("-p", "hi", *at(server))

    assert (done.returncode, done.stdout) == (0, "Hello\n")
    assert "some settings of this folder have no effect until you accept them" in done.stderr
    assert not hooked.exists()
