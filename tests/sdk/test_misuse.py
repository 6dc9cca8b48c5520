"""What a program gets when it uses the SDK in the wrong way: at once, and with what to do."""

import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew import (
    Access,
    Approval,
    Decision,
    InteractiveSession,
    MemoryStore,
    ModelFacts,
    PermissionMode,
    PromptInput,
    Risk,
    Session,
    SlidingWindow,
    Usage,
    tool,
    wait_for_run,
)
from clew.core.errors import ConfigError, SessionError
from clew.core.events import PermissionDenied
from clew.core.permissions import PermissionAnswer
from clew.providers.protocol import Chunk, Finished, Request, StopReason, TextChunk
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.sdk.pipe_client import connect
from clew.sdk.remote import RemoteServer
from clew.stores.sqlite import SqliteStore
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.providers import ANSWER_CHECKS, AnswerCheck, ApiCapabilities, HttpHarness

pytestmark = pytest.mark.anyio

WRITE = call_reply(("Write", {"file_path": "note.txt", "content": "red"}))


def plain(text: str) -> str:
    """Return the text."""
    return text


@tool(risk=Risk.MODIFY, target="what")
def change(what: str) -> str:
    """Change something."""
    return f"{what} changed"


def interactive(folder: Path, *replies: Any, **options: Any) -> InteractiveSession:
    provider = options.pop("provider", None) or ScriptedProvider(replies)
    usual: Any = {"cwd": folder, "clew_home": folder / "home", "model": "scripted"}
    return InteractiveSession(provider=provider, **usual | options)


def conversation(**options: Any) -> Session:
    return Session(options.pop("provider", None) or ScriptedProvider([]), model="m", **options)


class Returns:
    """A provider whose `stream` returns its chunks."""

    name = "returns"

    def facts(self, model: str) -> object:
        return model

    async def stream(self, request: object) -> list[object]:
        return [request]


# --- options -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("provider", ScriptedProvider, r"not the class ScriptedProvider: write ScriptedProvider\("),
        ("provider", "anthropic", r"such as clew.providers.anthropic.Anthropic\(key\)"),
        ("provider", Returns(), "Returns.stream must be an async generator"),
        ("store", "sessions.db", "use clew.stores.open_store"),
        ("store", MemoryStore, r"write MemoryStore\("),
        ("tools", [plain], "plain is a plain function; decorate it with @clew.tool"),
        ("tools", change, "tools must be a list of tools"),
        ("tools", ["Read"], "'Read' is not a tool; see clew.Tool"),
        ("strategy", "sliding_window", "context_strategy='sliding_window'"),
        ("strategy", SlidingWindow, r"write SlidingWindow\("),
        ("strategy", object(), "must have due, target and plan"),
        ("max_turns", "3", "max_turns must be a whole number, not '3'"),
        ("max_turns", True, "max_turns must be a whole number"),
        ("budget_usd", "1", "budget_usd must be a number, not '1'"),
        ("tool_timeout", "5s", "tool_timeout must be a number"),
        ("system_message", 7, "system_message must be a text, not 7"),
        ("protect", "docs/spec.md", "protect must be a list of texts"),
    ],
)
def test_an_option_of_the_wrong_type_is_named_when_it_is_given(
    option: str, value: object, words: str, tmp_path: Path
) -> None:
    with pytest.raises(TypeError, match=words):
        conversation(**{option: value})
    with pytest.raises(TypeError, match=words):
        interactive(tmp_path, **{option: value})


def test_extra_tools_are_checked_like_tools(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="extra_tools: plain is a plain function"):
        interactive(tmp_path, extra_tools=[plain])


async def test_a_permission_mode_is_read_by_its_name_and_an_unknown_one_is_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="'plann'; choose one of: plan, default"):
        interactive(tmp_path, permission_mode="plann")
    with pytest.raises(ConfigError, match="there is no permission mode 'plann'"):
        conversation(permission_mode="plann")
    assert conversation(permission_mode="plan").get_permission_mode() is PermissionMode.PLAN

    async with interactive(tmp_path, permission_mode="acceptEdits") as session:
        assert session.session.get_permission_mode() is PermissionMode.ACCEPT_EDITS
        with pytest.raises(ConfigError, match="there is no permission mode 'bypass'"):
            await session.set_mode("bypass")  # type: ignore[arg-type]
        assert session.session.get_permission_mode() is PermissionMode.ACCEPT_EDITS


