"""`clew -p` with a prompt that begins with a command."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.testing.fake_openai import FakeOpenAI, fake_openai, text_response, tool_call_response
from tests.tui.emulated import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("CLI-1", "CMD-1")]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.below(tmp_path)


def skill(place: Place, name: str, body: str, *, fields: str = "") -> None:
    head = f"---\nname: {name}\ndescription: what {name} does\n{fields}\n---\n"
    place.write(f".claude/skills/{name}/SKILL.md", f"{head}{body}\n")


def at(server: FakeOpenAI, *more: str) -> tuple[str, ...]:
    return ("--base-url", server.url, "--model", "gpt-4o", *more)


async def result_of(place: Place, *arguments: str) -> dict[str, Any]:
    """Run `clew -p` and return the result that it prints as JSON."""
    done = await place.runs("-p", *arguments, "--output-format", "json")
    result: dict[str, Any] = msgspec.json.decode(done.stdout)
    assert done.returncode == (1 if result["error"] else 0)
    return result


@pytest.mark.req("SKL-1")
async def test_a_skill_runs_with_its_arguments_and_piped_input(place: Place) -> None:
    skill(place, "greet", "Greet $ARGUMENTS warmly.")
    async with fake_openai(text_response("Hello", " Ada")) as server:
        done = await place.runs("-p", "/greet Ada", *at(server))
        piped = await place.runs("-p", "-", *at(server), typed="/greet Ada\nand Grace\n")

    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello Ada\n", "")
    assert piped.stdout == "Hello Ada\n"
    said = [request["messages"][-1]["content"] for request in server.requests]
    assert said[0].startswith("Greet Ada warmly.")
    assert said[1].startswith("Greet Ada\nand Grace warmly.")


@pytest.mark.req("SKL-1", "AGT-1")
async def test_a_skill_that_runs_apart_prints_the_answer_of_its_agent(place: Place) -> None:
    place.write("notes.txt", "one\n")
    skill(place, "survey", "Survey $ARGUMENTS.", fields="context: fork\nagent: Explore")
    looks = tool_call_response("Glob", '{"pattern":"*.txt"}')
    async with fake_openai(
        looks, text_response("one file"), looks, text_response("one file")
    ) as server:
        done = await place.runs("-p", "/survey all", *at(server))
        result = await result_of(place, "/survey all", *at(server))

    assert (done.returncode, done.stdout, done.stderr) == (0, "one file\n", "")
    assert (result["text"], result["error"]) == ("one file", "")
    assert "data" not in result


async def test_a_command_prints_its_message_and_no_model_is_called(place: Place) -> None:
    async with fake_openai() as server:
        done = await place.runs("-p", "/context", *at(server, "--window", "20000"))

        assert server.requests == []
    lines = done.stdout.split("\n")
    assert lines[0].startswith("gpt-4o: ~")
    assert lines[0].endswith("%), ok")
    assert len(lines) == 13
    assert (done.returncode, done.stderr) == (0, "")


async def test_the_facts_of_a_command_are_in_the_result(place: Place) -> None:
    async with fake_openai() as server:
        result = await result_of(place, "/context", *at(server, "--window", "20000"))
        streamed = await place.runs(
            *("-p", "/mode plan", "--output-format", "stream-json", *at(server))
        )

    assert result["data"]["max_tokens"] == 20_000
    assert result["data"]["used_tokens"] == result["context"]["used_tokens"]
    assert {part["name"] for part in result["data"]["categories"]} >= {"system", "tools"}
    assert result["text"].startswith("gpt-4o: ~")
    last = msgspec.json.decode(streamed.stdout.splitlines()[-1])["event"]
    assert (last["event"], last["data"]) == ("result", {"mode": "plan"})


async def test_effects_that_are_left_to_the_caller_are_applied(place: Place) -> None:
    async with fake_openai(text_response("Hello")) as server:
        begun = await result_of(place, "hi", *at(server))
        named = await result_of(place, "/rename maze", "--continue", *at(server))
        listed = await place.runs("sessions", "list", "--json")

    assert begun["session_id"] == named["session_id"]
    assert "data" not in begun
    assert named["data"] == {"name": "maze"}
    assert '"maze"' in listed.stdout


@pytest.mark.parametrize("command", ["/reset", "/resume"])
async def test_commands_of_the_interactive_prompt_are_errors(place: Place, command: str) -> None:
    async with fake_openai() as server:
        done = await place.runs("-p", command, *at(server))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"clew: {command} works only at the interactive prompt; choose")


async def test_a_command_that_fails_says_why(place: Place) -> None:
    async with fake_openai() as server:
        done = await place.runs("-p", "/pin two", *at(server))
        result = await result_of(place, "/pin two", *at(server))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("clew: give the number of an entry")
    assert result["error"].startswith("give the number of an entry")


async def test_other_words_with_a_slash_go_to_the_model_as_they_are(place: Place) -> None:
    prompts = ["/etc/hosts: what is it?", " /nonsense  now"]
    async with fake_openai(text_response("ok")) as server:
        for prompt in prompts:
            assert (await place.runs("-p", prompt, *at(server))).stdout == "ok\n"

    said = [request["messages"][-1]["content"] for request in server.requests]
    assert said == prompts


async def test_a_mistyped_command_is_not_sent_to_the_model(place: Place) -> None:
    async with fake_openai(text_response("ok")) as server:
        mistyped = await place.runs("-p", "/contxt", *at(server))
        other = await place.runs("-p", "/nosuch", *at(server))

    assert mistyped.returncode == 1
    assert mistyped.stderr == "clew: there is no command /contxt; did you mean /context?\n"
    assert (other.stdout, len(server.requests)) == ("ok\n", 1)
