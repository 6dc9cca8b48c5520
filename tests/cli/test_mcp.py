"""`clew mcp`, as its own parser and in a folder of its own."""

import argparse
import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import anyio
import pytest
from mcp import Client, StdioServerParameters

from clew.cli.mcp import run_mcp
from clew.cli.mcp_arguments import add_mcp
from clew.core.errors import ConfigError
from clew.providers.scripted import ScriptedProvider
from clew.sdk.mcp_memory import make_server
from clew.sdk.session_store import ProjectStore, project_store
from clew.session.session import Session
from clew.stores.memory import MemoryStore
from clew.stores.protocol import Store
from tests.cli.test_config import Told
from tests.config.folders import Folders

pytestmark = pytest.mark.req("TOL-6")

SERVER = Path(__file__).parents[1] / "tools" / "mcp" / "plain_server.py"
Clew = Callable[..., Told]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    made = Folders(tmp_path)
    made.project.mkdir()
    made.home.mkdir()
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("CLEW_HOME", str(made.clew_home))
    monkeypatch.chdir(made.project)
    return made


@pytest.fixture
def clew(folders: Folders, capsys: pytest.CaptureFixture[str]) -> Clew:
    def run(*arguments: str) -> Told:
        parser = argparse.ArgumentParser()
        add_mcp(parser)
        code = run_mcp(parser.parse_args(arguments))
        told = capsys.readouterr()
        return Told(code, told.out, told.err)

    return run


def test_two_commands_lead_from_nothing_to_a_working_server(clew: Clew) -> None:
    added = clew("add", "plain", "--", sys.executable, str(SERVER))
    tested = clew("test", "plain")

    assert added.out == "added plain to ~/.clew/settings.json; try it with: clew mcp test plain\n"
    assert tested.code == 0
    assert "plain works" in tested.out
    assert "  mcp__plain__echo\n" in tested.out


@pytest.mark.parametrize(
    ("scope", "file"),
    [
        ("user", "../home/.clew/settings.json"),
        ("project", ".mcp.json"),
        ("local", ".clew/settings.local.json"),
    ],
)
def test_a_server_is_added_shown_and_removed(
    clew: Clew, folders: Folders, scope: str, file: str
) -> None:
    clew("add", "time", "--scope", scope, "-e", "ZONE=UTC", "--", "uvx", "mcp-server-time", "--utc")
    path = folders.project / file
    stored = json.loads(path.read_text())["mcpServers"]["time"]
    (shown,) = clew("list", "--json").json
    got = clew("get", "time")
    clew("remove", "time", "--scope", scope)

    assert stored == {
        "command": "uvx",
        "args": ["mcp-server-time", "--utc"],
        "env": {"ZONE": "UTC"},
    }
    assert (shown["name"], shown["transport"], shown["problem"]) == ("time", "stdio", "")
    assert "uvx mcp-server-time --utc" in got.out
    assert clew("list", "--json").json == []


def test_an_address_is_an_http_server_and_its_headers_are_not_shown(
    clew: Clew, folders: Folders
) -> None:
    clew("add", "docs", "https://example.com/mcp", "--header", "Authorization: Bearer abc123xyz789")
    clew("add", "--transport", "sse", "old", "https://example.com/sse")
    clew("add-json", "third", '{"type": "http", "url": "https://third.example/mcp"}')

    shown = clew("list", "--json")

    assert [(one["name"], one["transport"]) for one in shown.json] == [
        ("docs", "http"),
        ("old", "sse"),
        ("third", "http"),
    ]
    assert "abc123xyz789" not in shown.out + clew("get", "docs").out
    assert "abc123xyz789" in (folders.clew_home / "settings.json").read_text()