async def test_a_mode_that_the_settings_forbid_cannot_be_chosen_by_its_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "home").mkdir()
    settings = '{"permissions": {"disableBypassPermissionsMode": "disable"}}'
    (tmp_path / "home" / "settings.json").write_text(settings, encoding="utf-8")
    with pytest.raises(ConfigError, match="forbid the permission mode"):
        await interactive(tmp_path, permission_mode="bypassPermissions").open()
    async with interactive(tmp_path) as session:
        with pytest.raises(ConfigError, match="do not allow the mode"):
            await session.set_mode("bypassPermissions")  # type: ignore[arg-type]


async def test_folders_and_files_may_be_texts(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "sessions.db"))
    async with interactive(
        tmp_path,
        "Hello.",
        cwd=str(tmp_path),
        clew_home=str(tmp_path / "home"),
        user_home=str(tmp_path),
        store=store,
    ) as session:
        assert (await session.run("Hi.")).response == "Hello."
    assert (tmp_path / "sessions.db").exists()
    await store.aclose()


# --- prompts -------------------------------------------------------------------------------


async def test_a_prompt_is_a_text_or_a_prompt_input(tmp_path: Path) -> None:
    async with interactive(tmp_path, "One.", "Two.", "Three.") as session:
        assert (await session.run(PromptInput(text="1", attach=False))).response == "One."
        seq = (await session.snapshot()).seq
        run_id = await session.submit("2")
        assert (await wait_for_run(session, run_id, after=seq)).response == "Two."
        async with connect(session) as client:
            seq = (await client.snapshot()).seq
            run_id = await client.submit("3")
            assert (await wait_for_run(client, run_id, after=seq)).response == "Three."


@pytest.mark.parametrize("prompt", [None, 7, [{"role": "user", "content": "Hi."}]])
async def test_anything_else_is_refused_by_name(prompt: Any, tmp_path: Path) -> None:
    async with interactive(tmp_path) as session:
        with pytest.raises(TypeError, match="a prompt is a text or a PromptInput, not"):
            await session.run(prompt)
        with pytest.raises(TypeError, match="a prompt is a text or a PromptInput, not"):
            await session.submit(prompt)
        assert not session.is_executing()
    with pytest.raises(TypeError, match=r"a prompt is a text or a clew\.Message, not"):
        await conversation().run(prompt)


async def test_a_session_knows_its_id_and_its_cost_under_the_names_of_the_conversation(
    tmp_path: Path,
) -> None:
    async with interactive(tmp_path, "Hello.") as session:
        await session.run("Hi.")
        assert session.session_id == session.get_session_id() == session.session.session_id
        assert session.get_cost().calls == 1


# --- permission handlers -------------------------------------------------------------------


def once(access: Access, decision: Decision) -> Approval:
    return Approval.ONCE


async def yes(access: Access, decision: Decision) -> bool:
    return True


def named(access: Access, decision: Decision) -> Any:
    return "once"


def answered(access: Access, decision: Decision) -> PermissionAnswer:
    return PermissionAnswer(approval=Approval.SESSION)


@pytest.mark.parametrize("handler", [once, yes, named, answered])
async def test_a_handler_may_be_a_plain_function_and_answer_with_a_bool(
    handler: Callable[..., Any], tmp_path: Path
) -> None:
    async with interactive(tmp_path, WRITE, "Done.", permission_handler=handler) as session:
        result = await session.run("Note the colour.")

    assert result.tool_summaries[0].result == "success"
    assert (tmp_path / "note.txt").read_text(encoding="utf-8") == "red"


def no(access: Access, decision: Decision) -> bool:
    return False


def nobody(access: Access, decision: Decision) -> None:
    return None


async def fails(access: Access, decision: Decision) -> Approval:
    raise KeyError("rules")


def takes_one(request: object) -> Approval:
    return Approval.ONCE


def says_something(access: Access, decision: Decision) -> Any:
    return "certainly"


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (no, "the user said no"),
        (nobody, "there is no user to ask"),
        (fails, "the permission handler failed: KeyError: 'rules'"),
        (takes_one, "the permission handler failed: TypeError: takes_one"),
        (says_something, "returns an Approval, not 'certainly'"),
    ],
)
async def test_a_call_is_denied_if_its_handler_says_no_or_fails_and_the_reason_says_which(
    handler: Callable[..., Any], reason: str, tmp_path: Path
) -> None:
    denied: list[PermissionDenied] = []
    async with interactive(tmp_path, WRITE, "Done.", permission_handler=handler) as session:
        session.on("permission_denied", denied.append)
        result = await session.run("Note the colour.")

    assert result.tool_summaries[0].result == "denied"
    assert reason in denied[0].reason
    assert not (tmp_path / "note.txt").exists()


# --- tools ---------------------------------------------------------------------------------


def test_a_function_that_cannot_be_a_tool_is_refused_with_the_reason() -> None:
    async def steps(count: int) -> Any:
        """Count."""
        for number in range(count):
            yield number

    class Maze:
        def look(self, where: str) -> str:
            """Look."""
            return where

    with pytest.raises(TypeError, match="steps is a generator: a tool returns its whole result"):
        tool(steps)
    with pytest.raises(TypeError, match=r"look is a method: .* as in tool\(thing\.look\)"):
        tool(Maze.look)
    with pytest.raises(TypeError, match="there is no risk 'inspekt'; choose one of: inspect"):
        tool(risk="inspekt")(plain)  # type: ignore[call-overload]
    assert tool(Maze().look).spec.schema["required"] == ["where"]


async def test_a_risk_may_be_given_by_its_name() -> None:
    look = tool(risk="inspect")(plain)  # type: ignore[call-overload]
    provider = ScriptedProvider([call_reply(("plain", {"text": "a wall"})), "Done."])
    async with Session(provider, model="m", tools=[look]) as session:
        result = await session.execute("Look.")

    assert result.tool_summaries[0].result == "success"


# --- servers -------------------------------------------------------------------------------


async def test_a_server_that_is_not_open_or_closed_says_so() -> None:
    server = RemoteServer("http://127.0.0.1:9")
    with pytest.raises(SessionError, match="is not open: use `async with`"):
        await server.list()
    async with server:
        pass
    with pytest.raises(SessionError, match=r"the connection to .* is closed"):
        await server.list()


# --- conformance checks --------------------------------------------------------------------


class Lines:
    """A fake API without tools: one word per line."""

    content_type = "text/plain"

    def stream(self, reply: ModelReply) -> list[bytes]:
        end = f"end {reply.usage.input_tokens} {reply.usage.output_tokens}\n"
        return [*(json.dumps(word).encode() + b"\n" for word in reply.words), end.encode()]

    def whole(self, reply: ModelReply) -> bytes:
        return b"".join(self.stream(reply))

    def error(self, status: int, message: str) -> bytes:
        return f"{status} {message}".encode()


class LineProvider:
    """A provider for that API, as a user would write it."""

    name = "lines"

    def __init__(self, url: str) -> None:
        self._url = url

    def facts(self, model: str) -> ModelFacts:
        return ModelFacts(name=model, window=8_000, calls_tools=False, known=False)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        body = [message.text for message in request.messages]
        async with aiohttp.ClientSession() as http, http.post(self._url, json=body) as response:
            async for line in response.content:
                if line.startswith(b"end "):
                    _, read, written = line.split()
                    usage = Usage(input_tokens=int(read), output_tokens=int(written))
                    yield Finished(reason=StopReason.DONE, usage=usage)
                else:
                    yield TextChunk(json.loads(line))

    async def aclose(self) -> None:
        return None


@pytest.mark.parametrize("check", ANSWER_CHECKS, ids=lambda check: check.__name__)
async def test_a_provider_without_tools_passes_the_checks_that_apply_to_it(
    check: AnswerCheck,
) -> None:
    harness = HttpHarness(
        api=Lines(),
        make=lambda at: LineProvider(at.url),
        capabilities=ApiCapabilities(
            tool_calls=False, cache_reads=False, whole=False, reasons=frozenset({StopReason.DONE})
        ),
    )

    await check(harness)