def test_a_server_of_a_folder_that_is_not_trusted_is_listed_and_not_started(
    clew: Clew, folders: Folders
) -> None:
    entry = {"command": "evil", "args": ["--now"]}
    (folders.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"evil": entry}}))

    shown = clew("list")

    assert "starts `evil --now`" in shown.out
    assert "clew config accept" in shown.out
    with pytest.raises(ConfigError, match="accept this folder"):
        clew("test", "evil")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("get", "nothing"), "there is no MCP server nothing; there are: none"),
        (("remove", "nothing"), "has no MCP server nothing"),
        (("add", "x", "example.com", "--transport", "http"), "example.com is not an address"),
        (("add", "x", "-e", "NAME", "command"), "not of the form NAME=VALUE"),
        (("add", "x", "-H", "A: b", "command"), "has no headers"),
        (("add", "x", "https://example.com", "more"), "no variables and arguments"),
        (("add", "a/b", "command"), "is not a name"),
        (("add-json", "x", "[]"), "write an object"),
        (("add-json", "x", "{"), "this is not JSON"),
        (("add-json", "x", '{"command": 3}'), "command"),
        (("add-json", "x", '{"command": "a", "kommand": "b"}'), "kommand"),
        (("add-json", "x", "{}"), "needs either a command or a url"),
        (("login", "nothing"), "there is no MCP server nothing"),
    ],
)
def test_a_mistake_says_what_is_wrong(clew: Clew, arguments: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        clew(*arguments)


def test_a_server_that_does_not_start_is_an_exit_code_and_a_reason(clew: Clew) -> None:
    clew("add", "plain", "--", sys.executable, str(SERVER), "failing")

    told = clew("test", "plain")

    assert told.code == 1
    assert "the database password is missing" in told.err


def test_a_program_that_is_not_installed_is_named(
    clew: Clew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    clew("add", "time", "--", "uvx", "mcp-server-time")

    tested = clew("test", "time")

    expected = "uvx cannot be started: there is no such program in your PATH; it comes with uv"
    assert (tested.code, expected in tested.err) == (1, True)


def test_the_last_lines_of_a_server_that_does_not_start_are_shown(clew: Clew) -> None:
    clew("add", "plain", "--", "sh", "-c", "echo no certificate >&2; echo see the log >&2; exit 1")

    tested = clew("test", "plain")

    assert tested.code == 1
    assert "it last wrote: see the log" in tested.err
    assert "clew:   no certificate\nclew:   see the log\n" in tested.err


def test_a_variable_that_is_not_set_is_named(clew: Clew) -> None:
    clew("add", "x", "-e", "KEY=${MISSING_KEY}", "--", "command")

    with pytest.raises(ConfigError, match="refers to the variable MISSING_KEY, which is not set"):
        clew("test", "x")


def test_the_settings_with_headers_are_private(clew: Clew, folders: Folders) -> None:
    clew("add", "docs", "https://example.com/mcp", "--header", "Authorization: Bearer abc")

    mode = (folders.clew_home / "settings.json").stat().st_mode

    assert not stat.S_IMODE(mode) & 0o077


async def start_conversation(store: Store, folder: Path) -> str:
    """Store a session of two turns; returns its name."""
    provider = ScriptedProvider(["The port is 5433.", "Noted."])
    async with Session(provider, model="m", store=store, cwd=folder) as session:
        await session.run("Which port does the database have?")
        await session.run("Remember it.")
        return session.session_id


async def check_memory(client: Client, name: str) -> None:
    """Check every tool of the server, about the session of that name."""
    listed = (await client.list_tools()).tools

    async def call(tool: str, **arguments: object) -> str:
        result = await client.call_tool(tool, arguments)
        return "".join(getattr(block, "text", "") for block in result.content)

    sessions = json.loads(await call("list_sessions"))
    hits = json.loads(await call("search_sessions", query="database port"))
    read = await call("recall", text="#3", session=name)
    state = json.loads(await call("context_state", session=name))
    preview = await call("preview_compaction", session=name)
    messages = [{"role": "user", "content": f"message {n} " * 50} for n in range(40)]
    fitted = json.loads(await call("fit_messages", messages=messages, max_tokens=2_000))
    wrong = await client.call_tool("context_state", {"session": "nothing"})

    assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed)
    assert [one["id"] for one in sessions] == [name]
    assert hits[0]["id"] == name
    assert "5433" in read
    assert state["used_tokens"] > 0
    assert "nothing can be compacted" in preview
    assert fitted["report"]["tokens_after"] <= 2_000
    assert wrong.is_error
    assert "no session matches nothing" in wrong.model_dump_json()


@pytest.mark.anyio
@pytest.mark.req("TOL-8")
async def test_other_agents_read_the_sessions_of_a_folder(tmp_path: Path) -> None:
    store = MemoryStore()
    name = await start_conversation(store, tmp_path)
    place = ProjectStore(store=store, folder=str(tmp_path))

    async with Client(make_server(place)) as client:
        await check_memory(client, name)


@pytest.mark.anyio
@pytest.mark.req("TOL-8")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_clew_mcp_serve_offers_the_sessions_over_stdio_in_both_protocols(
    tmp_path: Path, mode: Literal["auto", "legacy"]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    environ = {"HOME": str(tmp_path), "CLEW_HOME": str(tmp_path / "clew"), "PATH": "/usr/bin:/bin"}
    place = project_store(project, environ)
    name = await start_conversation(place.store, project)
    await place.store.aclose()
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "clew.cli", "mcp", "serve"],
        cwd=project,
        env=environ,
    )

    with anyio.fail_after(60):
        async with Client(command, mode=mode) as client:
            await check_memory(client, name)
